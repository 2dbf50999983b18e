package apiserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/apiserver/drain"
	"kapis.dev/ks-apiserver/pkg/apiserver/health"
	"kapis.dev/ks-apiserver/pkg/authn/anonymous"
	"kapis.dev/ks-apiserver/pkg/authn/requestheader"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/config"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/request"
)

func TestAStopIsAnnouncedBeforeThePortCloses(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := drain.New()
	entered, finish, delay := make(chan struct{}), make(chan struct{}), make(chan time.Duration)
	d.Sleep = func(asked time.Duration) { delay <- asked }
	mux := http.NewServeMux()
	mux.HandleFunc("/quick", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-finish
		_, _ = io.WriteString(w, "whole")
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-d.Started.Done()
	})
	mux.Handle("/readyz", health.Handler{Checks: func() []health.Check { return []health.Check{{Name: "shutdown", Vital: true, Fault: d.Fault}} }})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, mux, []net.Listener{ln}, d, time.Minute) }()
	get := func(path string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+path, nil)
		if err != nil {
			return 0, "", err
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	if code, _, err := get("/readyz"); code != http.StatusOK {
		t.Fatalf("before: %d %v", code, err)
	}
	slow := make(chan string, 1)
	go func() {
		_, body, err := get("/slow")
		if err != nil {
			body = err.Error()
		}
		slow <- body
	}()
	<-entered
	stream := openStream(t, ln.Addr().String())
	if closes, err := closed(t, "http://"+ln.Addr().String()+"/quick"); closes || err != nil {
		t.Errorf("before the stop a connection is closed after its answer: %v, %v", closes, err)
	}
	stop()
	<-d.Announced.Done()
	if code, body, err := get("/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "[-]shutdown failed") {
		t.Errorf("once the stop is announced: %d %s %v", code, body, err)
	}
	if closes, err := closed(t, "http://"+ln.Addr().String()+"/quick"); !closes || err != nil {
		t.Errorf("once the stop is announced a connection is closed after its answer: %v, %v", closes, err)
	}
	if d.Started.Err() != nil {
		t.Error("streams end before the delay is over")
	}
	if asked := <-delay; asked != time.Minute {
		t.Errorf("the delay is %v", asked)
	}
	<-d.Started.Done()
	stream.ended(t)
	close(finish)
	if body := <-slow; body != "whole" {
		t.Errorf("the open request got %q", body)
	}
	if err := <-ended; err != nil {
		t.Errorf("a clean stop ended with %v", err)
	}
	if _, _, err := get("/readyz"); err == nil {
		t.Error("the port is still open")
	}
}

// rawStream is a connection on which a stream has begun, as HTTP/1.1.
type rawStream struct {
	net.Conn
	*bufio.Reader
}

func openStream(t *testing.T, address string) rawStream {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := rawStream{conn, bufio.NewReader(conn)}
	if _, err := io.WriteString(conn, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := s.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Fatalf("the stream begins %q, %v", line, err)
	}
	return s
}

// ended checks that the stream ends whole, and its connection with it: the client would send its next request to this server.
func (s rawStream) ended(t *testing.T) {
	t.Helper()
	if text, err := io.ReadAll(s.Reader); err != nil || !strings.HasSuffix(string(text), "\r\n0\r\n\r\n") {
		t.Errorf("the stream ends with %q, %v", text, err)
	}
}

// closed reports whether the server closes the connection after its answer.
func closed(t *testing.T, url string) (bool, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return false, err
	}
	return resp.Close, resp.Body.Close()
}

// A client that announces a body and sends none neither delays the server's stop, nor makes it an unclean one.
func TestABodyThatNeverComesDoesNotHoldTheDrain(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := drain.New()
	p := &components{
		cfg: config.Default(), metrics: prometheus.NewRegistry(), proxies: &requestheader.Authenticator{}, drain: d, who: anonymous.Authenticator{},
		may: authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
			return authz.Allow("", ""), nil
		}),
	}
	if p.requests, err = filter.NewMetrics(p.metrics); err != nil {
		t.Fatal(err)
	}
	entered := make(chan struct{})
	chain := p.chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		_, _ = io.ReadAll(r.Body)
	}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, chain, []net.Listener{ln}, d, 0) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /oauth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	stop()
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestANegativeDelayIsRefused(t *testing.T) {
	_, _, err := Listen{InsecurePort: 1, ShutdownDelay: -time.Second}.open(t.Context(), nil, &aggregatedTLS{})
	if err == nil || !strings.Contains(err.Error(), "--shutdown-delay-duration") {
		t.Errorf("%v, want an error that names the flag", err)
	}
}

func TestListenSaysWhichPortIsTaken(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	for _, c := range []struct {
		name, want string
		l          Listen
	}{
		{"taken", "address already in use", Listen{BindAddress: "127.0.0.1", InsecurePort: port}},
		{"none", "nothing to serve", Listen{BindAddress: "127.0.0.1"}},
		{"no certificate", "--tls-cert-file", Listen{BindAddress: "127.0.0.1", SecurePort: port}},
	} {
		if _, _, err := c.l.open(t.Context(), &clientCA{}, &aggregatedTLS{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
