package direct_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kapis.dev/ks-apiserver/pkg/cluster/direct"
)

// plane is a kube-apiserver, which refuses what it is told to: "POST /path", or a right.
type plane struct {
	*httptest.Server
	uid, host string
	token     string

	mu      sync.Mutex
	refuses []string
	asked   []string
	bodies  string
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{uid: "u-member"}
	p.Server = httptest.NewTLSServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *plane) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	raw, _ := io.ReadAll(r.Body)
	what := r.Method + " " + r.URL.Path
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
		var o struct {
			Spec struct {
				ResourceAttributes struct{ Verb, Resource, Subresource, Name string }
			}
		}
		_ = json.Unmarshal(raw, &o)
		a := o.Spec.ResourceAttributes
		fmt.Fprintf(w, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":%v}}`,
			!slices.Contains(p.refuses, strings.TrimSpace(a.Verb+" "+a.Resource)))
		return
	}
	p.asked, p.bodies = append(p.asked, what), p.bodies+string(raw)
	switch {
	case slices.Contains(p.refuses, what):
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	case strings.HasSuffix(r.URL.Path, "/token"):
		fmt.Fprintf(w, `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":%q}}`, p.token)
	case r.Method == http.MethodGet:
		fmt.Fprintf(w, `{"kind":"Namespace",`+
			`"apiVersion":"v1","metadata":{"name":"x","uid":%q,"annotations":{"cluster.kubesphere.io/host-cluster":%q}}}`, p.uid, p.host)
	case strings.HasSuffix(r.URL.Path, "roles") && r.Method == http.MethodPost:
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`)
	default:
		_, _ = w.Write(raw)
	}
}

// told returns what the plane was asked since the last time.
func (p *plane) told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.asked
	p.asked, p.bodies = nil, ""
	return out
}

func (p *plane) kubeconfig(t *testing.T, user clientcmdapi.AuthInfo) []byte {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: p.URL, TLSServerName: "example.com",
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})}
	c.AuthInfos["u"], c.Contexts["x"], c.CurrentContext = &user, &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	raw, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// anyTransport has bodies sent that the test reads.
func anyTransport(c *rest.Config) {
	c.ContentType, c.AcceptContentTypes = "application/json", "application/json"
}

// tokenOf is a token of a subject, which is good from one time to another.
func tokenOf(subject string, from, to time.Time) string {
	return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"sub":%q,"iat":%d,"exp":%d}`, subject, from.Unix(), to.Unix())) + ".c2ln"
}

const ours = "system:serviceaccount:kubesphere-system:ks-fleet-hub"

// F10: an imported credential is replaced by one of listed rights, which renews itself by its own right, and nothing of the old one is left.
func TestAnImportedCredentialIsReplaced(t *testing.T) {
	p, now := newPlane(t), time.Unix(1_800_000_000, 0)
	day := 24 * time.Hour
	p.token = tokenOf(ours, now, now.Add(10*day))
	imported := p.kubeconfig(t, clientcmdapi.AuthInfo{Token: "canary-token"})
	next, err := direct.Exchange(t.Context(), imported, anyTransport, now)
	if err != nil {
		t.Fatal(err)
	}
	if p.mu.Lock(); strings.Contains(p.bodies, `"*"`) || strings.Contains(p.bodies, `"secrets"`) || strings.Contains(p.bodies, "impersonate") ||
		!strings.Contains(p.bodies, `"ks-fleet-invitation"`) {
		t.Errorf("the rights are %s", p.bodies)
	}
	p.mu.Unlock()
	rbac, core := "/apis/rbac.authorization.k8s.io/v1/", "/api/v1/namespaces/kubesphere-system/serviceaccounts"
	here := rbac + "namespaces/kubesphere-system/"
	want := []string{"POST " + core, "POST " + rbac + "clusterroles", "PUT " + rbac + "clusterroles/kubesphere:ks-fleet-hub", "POST " + here + "roles",
		"PUT " + here + "roles/ks-fleet-hub", "POST " + rbac + "clusterrolebindings", "POST " + here + "rolebindings", "POST " + core + "/ks-fleet-hub/token"}
	if got := p.told(); !slices.Equal(got, want) {
		t.Errorf("it is asked for %v", got)
	}
	c, err := direct.Parse(next, anyTransport)
	if err != nil || c.BearerToken != p.token || c.Host != p.URL || c.ServerName != "example.com" || c.Username != "" || bytes.Contains(next, []byte("canary")) {
		t.Errorf("the next one is %+v, %v", c, err)
	}
	if !direct.Expires(next).Equal(now.Add(10 * day)) {
		t.Errorf("it ends at %v", direct.Expires(next))
	}

	if again, err := direct.Exchange(t.Context(), next, anyTransport, now.Add(4*day)); again != nil || err != nil || len(p.told()) > 0 {
		t.Errorf("a fresh one is replaced: %v", err)
	}
	again, err := direct.Exchange(t.Context(), next, anyTransport, now.Add(6*day))
	if err != nil || again == nil {
		t.Errorf("half of its life is over: %v", err)
	}
	if got := p.told(); !slices.Equal(got, want[len(want)-1:]) {
		t.Errorf("a renewal asks for %v", got)
	}

	for refused, what := range map[string]string{"POST " + rbac + "clusterrolebindings": "account of listed rights", want[0]: "account of listed rights",
		want[len(want)-1]: "make a token", "update configmaps": "does not do"} {
		p.refuses = []string{refused}
		if got, err := direct.Exchange(t.Context(), imported, anyTransport, now); err == nil || !strings.Contains(err.Error(), what) ||
			strings.Contains(err.Error(), "canary") || got != nil && what != "does not do" {
			t.Errorf("without %s: %v", refused, err)
		}
	}
}

