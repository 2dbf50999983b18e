package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Nobody is sent anywhere by a server after this one, with what he carries. The one redirect that passes is kube-apiserver's own: to the same path
// with a slash at its end, before the pages of a service.
func TestNobodyIsSentAnywhereByABackend(t *testing.T) {
	proves(t, "S17")
	p := newPassage(t)
	mark := unique("moved")
	service := "/api/v1/namespaces/" + p.ns + "/services/" + mark + "/proxy"
	object := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + mark + `","namespace":"` + p.ns + `"}}`
	maps := "/namespaces/" + p.ns + "/configmaps"
	eventually(t, "services may be asked", p.me.is(http.StatusServiceUnavailable, http.MethodGet, service+"/"))
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{"https://evil.example/", "//evil.example/x", "/api/v1/secrets", "/\\evil.example", "https:evil.example", service +
			"/?x=https://evil.example", "http://" + p.Listener.Addr().String() + service + "/", ""} {
			p.answer(t, mark, func(w http.ResponseWriter, _ *http.Request) {
				if to != "" {
					w.Header().Set("Location", to)
				}
				w.Header().Set("Refresh", "0; url=https://evil.example/")
				w.WriteHeader(code)
				_, _ = io.WriteString(w, `<a href="https://evil.example/">moved</a>`)
			})
			for _, q := range []struct{ method, path, body string }{
				{http.MethodGet, service, ""}, {http.MethodHead, service, ""}, {http.MethodPost, service, "x"}, {http.MethodGet, "/api/v1" + maps + "/" + mark, ""},
				{http.MethodDelete, "/api/v1" + maps + "/" + mark, ""}, {http.MethodPut, "/api/v1" + maps + "/" + mark, object}, {http.MethodDelete, "/kapi/v1" +
					maps + "/" + mark, ""},
				{http.MethodPut, "/kapi/v1" + maps + "/" + mark, object}, {http.MethodGet, "/api/v1" + maps + "?watch=true&fieldSelector=metadata.name=" + mark, ""},
			} {
				var body any
				if q.body != "" {
					body = q.body
				}
				r, err := p.me.do(t.Context(), q.method, q.path, body)
				if err != nil || r.code != http.StatusBadGateway || r.header.Get("Location") != "" || r.header.Get("Refresh") != "" || strings.Contains(r.body, "evil") {
					t.Errorf("%d to %q: %s %s = %d %v %s %v", code, to, q.method, q.path, r.code, r.header, clip(r.body), err)
				}
			}
		}
	}
	p.answer(t, mark, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Path+"/")
		w.WriteHeader(http.StatusMovedPermanently)
	})
	for _, prefix := range []string{"", "/clusters/host"} {
		if r := p.me.must(t, http.StatusMovedPermanently, http.MethodGet, prefix+service, nil); r.header.Get("Location") != prefix+service+"/" {
			t.Errorf("the slash: %v", r.header)
		}
	}
}

// certificateOf makes a certificate for a name, and returns with it the authority that vouches for it: itself.
func certificateOf(t *testing.T, name string) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// An aggregated API server is told of the caller and nobody else, on upgraded connections too; it sends him nowhere.
func TestAnAggregatedServerSeesTheCallerAndSendsHimNowhere(t *testing.T) {
	proves(t, "S17", "S18")
	p, group := newPassage(t), unique("aggregated")+".example.com"
	role(t, p.ns, "visitor", rule{[]string{group}, []string{"things", "things/talk"}, []string{"get", "create"}})
	bind(t, p.ns, "visitor", map[string]any{"kind": "User", "name": p.name})
	thing := "/apis/" + group + "/v1/namespaces/" + p.ns + "/things/x"
	p.answer(t, group, func(w http.ResponseWriter, r *http.Request) {
		up := r.Header.Get("Upgrade")
		if up == "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, "{}")
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err == nil { // it does switch, and says goodbye
			fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\nbye", up)
			_ = rw.Flush()
			_ = conn.Close()
		}
	})
	eventually(t, "the role counts", p.me.is(http.StatusOK, http.MethodGet, thing))
	doors := []door{{"a read", http.MethodGet, thing, "", ""}, {"a WebSocket", http.MethodGet, thing + "/talk", "", "websocket"},
		{"SPDY", http.MethodPost, thing + "/talk", "", "SPDY/3.1"}, {"of the named cluster", http.MethodGet, "/clusters/host" + thing + "/talk", "", "websocket"}}
	for _, d := range doors {
		for _, lines := range statements {
			for _, names := range append(takings, "") {
				r, saw := p.through(t, d, names, lines...)
				if r.code == http.StatusBadRequest && len(saw) == 0 {
					continue
				}
				if len(saw) != 1 || d.upgrade != "" && r.code != http.StatusSwitchingProtocols {
					t.Fatalf("%s with %q %q: %d %s, and it saw %d requests", d.name, lines, names, r.code, clip(r.body), len(saw))
				}
				h := saw[0].identity()
				if !slices.Equal(h["Impersonate-User"], []string{p.name}) || slices.Contains(h["Impersonate-Group"], "system:masters") ||
					slices.Contains(h["Impersonate-Uid"], "0") || !slices.Contains(h["Impersonate-Group"], "kapis:namespace:visitor") {
					t.Errorf("%s with %q %q: it saw %v", d.name, lines, names, h)
				}
				for k := range h {
					if !strings.HasPrefix(k, "Impersonate-") || strings.HasPrefix(k, "Impersonate-Extra-") {
						t.Errorf("%s with %q: it saw %s: %q", d.name, lines, k, h[k])
					}
				}
			}
		}
	}
	for _, code := range []int{301, 302, 303, 307, 308} {
		p.answer(t, group, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(code)
		})
		for _, d := range doors {
			r, saw := p.through(t, d, "")
			if r.code != http.StatusBadGateway || r.header.Get("Location") != "" || strings.Contains(r.body, "evil.example") || len(saw) != 1 {
				t.Errorf("%d on %s: %d %v %s", code, d.name, r.code, r.header, clip(r.body))
			}
		}
	}
}
