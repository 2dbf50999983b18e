package direct_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/tools/pace"
)

const dialledUID = "0f8fad5b-d9cb-469f-a165-70867728950e"

// answering is what is at the address of a member: it makes links as somebody.
type answering struct {
	ctx context.Context

	mu sync.Mutex
	as link.Identity
}

func (a *answering) become(as link.Identity) { a.mu.Lock(); defer a.mu.Unlock(); a.as = as }

func (a *answering) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	conn.SetReadLimit(-1)
	a.mu.Lock()
	as := a.as
	a.mu.Unlock()
	_ = (&link.Handler{Identity: as, Handler: http.NotFoundHandler()}).Serve(a.ctx, websocket.NetConn(a.ctx, conn, websocket.MessageBinary), 0)
}

// invites answers as the kube-apiserver of a member that the hub u-hub has invited, and which has answered.
func invites(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]string{"name": join.Invitation},
		"data": map[string]string{join.InvitationHub: "u-hub", join.InvitationClusterUID: dialledUID, join.InvitationAnswer: "{}"}})
}

// kubeconfigOf returns a kubeconfig of a kube-apiserver, with the token canary.
func kubeconfigOf(t *testing.T, kube *httptest.Server) []byte {
	t.Helper()
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: kube.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: kube.Certificate().Raw})}
	kubeconfig.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: "canary"}
	kubeconfig.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	kubeconfig.CurrentContext = "c"
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// clusterOf returns a Cluster of type direct with such a kubeconfig, and with the address of its ks-apiserver; "" for none.
func clusterOf(t *testing.T, name, uid string, kube *httptest.Server, endpoint string) *store.Object {
	t.Helper()
	raw, err := json.Marshal(&clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)},
		Spec: clusterv1alpha1.ClusterSpec{Enable: true, Connection: clusterv1alpha1.Connection{Type: clusterv1alpha1.ConnectionDirect,
			KubeConfig: kubeconfigOf(t, kube), KubeSphereAPIEndpoint: endpoint}}})
	if err != nil {
		t.Fatal(err)
	}
	return &store.Object{Name: name, Raw: raw}
}

// F19, F31: where another cluster answers at the address of a member there is no link, and that is known until the member itself answers there.
func TestAnotherClusterAtTheAddressOfAMember(t *testing.T) {
	fleet, another := linktest.NewAuthority(t), linktest.NewAuthority(t)
	at := &answering{ctx: t.Context()}
	endpoint := httptest.NewTLSServer(at)
	defer endpoint.Close()
	kube := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		invites(w)
	}))
	defer kube.Close()
	members := &cluster.Members{Identity: fleet.Hub(t), Host: "host", Now: time.Now}
	members.Set(clusterOf(t, "m1", dialledUID, kube, endpoint.URL))
	endpointTransport := endpoint.Client().Transport.(*http.Transport)
	failed := make(chan error, 100)
	d := &direct.Dialing{Members: members, Hub: "u-hub", Transport: func(*rest.Config) {}, Endpoint: endpointTransport,
		Failed: func(_ context.Context, _ *cluster.Member, err error) {
			select {
			case failed <- err:
			default:
			}
		}}
	m := members.ByName("m1")
	run := func(as link.Identity) {
		t.Helper()
		at.become(as)
		for range len(failed) {
			<-failed
		}
		if err := <-failed; !errors.Is(err, link.ErrIdentity) || !m.Foreign() {
			t.Errorf("the member is another one: %v, %v", m.Foreign(), err)
		}
	}
	at.become(another.Member(t, dialledUID))
	go d.Run(t.Context())
	run(another.Member(t, dialledUID))
	at.become(fleet.Member(t, "7c9e6679-7425-40de-944b-e07fc1f90ae7"))
	<-failed // what was dialled before
	run(fleet.Member(t, "7c9e6679-7425-40de-944b-e07fc1f90ae7"))
	at.become(fleet.Member(t, dialledUID))
	err := pace.Until(t.Context(), time.Minute, func(context.Context) error {
		if linked, _ := m.Linked(); !linked || m.Foreign() {
			return fmt.Errorf("linked %v, another one %v: %w", linked, m.Foreign(), io.EOF)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
