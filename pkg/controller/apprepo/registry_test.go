package apprepo_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// X32: a registry is a Repo as an index is: settled it is left alone, broken it takes nothing away, and what is gone goes.
func TestX32ARegistryBecomesApplications(t *testing.T) {
	var broken atomic.Bool
	var in atomic.Pointer[http.Handler]
	fresh := func() {
		h := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
		in.Store(&h)
	}
	fresh()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() && r.Method != http.MethodPost {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		(*in.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	push := func(name string, versions ...string) {
		for _, v := range versions {
			a := charttest.ArtifactOf(name, v, []byte(name+v))
			a.Config.Raw = []byte(`{"name":"` + name + `","version":"` + v + `","description":"sells","icon":"https://shop.example/i.png"}`)
			charttest.Push(t, s.URL, "charts/"+name, v, a)
		}
	}
	push("shop", "1.0.0", "1.1.0")
	push("pay", "2.0.0")
	m := newMuseum(t)
	there := &applicationv2.Repo{}
	there.Name = "museum"
	if !m.Has(there) {
		t.Fatal("the repository is gone")
	}
	before := there.DeepCopy()
	there.Spec.URL = "oci" + strings.TrimPrefix(s.URL, "http") + "/charts"
	there.Spec.Credential.InsecureSkipTLSVerify = ptr.To(true)
	if err := m.Client.Patch(t.Context(), there, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		t.Fatal(err)
	}
	m.Reconcile(m.r, "museum")
	const all = "app:museum-pay app:museum-shop museum-pay-2.0.0 museum-shop-1.0.0 museum-shop-1.1.0"
	if got := m.there(); got != all {
		t.Fatalf("%s, want %s", got, all)
	}
	v := &applicationv2.ApplicationVersion{}
	v.Name = "museum-shop-1.1.0"
	if !m.Has(v) || !strings.HasPrefix(v.Spec.PullURL, "oci://") || !strings.HasSuffix(v.Spec.PullURL, "/charts/shop:1.1.0") || v.Spec.Digest == "" ||
		v.Spec.Icon != "https://shop.example/i.png" {
		t.Errorf("%+v", v.Spec)
	}
	if n := m.Written(m.later); n != 0 {
		t.Errorf("%d writes for a registry that is as it was", n)
	}
	broken.Store(true)
	m.read()
	if got := m.there(); got != all {
		t.Errorf("a broken registry leaves %s", got)
	}
	broken.Store(false)
	fresh()
	push("shop", "1.1.0", "1.2.0")
	m.read()
	if got, want := m.there(), "app:museum-shop museum-shop-1.1.0 museum-shop-1.2.0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
