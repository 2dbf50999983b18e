package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authn/frontproxy"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
)

// aggregatedServer serves an aggregated API whose handler answers with the user of the front proxy, and an ordinary chain, on one port.
type aggregatedServer struct {
	*httptest.Server
	api *aggregation
}

func newAggregatedServer(t *testing.T, authority *tls.Certificate) *aggregatedServer {
	t.Helper()
	client := kapistest.ListFirst(fake.NewClientset(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: frontproxy.Namespace, Name: frontproxy.Name},
		Data: map[string]string{
			"requestheader-client-ca-file":   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Leaf.Raw})),
			"requestheader-username-headers": `["X-Remote-User"]`,
			"requestheader-allowed-names":    `["front-proxy-client"]`,
		},
	}))
	keeper, err := certificate.Open(t.Context(), certificate.Options{Secrets: client.CoreV1().Secrets(namespace), Name: queryv1alpha1.ServingSecret,
		Hosts: []string{queryv1alpha1.ServerName}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	s := &aggregatedServer{api: &aggregation{proxy: &frontproxy.Authenticator{Now: time.Now}, keeper: keeper}}
	s.api.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, ok, _ := s.api.proxy.AuthenticateRequest(r)
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "aggregated "+got.User.GetName())
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.api.proxy.Run(ctx, client.CoreV1().ConfigMaps(frontproxy.Namespace)) }()
	t.Cleanup(func() { cancel(); <-done })
	for deadline := time.Now().Add(2 * time.Minute); s.api.proxy.Fault() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(s.api.proxy.Fault())
		}
	}
	s.Server = httptest.NewUnstartedServer(s.api.before(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "ordinary "+r.Header.Get("X-Remote-User"))
	})))
	ordinary := pair(t, "ordinary", nil)
	known := &aggregatedTLS{enabled: true}
	s.TLS = secureConfig(func() (*tls.Certificate, error) { return ordinary, nil }, &clientCA{}, known)
	s.StartTLS()
	t.Cleanup(s.Close)
	if c := known.config(&tls.ClientHelloInfo{ServerName: queryv1alpha1.ServerName}, s.TLS); c != nil {
		t.Error("before there is an API, connections are made to it")
	}
	known.follow(s.api)
	return s
}

// get sends a request as kube-apiserver's front proxy would, by a TLS name.
func (s *aggregatedServer) get(t *testing.T, name string, cert *tls.Certificate) (code int, body string, peer *x509.Certificate) {
	t.Helper()
	config := &tls.Config{ServerName: name, InsecureSkipVerify: true} //nolint:gosec // the certificate is what is tested
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if cert == nil {
			return &tls.Certificate{}, nil
		}
		return cert, nil
	}
	tr := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Remote-User", "root")
	res, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text), res.TLS.PeerCertificates[0]
}

// O29: the front proxy's headers count on connections by the name of the aggregated API alone, and by its certificate alone.
func TestTheFrontProxyHasAChainOfItsOwn(t *testing.T) {
	authority, other := pair(t, "front-proxy-ca", nil), pair(t, "other", nil)
	s := newAggregatedServer(t, authority)
	front := pair(t, "front-proxy-client", authority)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(s.api.keeper.Bundle())
	for name, c := range map[string]struct {
		server string
		cert   *tls.Certificate
		code   int
		want   string
	}{
		"the front proxy":              {queryv1alpha1.ServerName, front, 200, "aggregated root"},
		"its name in capitals":         {strings.ToUpper(queryv1alpha1.ServerName), front, 200, "aggregated root"},
		"nobody":                       {queryv1alpha1.ServerName, nil, 401, ""},
		"another authority":            {queryv1alpha1.ServerName, pair(t, "front-proxy-client", other), 401, ""},
		"another name":                 {queryv1alpha1.ServerName, pair(t, "kubelet", authority), 401, ""},
		"the front proxy, another way": {"ks-apiserver.kubesphere-system.svc", front, 200, "ordinary root"},
		"no TLS name":                  {"", front, 200, "ordinary root"},
		"a name that begins so":        {queryv1alpha1.ServerName + ".example.com", front, 200, "ordinary root"},
	} {
		t.Run(name, func(t *testing.T) {
			code, body, peer := s.get(t, c.server, c.cert)
			if code != c.code || body != c.want {
				t.Errorf("got %d %q, want %d %q", code, body, c.code, c.want)
			}
			_, err := peer.Verify(x509.VerifyOptions{Roots: trusted, DNSName: queryv1alpha1.ServerName})
			// Pods of kubectl shells trust the same authority, by the ordinary name.
			own := strings.EqualFold(c.server, queryv1alpha1.ServerName) || c.server == "ks-apiserver.kubesphere-system.svc"
			if own != (err == nil) {
				t.Errorf("the certificate is the API's own: %v", err)
			}
		})
	}
}

// O44: where it is off, its name means nothing.
func TestWithoutAnAggregatedAPIItsNameMeansNothing(t *testing.T) {
	off := &aggregatedTLS{}
	if c := off.config(&tls.ClientHelloInfo{ServerName: queryv1alpha1.ServerName}, &tls.Config{MinVersion: tls.VersionTLS12}); c != nil {
		t.Error("connections by its name are configured")
	}
	next := http.NotFoundHandler()
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{ServerName: queryv1alpha1.ServerName}
	(*aggregation)(nil).before(next).ServeHTTP(rec, r)
	if rec.Code != http.StatusNotFound {
		t.Errorf("got %d", rec.Code)
	}
	if _, _, err := (Listen{InsecurePort: 1}).open(t.Context(), &clientCA{}, &aggregatedTLS{enabled: true}); err == nil ||
		!strings.Contains(err.Error(), "--secure-port") {
		t.Errorf("got %v", err)
	}
}
