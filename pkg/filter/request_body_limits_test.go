package filter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/web"
)

// stallTimeout is how long a client may send nothing in these tests. Where it has to pass, the clock is a synctest bubble's, and connections are pipes.
const stallTimeout = time.Second

// reading answers with how much of the body came, or why it did not; at /refused it reads nothing, and at /stream it writes at intervals for longer than the
// stallTimeout, and then says whether the request was still wanted.
var reading = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/refused", "/api/v1/namespaces/a/services/s/proxy/refused":
		http.Error(w, "no", http.StatusUnauthorized)
	case "/read-then-stream", "/stream":
		if r.URL.Path != "/stream" {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		for range 15 {
			_, _ = io.WriteString(w, ".")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(stallTimeout / 10):
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "whole")
	default:
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			web.WriteError(w, r, fmt.Errorf("read: %w", err))
			return
		}
		_, _ = io.WriteString(w, strconv.Itoa(len(raw)))
	}
})

func bodyServer(t *testing.T, drain context.Context, stallTimeout time.Duration) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(Chain(reading, Body(drain, stallTimeout), Info, Limit(MaxBody, nil)))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	plain := httptest.NewServer(srv.Config.Handler)
	t.Cleanup(plain.Close)
	srv.URL = plain.URL // the one without TLS, for bytes
	return srv
}

// ends reports whether the server closes the connection: it waits for nothing more.
func (c *rawConn) ends() {
	c.t.Helper()
	if _, err := io.Copy(io.Discard, c.r); err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		c.t.Errorf("the connection stays open: %v", err)
	}
}

func TestABodyThatNeverComesIsGivenUp(t *testing.T) {
	srv := bodyServer(t, t.Context(), stallTimeout/10)
	for name, c := range map[string]struct {
		head, some string
		code       int
	}{
		"OfDeclaredLength":      {"POST /oauth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "", http.StatusRequestTimeout},
		"CutOff":                {"POST /oauth/token HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "abc", http.StatusRequestTimeout},
		"Chunked":               {"POST /oauth/token HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n", http.StatusRequestTimeout},
		"RefusedUnread":         {"POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 262000\r\n\r\n", "abc", http.StatusUnauthorized},
		"RefusedUnreadChunked":  {"POST /refused HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "3\r\nabc\r\n", http.StatusUnauthorized},
		"RefusedUnreadStreamed": {"POST /api/v1/namespaces/a/services/s/proxy/refused HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "", http.StatusUnauthorized},
		"OfNoUnderstoodPath":    {"POST /api/../x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", "", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			conn := rawDial(t, strings.TrimPrefix(srv.URL, "http://"))
			conn.send(c.head + c.some)
			if got := conn.status(); got != c.code {
				t.Errorf("answered with %d, want %d", got, c.code)
			}
			conn.ends() // further bytes must not be taken for a request
		})
	}
	t.Run("HTTP2", func(t *testing.T) {
		body, end := io.Pipe()
		defer end.Close()
		res := post(t, srv, "/oauth/token", body)
		defer res.Body.Close()
		if res.ProtoMajor != 2 || res.StatusCode != http.StatusRequestTimeout {
			t.Errorf("answered with %d over %s", res.StatusCode, res.Proto)
		}
	})
}

// S24: net/http hides whether a chunked request had a length as well, by which a proxy before this server takes the rest for another request.
func TestNothingIsReadAfterABodyInChunks(t *testing.T) {
	srv := bodyServer(t, t.Context(), stallTimeout)
	const chunks, next = "3\r\nabc\r\n0\r\n\r\n", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, head := range map[string]string{"Chunks": "Transfer-Encoding: chunked\r\n", "AndALength": "Content-Length: 13\r\nTransfer-Encoding: chunked\r\n"} {
		t.Run(name, func(t *testing.T) {
			conn := rawDial(t, strings.TrimPrefix(srv.URL, "http://"))
			conn.send("POST /oauth/token HTTP/1.1\r\nHost: x\r\n" + head + "\r\n" + chunks + next)
			res, err := http.ReadResponse(conn.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || !res.Close {
				t.Errorf("the connection goes on: close %v, %v", res.Close, err)
			}
			if rest, err := io.ReadAll(conn.r); len(rest) > 0 {
				t.Errorf("what follows is answered: %s %v", rest, err)
			}
		})
	}
}

// net/http writes the trailers of a request in the goroutine that reads the end of its body: no handler has that map, which another goroutine
// may copy with the request meanwhile.
func TestHandlersHaveNoTrailers(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		srv := httptest.NewUnstartedServer(Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			_, _ = fmt.Fprintf(w, "%d %v %v", r.ProtoMajor, r.Trailer, err)
		}), Body(t.Context(), stallTimeout)))
		srv.EnableHTTP2 = http2
		srv.StartTLS()
		defer srv.Close()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, io.MultiReader(strings.NewReader("body")))
		if err != nil {
			t.Fatal(err)
		}
		req.Trailer = http.Header{"X-Sum": {"1"}}
		res, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if want := fmt.Sprintf("%d map[] <nil>", res.ProtoMajor); string(got) != want || (res.ProtoMajor == 2) != http2 {
			t.Errorf("HTTP/%d: got %q, want %q", res.ProtoMajor, got, want)
		}
	}
}

