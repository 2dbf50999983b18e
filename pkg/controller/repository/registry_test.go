package repository_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// X16: a container registry is a repository like any other: its charts become versions, and one that is settled costs no write.
func TestARegistryBecomesVersions(t *testing.T) {
	m := newMuseum(t, plan("shop", "1.0.0"))
	var down atomic.Bool
	in := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		in.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	push := func(version, content string) {
		t.Helper()
		charttest.Push(t, s.URL, "charts/shop", version, charttest.ArtifactOf("shop", version, []byte(content)))
	}
	push("1.0.0", "one")
	m.Patch(m.repo, `{"spec":{"url":"oci://`+host+`/charts","insecure":true,"depth":2}}`)
	m.later()
	m.is("shop-1.0.0")
	m.says(v1alpha1.ConditionSynced, metav1.ConditionTrue, "")
	m.says(v1alpha1.ConditionEntriesValid, metav1.ConditionTrue, "")
	v := &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: "shop-1.0.0"}}
	if m.Has(v); v.Spec.ChartURL != "oci://"+host+"/charts/shop:1.0.0" || v.Spec.Digest != chart.Digest([]byte("one")) || v.Spec.Repository != "museum" {
		t.Errorf("%+v", v.Spec)
	}
	if n := m.Written(m.later); n != 0 {
		t.Errorf("settled, it has %d writes", n)
	}
	push("1.0.0", "another") // the tag is moved
	push("2.0.0", "two")
	push("3.0.0", "three")
	m.later()
	m.is("shop-1.0.0(BeyondDepth) shop-2.0.0 shop-3.0.0")
	down.Store(true)
	m.later()
	m.is("shop-1.0.0(BeyondDepth) shop-2.0.0 shop-3.0.0")
	m.says(v1alpha1.ConditionSynced, metav1.ConditionFalse, "answers 502")
	down.Store(false)
	push("4.0.0+build", "four")
	m.Patch(m.repo, `{"spec":{"depth":3}}`)
	m.later()
	m.says(v1alpha1.ConditionEntriesValid, metav1.ConditionFalse, "1 entries are left out: shop \"4.0.0+build\": the version")
	if m.Has(v); v.Spec.Digest != chart.Digest([]byte("another")) {
		t.Errorf("the moved tag has the digest %s", v.Spec.Digest)
	}
	m.is("shop-1.0.0 shop-2.0.0 shop-3.0.0")
}
