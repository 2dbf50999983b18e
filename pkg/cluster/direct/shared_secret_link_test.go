package direct_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/cluster/sharedsecret"
	"kapis.dev/ks-apiserver/pkg/proxy"
	"kapis.dev/ks-apiserver/tools/pace"
)

// olderCluster is a kube-apiserver, and ks-apiserver of an older release in its cluster, as spec/compat.md 1.14 says: it takes any token of its secret that
// has not ended, from the header that kube-apiserver passes on.
type olderCluster struct {
	*httptest.Server

	mu     sync.Mutex
	secret string
	uid    string
	asked  []string
}

func newOlderCluster(t *testing.T, secret, uid string) *olderCluster {
	t.Helper()
	o := &olderCluster{secret: secret, uid: uid}
	o.Server = httptest.NewTLSServer(o)
	t.Cleanup(o.Close)
	return o
}

// becomes changes the secret.
func (o *olderCluster) becomes(secret string) { o.mu.Lock(); defer o.mu.Unlock(); o.secret = secret }

// all returns what its ks-apiserver was asked: who, and for what.
func (o *olderCluster) all() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.asked, "\n")
}

func (o *olderCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Header.Get("Authorization") != "Bearer canary" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	path, passed := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/kubesphere-system/services/ks-apiserver:80/proxy")
	if !passed {
		if r.URL.Path != "/api/v1/namespaces/kube-system" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]string{"name": "kube-system", "uid": o.uid}})
		return
	}
	o.mu.Lock()
	secret := o.secret
	o.mu.Unlock()
	c := jwt.MapClaims{}
	token, _ := strings.CutPrefix(r.Header.Get("X-KubeSphere-Authorization"), "Bearer ")
	if _, err := jwt.ParseWithClaims(token, c, func(*jwt.Token) (any, error) { return []byte(secret), nil }, jwt.WithValidMethods([]string{"HS256"})); err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	o.mu.Lock()
	o.asked = append(o.asked, fmt.Sprint(c["username"], " ", path))
	o.mu.Unlock()
	if path == "/kapis/version" {
		_, _ = io.WriteString(w, `{"gitVersion":"v4.1.3","kubernetes":{"gitVersion":"v1.30.2"}}`)
		return
	}
	_, _ = io.WriteString(w, `{"items":[],"totalItems":0}`)
}

// F12: a listed member in which an older release runs is served by tokens of its own secret, which no other cluster takes; one that takes none is not
// linked, and says why, until it does.
func TestAMemberWithASharedSecretIsServed(t *testing.T) {
	const ofShop, ofEdge = "0123456789abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba9876543210"
	dir := t.TempDir()
	for name, secret := range map[string]string{"shop": ofShop, "edge": ofEdge} {
		if err := os.WriteFile(filepath.Join(dir, "shared-secret-"+name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The secret of the second one is not that of its cluster yet.
	shop, edge := newOlderCluster(t, ofShop, "u-shop"), newOlderCluster(t, "another-secret-of-the-older-installation", "u-edge")
	fleet := linktest.NewAuthority(t)
	members := &cluster.Members{Identity: fleet.Hub(t), Host: "host", Now: time.Now, SharedSecrets: []string{"shop", "edge"}}
	uids := map[string]string{"shop": dialledUID, "edge": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}
	members.Set(clusterOf(t, "shop", uids["shop"], shop.Server, ""))
	members.Set(clusterOf(t, "edge", uids["edge"], edge.Server, ""))
	failed := make(chan error, 100)
	d := &direct.Dialing{Members: members, Hub: "u-hub", Transport: func(*rest.Config) {},
		Shared: &direct.SharedSecret{Secrets: sharedsecret.Secrets{Members: []string{"shop", "edge"}, Directory: dir}, Issuer: "https://hub.example",
			Serve: proxy.NewSharedSecretMember},
		Failed: func(_ context.Context, _ *cluster.Member, err error) {
			select {
			case failed <- err:
			default:
			}
		},
		Admit: func(_ context.Context, m *cluster.Member, r *join.Request) (*join.Answer, error) {
			if want := "u-" + m.Name; r.UID != want || r.Version != "v4.1.3" || r.KubernetesVersion != "v1.30.2" {
				return nil, fmt.Errorf("it says of itself %+v, want %s", r, want)
			}
			return signed(t, fleet, r, m.UID)
		}}
	go d.Run(t.Context())
	linked := func(name string) {
		t.Helper()
		err := pace.Until(t.Context(), time.Minute, func(context.Context) error {
			m := members.ByName(name)
			if is, _ := m.Linked(); !is {
				return errors.New("it is not linked")
			}
			if is, pending := m.Synced(); !is || len(pending) > 0 {
				return errors.New("it waits for something")
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	linked("shop")
	if err := <-failed; !strings.Contains(err.Error(), "takes no token of this server") || strings.Contains(err.Error(), ofEdge) {
		t.Errorf("why the other one is not: %v", err)
	}
	if is, _ := members.ByName("edge").Linked(); is {
		t.Error("a cluster that takes no token is linked")
	}
	edge.becomes(ofEdge)
	linked("edge")
	if about := members.ByName("shop").About(); about.Version != "v4.1.3" {
		t.Errorf("it runs %+v", about)
	}
	for _, name := range []string{"shop", "edge"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/kapis/apps/v1/deployments", nil)
		r.Header.Set("X-Remote-User", "ann")
		r.Header.Set("X-Remote-Uid", "u-ann")
		resp, err := members.ByName(name).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s answers %d", name, resp.StatusCode)
		}
		_ = resp.Body.Close()
	}
	for name, at := range map[string]*olderCluster{"shop": shop, "edge": edge} {
		if all := at.all(); !strings.Contains(all, "ann /kapis/apps/v1/deployments") || !strings.Contains(all, "kapis:hub /kapis/version") {
			t.Errorf("%s was asked\n%s", name, all)
		}
	}
	// A secret that is not right any more ends the link.
	shop.becomes("the-next-secret-of-the-older-installation")
	err := pace.Until(t.Context(), time.Minute, func(context.Context) error {
		if is, _ := members.ByName("shop").Linked(); is {
			return errors.New("it is linked still")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// signed lets a member in, as a hub does.
func signed(t *testing.T, by *linktest.Authority, r *join.Request, uid string) (*join.Answer, error) {
	block, _ := pem.Decode([]byte(r.CSR))
	if block == nil {
		return nil, errors.New("there is no certificate request")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	certificate, authorities := by.Sign(t, csr.PublicKey, link.MemberName(uid))
	return &join.Answer{UID: uid, Certificate: certificate, Authorities: authorities}, nil
}
