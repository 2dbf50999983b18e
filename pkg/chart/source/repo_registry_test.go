package source_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"k8s.io/utils/ptr"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/chart/source"
	"kapis.dev/ks-apiserver/pkg/egress/egresstest"
)

// storeAccess is that of a Repo at an address without its scheme.
func storeAccess(t *testing.T, at string, c applicationv2.RepoCredential) *source.Access {
	t.Helper()
	c.InsecureSkipTLSVerify = ptr.To(true)
	a, err := source.AccessOfRepo(repo("oci://"+at, c))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// X32: a path of a registry is a Repo of the store; a probe tells whether there is anything.
func TestX32APathOfARegistryIsARepo(t *testing.T) {
	w := newWorld(t)
	w.has(t, "charts/shop 1.0.0 1.1.0", "alone 1.0.0")
	w.hasImages(t, "images/tool", "latest")
	about := charttest.ArtifactOf("told", "1.0.0", packed("told", "1.0.0"))
	about.Config.Raw = []byte(`{"name":"told","version":"1.0.0","description":"` + strings.Repeat("d", 5000) +
		`","home":"https://told.example","icon":"https://` + strings.Repeat("i", 5000) + `","maintainers":[{"name":"ann"}]}`)
	charttest.Push(t, w.push.URL, "charts/told", "1.0.0", about)
	odd := charttest.ArtifactOf("odd", "1.0.0", packed("odd", "1.0.0"))
	odd.Config.Raw = []byte(`{"name":"odd","version":"1.0.0","description":7,"maintainers":"nobody"}`)
	charttest.Push(t, w.push.URL, "charts/odd", "1.0.0", odd)

	index, _, err := local.Catalogue(t.Context(), storeAccess(t, w.host()+"/charts", ann()), 20, source.State{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]chart.About{}
	for e := range index.Entries(func(string) bool { return true }) {
		for i := range e.Versions {
			found[e.Name+" "+e.Versions[i].Version] = e.Versions[i].About()
		}
	}
	told := found["told 1.0.0"]
	if _, ok := found["odd 1.0.0"]; !ok || len(found) != 4 || told.Home != "https://told.example" || told.Icon != "" || len(told.Description) > 1100 ||
		len(told.Description) < 1000 || len(told.Maintainers) != 1 {
		t.Errorf("%d: %.2000v", len(found), found)
	}
	for path, want := range map[string]string{
		"/charts": "", "/alone": "", "": "", "/images": "", "/none": "answers 404", "/charts/none": "answers 404", "/chart": "answers 404",
	} {
		err := local.Probe(t.Context(), storeAccess(t, w.host()+path, ann()))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	// A password that is refused is named by its field, and not shown.
	w.front = func(rw http.ResponseWriter, r *http.Request) bool {
		egresstest.BasicAuth("ann", "other", http.NotFoundHandler()).ServeHTTP(rw, r)
		return true
	}
	err = local.Probe(t.Context(), storeAccess(t, w.host()+"/charts", ann()))
	if reason(err) != source.ReasonUnauthorized || !strings.Contains(err.Error(), "check spec.credential") || strings.Contains(err.Error(), "canary") {
		t.Errorf("a wrong password: %v", err)
	}
	w.front = nil
	strict, err := source.AccessOfRepo(repo("oci://"+w.host()+"/charts", ann()))
	if err != nil {
		t.Fatal(err)
	}
	if err := local.Probe(t.Context(), strict); err == nil || !strings.Contains(err.Error(), "spec.credential.caFile, or spec.credential.insecureSkipTLSVerify") {
		t.Errorf("a registry without TLS: %v", err)
	}
}

// X32: a client certificate is shown to the registry, and not where its content is.
func TestX32AClientCertificateStaysWithItsRegistry(t *testing.T) {
	var mu sync.Mutex
	shown := map[string]int{}
	serveTLS := func(name string, answer http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			shown[name] += len(r.TLS.PeerCertificates)
			mu.Unlock()
			answer.ServeHTTP(w, r)
		}))
		s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	raw := packed("shop", "1.0.0")
	content := serveTLS("content", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(raw) }))
	in := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	push := httptest.NewServer(in)
	t.Cleanup(push.Close)
	charttest.Push(t, push.URL, "charts/shop", "1.0.0", charttest.ArtifactOf("shop", "1.0.0", raw))
	registry := serveTLS("registry", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, content.URL+"/blob", http.StatusTemporaryRedirect)
			return
		}
		in.ServeHTTP(w, r)
	}))
	certificate, key := keyPair(t)
	host := registry.Listener.Addr().String()
	a := storeAccess(t, host+"/charts", applicationv2.RepoCredential{CertFile: certificate, KeyFile: key})
	got, err := local.Chart(t.Context(), a, "oci://"+host+"/charts/shop:1.0.0", chart.Digest(raw))
	if err != nil || string(got) != string(raw) || shown["registry"] == 0 || shown["content"] != 0 {
		t.Errorf("%q %v; certificates were shown %v", got, err, shown)
	}
}