// post sends a body over TLS, and so over HTTP/2.
func post(t *testing.T, srv *httptest.Server, path string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://example.com"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// pipes is a listener whose connections are pipes, which use the clock of a synctest bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

// raw returns a connection for bytes to a server of the handler, without TLS.
func (p *pipes) raw(t *testing.T, h http.Handler) *rawConn {
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(p) }()
	conn := p.dial()
	t.Cleanup(func() { _, _ = conn.Close(), srv.Close() })
	return &rawConn{t, conn, bufio.NewReader(conn)}
}

// secure returns a server of the handler that speaks HTTP/2.
func (p *pipes) secure(t *testing.T, h http.Handler) *httptest.Server {
	srv := &httptest.Server{Listener: p, Config: &http.Server{Handler: h}, EnableHTTP2: true}
	srv.StartTLS()
	srv.Client().Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) { return p.dial(), nil }
	t.Cleanup(srv.Close)
	return srv
}

func patient(t *testing.T, h http.Handler) http.Handler {
	return Chain(h, Body(t.Context(), stallTimeout), Info, Limit(MaxBody, nil))
}

// trickle sends 20 bytes, for ten times stallTimeout.
func trickle(send func(string)) {
	for range 20 {
		time.Sleep(stallTimeout / 2)
		send("x")
	}
}

func TestABodyThatComesSlowlyIsTaken(t *testing.T) {
	t.Run("HTTP1", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			conn := newPipes().raw(t, patient(t, reading))
			conn.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n")
			trickle(conn.send)
			if got := conn.status(); got != http.StatusOK {
				t.Fatalf("answered with %d", got)
			}
			// The connection is used again, after longer than stallTimeout, and its next body has its own timeout.
			time.Sleep(3 * stallTimeout)
			conn.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
			if got := conn.status(); got != http.StatusOK {
				t.Errorf("the next request on the connection: %d", got)
			}
		})
	})
	t.Run("HTTP2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			body, in := io.Pipe()
			go func() {
				trickle(func(s string) { _, _ = io.WriteString(in, s) })
				_ = in.Close()
			}()
			res := post(t, newPipes().secure(t, patient(t, reading)), "/x", body)
			defer res.Body.Close()
			if text, err := io.ReadAll(res.Body); err != nil || string(text) != "20" {
				t.Errorf("%s: %v", text, err)
			}
		})
	})
}

func TestAStreamLastsLongerThanTheBodyOfItsRequestMayTake(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		times   int // the second time on a connection that had a deadline; after a body in chunks there is none
	}{
		"BodyRead":        {"POST /read-then-stream HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 2},
		"BodyReadChunked": {"POST /read-then-stream HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 1},
		"BodyUnread":      {"GET /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 2},
		"NoBody":          {"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := newPipes().raw(t, patient(t, reading))
				for range c.times {
					conn.send(c.request)
					res, err := http.ReadResponse(conn.r, nil)
					if err != nil {
						t.Fatal(err)
					}
					text, err := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if err != nil || !strings.HasSuffix(string(text), "whole") {
						t.Fatalf("it was cut: %q %v", text, err)
					}
				}
			})
		})
	}
	t.Run("HTTP2", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			res := post(t, newPipes().secure(t, patient(t, reading)), "/read-then-stream", strings.NewReader("abc"))
			defer res.Body.Close()
			if text, err := io.ReadAll(res.Body); err != nil || !strings.HasSuffix(string(text), "whole") {
				t.Errorf("it was cut: %q %v", text, err)
			}
		})
	})
}

func TestWhatIsStreamedToAWorkloadMayPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := newPipes().raw(t, patient(t, reading))
		conn.send("POST /api/v1/namespaces/a/services/s/proxy/up HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
		time.Sleep(5 * stallTimeout)
		conn.send("b")
		if got := conn.status(); got != http.StatusOK {
			t.Errorf("answered with %d", got)
		}
	})
}

// Once the server stops, bodies have little time, whatever stallTimeout is.
func TestABodyThatNeverComesHoldsNoServerThatStops(t *testing.T) {
	drain, begin := context.WithCancel(t.Context())
	srv := bodyServer(t, drain, time.Hour)
	conn := rawDial(t, strings.TrimPrefix(srv.URL, "http://"))
	conn.send("POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if line, err := conn.r.ReadString('\n'); err != nil || !strings.Contains(line, "100") { // it is being read
		t.Fatalf("%q %v", line, err)
	}
	if _, err := conn.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	begin()
	if got := conn.status(); got != http.StatusRequestTimeout {
		t.Errorf("answered with %d", got)
	}
	after := rawDial(t, strings.TrimPrefix(srv.URL, "http://"))
	after.send("POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
	if got := after.status(); got != http.StatusUnauthorized {
		t.Errorf("answered with %d", got)
	}
}
