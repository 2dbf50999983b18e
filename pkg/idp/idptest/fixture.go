package idptest

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
)

const (
	callback = "https://ks.example/oauth/callback/suite"
	// guard ends a test that hangs. No result depends on it.
	guard = 30 * time.Second
)

// world has the server, the line and the provider of one test.
type world struct {
	*Double
	t        *testing.T
	suite    Suite
	outside  Outside
	line     *Line
	fault    atomic.Pointer[http.HandlerFunc] // answers in place of the server
	provider idp.Provider
	browser  *http.Client
}

// world starts a server, and opens a provider for it.
func (s Suite) world(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, suite: s, line: NewLine(t)}
	w.outside = Outside{Address: w.line.Address, Base: "https://" + w.line.Address}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if f := w.fault.Load(); f != nil {
			(*f)(rw, r)
			return
		}
		w.Handler.ServeHTTP(rw, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that tests break
	srv.StartTLS()
	t.Cleanup(srv.Close)
	w.outside.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
	w.Double = s.Start(t, w.outside)
	if w.Handler != nil {
		w.line.Connect(srv.Listener.Addr().String())
	} else if w.Backend != "" {
		w.line.Connect(w.Backend)
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	w.browser = &http.Client{Timeout: guard, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	w.browser.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(req.URL.String(), callback) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	w.provider = w.open(w.Settings)
	return w
}

// open opens a provider with valid settings.
func (w *world) open(settings map[string]any) idp.Provider {
	w.t.Helper()
	p, err := w.suite.Type.Open(encode(w.t, settings), idp.OpenOptions{Name: "suite", AllowLoopback: true})
	if err != nil {
		w.t.Fatalf("open: %v", err)
	}
	return p
}

// impatient returns a provider that gives up soon. It has already fetched what it needs before a login.
func (w *world) impatient() idp.Provider {
	w.t.Helper()
	settings := clone(w.t, w.Settings)
	maps.Copy(settings, w.Impatient)
	p := w.open(settings)
	w.answers(p)
	return p
}

// answers waits until an impatient provider answers: it may have to try more than once on a busy machine.
func (w *world) answers(p idp.Provider) {
	w.t.Helper()
	for end := time.Now().Add(guard); ; {
		err := p.Check(w.t.Context())
		if r, ok := p.(idp.Redirect); ok && err == nil {
			_, err = r.Begin(w.t.Context(), begin())
		}
		switch {
		case err == nil:
			return
		case time.Now().After(end):
			w.t.Fatalf("the server is there, and yet: %v", err)
		}
	}
}

// server reports whether the provider has a server that can be asked.
func (w *world) server() bool { return w.Handler != nil || w.Backend != "" }

// begin returns the parameters of a new login.
func begin() idp.Begin {
	return idp.Begin{Callback: callback, State: random(), Nonce: random(), Verifier: random()}
}

func random() string { return rand.Text() + rand.Text() } // 43 characters or more, as RFC 7636, 4.1 requires

// visit does what the browser does: it goes to the provider's page, where the user is logged in, and returns.
func (w *world) visit(address string) url.Values {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		w.t.Fatalf("the provider's address: %v", err)
	}
	resp, err := w.browser.Do(req)
	if err != nil {
		w.t.Fatalf("the browser goes to the provider: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	back := resp.Header.Get("Location")
	u, err := url.Parse(back)
	if err != nil || !strings.HasPrefix(back, callback) {
		w.t.Fatalf("the browser was not sent back, but answered %s to %s", resp.Status, address)
	}
	return u.Query()
}

// arrive goes to a Redirect provider and returns.
func (w *world) arrive(b idp.Begin) idp.Callback {
	w.t.Helper()
	address, err := w.provider.(idp.Redirect).Begin(w.t.Context(), b)
	if err != nil {
		w.t.Fatalf("begin: %v", err)
	}
	return idp.Callback{Values: w.visit(address), Callback: b.Callback, Nonce: b.Nonce, Verifier: b.Verifier}
}

// login logs the user in.
func (w *world) login() (*idp.Identity, error) {
	w.t.Helper()
	switch p := w.provider.(type) {
	case idp.Password:
		return p.Login(w.t.Context(), w.Username, w.Password)
	case idp.Redirect:
		return p.Finish(w.t.Context(), w.arrive(begin()))
	}
	w.t.Fatalf("%T has no way to log in", w.provider)
	return nil, nil
}

// logsIn reports whether users log in at the provider itself.
func (w *world) logsIn() bool {
	switch w.provider.(type) {
	case idp.Password, idp.Redirect:
		return true
	}
	return false
}

// mustLogin logs the user in.
func (w *world) mustLogin() *idp.Identity {
	w.t.Helper()
	who, err := w.login()
	if err != nil {
		w.t.Fatalf("log in: %v", err)
	}
	return who
}
