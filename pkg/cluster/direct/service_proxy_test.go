package direct_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/tools/pace"
)

// F10, F29: a member whose Cluster has no address is dialled through its kube-apiserver, by the one path that the hub's account may get and with the
// credential of the kubeconfig; where that fails it is said why, and what to look at.
func TestAMemberIsDialledThroughItsKubeAPIServer(t *testing.T) {
	fleet := linktest.NewAuthority(t)
	at := &answering{ctx: t.Context()}
	at.become(fleet.Member(t, dialledUID))
	var code atomic.Int64
	kube := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case r.Header.Get("Authorization") != "Bearer canary":
			w.WriteHeader(http.StatusUnauthorized)
		case path == "/api/v1/namespaces/kubesphere-system/configmaps/"+join.Invitation:
			invites(w)
		case path != "/api/v1/namespaces/kubesphere-system/services/ks-apiserver:80/proxy"+join.PathDirect:
			t.Errorf("it asks for %s", path)
		case code.Load() != http.StatusOK:
			w.WriteHeader(int(code.Load()))
		default:
			at.ServeHTTP(w, r)
		}
	}))
	defer kube.Close()
	text := kubeconfigOf(t, kube)
	members := &cluster.Members{Identity: fleet.Hub(t), Host: "host", Now: time.Now}
	raw, err := json.Marshal(&clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "m1", UID: types.UID(dialledUID)},
		Spec: clusterv1alpha1.ClusterSpec{Enable: true, Connection: clusterv1alpha1.Connection{Type: clusterv1alpha1.ConnectionDirect, KubeConfig: text}}})
	if err != nil {
		t.Fatal(err)
	}
	members.Set(&store.Object{Name: "m1", Raw: raw})
	failed := make(chan error, 100)
	d := &direct.Dialing{Members: members, Hub: "u-hub", Transport: func(*rest.Config) {}, Failed: func(_ context.Context, _ *cluster.Member, err error) {
		select {
		case failed <- err:
		default:
		}
	}}
	code.Store(http.StatusForbidden)
	go d.Run(t.Context())
	for _, x := range []struct {
		code int
		want string
	}{
		{http.StatusForbidden, "may not get services/proxy of ks-apiserver:80"}, {http.StatusNotFound, "no Service ks-apiserver"},
		{http.StatusServiceUnavailable, "no pod of the Service"}, {http.StatusBadGateway, "takes WebSockets away (502)"},
	} {
		code.Store(int64(x.code))
		said := ""
		for !strings.Contains(said, x.want) { // until the last attempt before it has ended
			said = (<-failed).Error()
		}
		if strings.Contains(said, kube.URL) || strings.Contains(said, "canary") {
			t.Errorf("it says %s", said)
		}
	}
	code.Store(http.StatusOK)
	m := members.ByName("m1")
	err = pace.Until(t.Context(), time.Minute, func(context.Context) error {
		if linked, _ := m.Linked(); !linked {
			return fmt.Errorf("it is not linked: %w", io.EOF)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := m.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the member answers %d", resp.StatusCode)
	}
}
