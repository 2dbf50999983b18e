package proxy

import (
	"bufio"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// serverToken is this server's own credential at the backend.
const serverToken = "server-token"

// backend is a kube-apiserver that records what it saw, over TLS.
type backend struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newBackend(t *testing.T, h http.HandlerFunc) *backend {
	t.Helper()
	return startBackend(t, h, true)
}

func startBackend(t *testing.T, h http.HandlerFunc, http2 bool) *backend {
	t.Helper()
	b := &backend{}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.seen = append(b.seen, r.Clone(context.Background()))
		b.mu.Unlock()
		h(w, r)
	}))
	b.EnableHTTP2 = http2
	b.StartTLS()
	t.Cleanup(b.Close)
	return b
}

func (b *backend) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw})
	return &rest.Config{Host: b.URL, BearerToken: serverToken, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func (b *backend) requests() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*http.Request(nil), b.seen...)
}

// only returns the one request that the backend saw.
func (b *backend) only(t *testing.T) *http.Request {
	t.Helper()
	seen := b.requests()
	if len(seen) != 1 {
		t.Fatalf("the backend saw %d requests, want 1", len(seen))
	}
	return seen[0]
}

// bob is the caller if a test does not name one.
var bob = &user.DefaultInfo{
	Name: "bob", UID: "uid-bob", Groups: []string{"dev", "system:authenticated"},
	Extra: map[string][]string{"example.com/Session": {"s1", "s2"}},
}

var allowed = authz.Allow("", "kapis:global:viewer")

// front is this server, as if the filters had let the request through.
func front(t *testing.T, k *Kube, u user.Info, d authz.Decision) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(filtered(k, u, d))
	t.Cleanup(srv.Close)
	return srv
}

func filtered(k http.Handler, u user.Info, d authz.Decision) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		info, err := request.Parse(r)
		if err != nil {
			web.WriteError(w, r, err)
			return
		}
		ctx := request.WithInfo(r.Context(), info)
		if u != nil {
			ctx = request.WithUser(ctx, u)
		}
		k.ServeHTTP(w, r.WithContext(authz.WithDecision(ctx, d)))
	}
}

func newKube(t *testing.T, o KubeOptions) *Kube {
	t.Helper()
	k, err := NewKube(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.CloseIdleConnections)
	return k
}

// proxied returns a backend and this server in front of it.
func proxied(t *testing.T, h http.HandlerFunc) (*backend, *httptest.Server) {
	t.Helper()
	b := newBackend(t, h)
	return b, front(t, newKube(t, KubeOptions{Config: b.config()}), bob, allowed)
}

// rawConn speaks bytes, not requests: for requests that no client library would send.
type rawConn struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func rawDial(t *testing.T, srv *httptest.Server) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil { // of a failing test
		t.Fatal(err)
	}
	return &rawConn{t, conn, bufio.NewReader(conn)}
}

func (c *rawConn) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one whole answer.
func (c *rawConn) answer() (*http.Response, string) {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if res.StatusCode == http.StatusSwitchingProtocols {
		return res, ""
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res, string(body)
}

// closed waits for the end of the connection, and fails if anything comes before it.
func (c *rawConn) closed() {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	var e net.Error
	if errors.As(err, &e) {
		c.t.Fatal("the connection stays open")
	}
	if len(rest) > 0 {
		c.t.Fatalf("the connection goes on with %q", rest)
	}
}