func TestWhenACredentialEndsIsKnown(t *testing.T) {
	p, end := newPlane(t), time.Unix(1_900_000_000, 0)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		of   clientcmdapi.AuthInfo
		want time.Time
	}{
		"Certificate": {clientcmdapi.AuthInfo{ClientCertificateData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, end},
		"Token":       {clientcmdapi.AuthInfo{Token: tokenOf("x", end.Add(-time.Hour), end)}, end},
		"OpaqueToken": {clientcmdapi.AuthInfo{Token: "a.b.c"}, time.Time{}},
		"NoEnd":       {clientcmdapi.AuthInfo{Token: "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"x"}`)) + ".x"}, time.Time{}},
		"Password":    {clientcmdapi.AuthInfo{Username: "u", Password: "p"}, time.Time{}},
		"AProgram":    {clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{Command: "id", APIVersion: "client.authentication.k8s.io/v1"}}, time.Time{}},
	} {
		if got := direct.Expires(p.kubeconfig(t, x.of)); !got.Equal(x.want) {
			t.Errorf("%s: %v, want %v", name, got, x.want)
		}
	}
}

// F11, F31, F32: each check that fails is named, also that another host has the cluster, and nothing is written.
func TestEachCheckThatFailsIsNamed(t *testing.T) {
	known := direct.Known{Hub: "u-hub", Host: "host", Members: map[string]string{"u-taken": "taken", "u-self": "self"}}
	for name, x := range map[string]struct {
		uid, host string
		refuses   []string
		want      []string
	}{
		"Good":        {"u-new", "", nil, nil},
		"ItselfAgain": {"u-self", "host", nil, nil},
		"TheHub":      {"u-hub", "", nil, []string{"identity"}},
		"Taken":       {"u-taken", "", nil, []string{"identity"}},
		"OtherHost":   {"u-new", "elsewhere", nil, []string{"host"}},
		"Rights":      {"u-new", "", []string{"create configmaps", "get services"}, []string{"rights", "rights"}},
		"All":         {"u-taken", "elsewhere", []string{"create configmaps"}, []string{"identity", "rights", "host"}},
	} {
		p := newPlane(t)
		p.uid, p.host, p.refuses = x.uid, x.host, x.refuses
		c, err := direct.Parse(p.kubeconfig(t, clientcmdapi.AuthInfo{Token: "t"}), anyTransport)
		if err != nil {
			t.Fatal(err)
		}
		uid, findings := direct.Check(t.Context(), c, "self", known)
		var got []string
		for _, f := range findings {
			if got = append(got, f.Check); f.Found == "" {
				t.Errorf("%s: %s says nothing", name, f.Check)
			}
		}
		if uid != x.uid || !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, %v, want %v", name, uid, findings, x.want)
		}
		for _, asked := range p.told() {
			if !strings.HasPrefix(asked, "GET ") {
				t.Errorf("%s: a check asks %s", name, asked)
			}
		}
	}
}
