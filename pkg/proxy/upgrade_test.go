package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"kapis.dev/ks-apiserver/pkg/stream"
)

// echo is a WebSocket endpoint that sends back what it receives.
func echo(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	for {
		kind, p, err := c.Read(r.Context())
		if err != nil || c.Write(r.Context(), kind, p) != nil {
			return
		}
	}
}

func dialEcho(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, _, err := websocket.Dial(ctx, strings.Replace(url, "http", "ws", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	say(t, c, "hello")
	return c
}

func say(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := c.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, p, err := c.Read(ctx); err != nil || string(p) != text {
		t.Fatalf("said %q, heard %q: %v", text, p, err)
	}
}

func TestWebSocketWatchesPass(t *testing.T) { // S18 with a real client; legacy paths and ?watch
	for _, path := range []string{"/api/v1/watch/namespaces/a/pods", "/api/v1/namespaces/a/pods?watch=true", "/clusters/host/api/v1/watch/pods"} {
		b, srv := proxied(t, echo)
		c := dialEcho(t, srv.URL+path)
		say(t, c, strings.Repeat("large ", 20_000)[:32_000])
		wantIdentity(t, b.only(t))
		if got := b.only(t).RequestURI; got != strings.TrimPrefix(path, "/clusters/host") {
			t.Errorf("the backend was asked for %s", got)
		}
		if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Errorf("closing: %v", err)
		}
	}
}

func TestSPDYExecPasses(t *testing.T) {
	b, srv := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 8)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, sent <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			return
		}
		defer func() { _ = conn.Close() }()
		by := map[string]httpstream.Stream{}
		for len(by) < 3 {
			s := <-streams
			by[s.Headers().Get("streamType")] = s
		}
		_, _ = io.Copy(by["stdout"], by["stdin"])
		for _, name := range []string{"stdout", "error"} {
			_ = by[name].Close()
		}
		<-conn.CloseChan()
	})
	exec, err := remotecommand.NewSPDYExecutor(&rest.Config{Host: srv.URL}, "POST", mustURL(t, srv.URL+"/api/v1/namespaces/a/pods/p/exec?stdin=true&stdout=true"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("line\n", 50_000)
	var out bytes.Buffer
	err = exec.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader(want), Stdout: &out})
	if err != nil || out.String() != want {
		t.Fatalf("%d bytes of %d came back: %v", out.Len(), len(want), err)
	}
	wantIdentity(t, exceptProtocol(b.only(t)))
}

// exceptProtocol leaves out the header by which a stream's protocol is chosen.
func exceptProtocol(r *http.Request) *http.Request {
	r = r.Clone(context.Background())
	r.Header.Del("X-Stream-Protocol-Version")
	return r
}

func TestARefusedUpgradeClosesTheConnection(t *testing.T) { // S15
	for _, code := range []int{400, 403, 404, 500, 503} {
		b, srv := proxied(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "4")
			w.Header().Set("Connection", "keep-alive")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "nope")
		})
		c := rawDial(t, srv)
		c.send("GET /api/v1/namespaces/a/pods/p/exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" +
			"DELETE /api/v1/namespaces/kube-system HTTP/1.1\r\nHost: x\r\n\r\n")
		res, body := c.answer()
		if res.StatusCode != code || body != "nope" || !res.Close {
			t.Errorf("%d is answered with %d %q, close %v", code, res.StatusCode, body, res.Close)
		}
		c.closed()
		b.only(t)
	}
}

func TestAnUpgradeAnsweredWithSomethingElseIs502(t *testing.T) { // S16
	for _, code := range []int{200, 204, 301, 302, 307, 304} {
		b, srv := proxied(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/api/v1/namespaces/a/pods/p/exec/")
			w.WriteHeader(code)
		})
		c := rawDial(t, srv)
		c.send("GET /api/v1/namespaces/a/pods/p/exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n" +
			"GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
		res, body := c.answer()
		if res.StatusCode != http.StatusBadGateway || res.Header.Get("Location") != "" || !res.Close {
			t.Errorf("%d is answered with %d %v %s", code, res.StatusCode, res.Header, body)
		}
		c.closed()
		b.only(t)
	}
}

func TestABackendThatSwitchesUnaskedIs502(t *testing.T) { // S15
	for name, c := range map[string]struct{ ask, give string }{
		"NobodyAsked":   {"", "websocket"},
		"OtherProtocol": {"Connection: Upgrade\r\nUpgrade: websocket\r\n", "tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBackend(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				defer func() { _ = conn.Close() }()
				_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + c.give + "\r\n\r\n")
				_ = rw.Flush()
				_, _ = io.Copy(io.Discard, conn)
			}, false) // a switch can't be by HTTP/2
			srv := front(t, newKube(t, KubeOptions{Config: b.config()}), bob, allowed)
			conn := rawDial(t, srv)
			conn.send("GET /api/v1/pods HTTP/1.1\r\nHost: x\r\n" + c.ask + "\r\n")
			if res, _ := conn.answer(); res.StatusCode != http.StatusBadGateway {
				t.Errorf("code %d", res.StatusCode)
			}
		})
	}
}

func TestUpgradesWithABodyAreRefused(t *testing.T) { // S24
	b, srv := proxied(t, ok)
	for name, head := range map[string]string{
		"ContentLength":       "Content-Length: 5\r\n\r\nhello",
		"Chunked":             "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"ChunkedAndLength":    "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"TwoContentLengths":   "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"UnknownEncoding":     "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"SmuggledSecond":      "Content-Length: 41\r\n\r\nDELETE /api/v1/namespaces/a HTTP/1.1\r\n\r\nx",
		"ExpectAnUnknownWord": "Expect: 200-ok\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c := rawDial(t, srv)
			c.send("GET /api/v1/namespaces/a/pods/p/exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + head)
			res, _ := c.answer()
			if res.StatusCode < 400 || res.StatusCode > 501 || !res.Close {
				t.Errorf("code %d, close %v", res.StatusCode, res.Close)
			}
		})
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("the backend saw %d requests", n)
	}
}

func TestUpgradesEndWithTheRight(t *testing.T) { // S53
	b := newBackend(t, echo)
	var withdrawn atomic.Bool
	k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{RecheckEvery: 5 * time.Millisecond,
		Recheck: func(context.Context, *http.Request) error {
			if withdrawn.Load() {
				return errors.New("the right was withdrawn")
			}
			return nil
		}})})
	c := dialEcho(t, front(t, k, bob, allowed).URL+"/api/v1/namespaces/a/pods/p/exec")
	say(t, c, "still there")
	withdrawn.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, p, err := c.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the stream goes on: %q %v", p, err)
	}
}

func TestUpgradesEndWhenTheServerDrains(t *testing.T) {
	b := newBackend(t, echo)
	drain, stop := context.WithCancel(context.Background())
	k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{Drain: drain})})
	c := dialEcho(t, front(t, k, bob, allowed).URL+"/api/v1/namespaces/a/pods/p/exec")
	stop()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the stream goes on: %v", err)
	}
}

func TestOneSideAloneDoesNotHoldAnUpgrade(t *testing.T) {
	const handshake = "GET /api/v1/watch/pods HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	for name, backendLeaves := range map[string]bool{"ServerLeft": true, "ClientLeft": false} {
		t.Run(name, func(t *testing.T) {
			closed := make(chan struct{})
			b := startBackend(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer close(closed)
				defer func() { _ = conn.Close() }()
				_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nlast words")
				_ = rw.Flush()
				if backendLeaves {
					return
				}
				for { // it reads on, even though nothing arrives any more
					if _, err := conn.Write([]byte("x")); err != nil {
						return
					}
				}
			}, false)
			k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{CloseTimeout: time.Millisecond})})
			c := rawDial(t, front(t, k, bob, allowed))
			c.send(handshake)
			if res, _ := c.answer(); res.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("code %d", res.StatusCode)
			}
			if !backendLeaves {
				if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			rest, err := io.ReadAll(c.r)
			var e net.Error
			if errors.As(err, &e) {
				t.Fatal("the connection stays open")
			}
			if !strings.HasPrefix(string(rest), "last words") {
				t.Errorf("the client heard %.20q", rest)
			}
			<-closed
		})
	}
}

func TestNothingIsLeftOfAbandonedUpgrades(t *testing.T) { // S15, and clients that just go away
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, old) }) // runs last: after the servers are closed
	b := newBackend(t, echo)
	k := newKube(t, KubeOptions{Config: b.config(), Streams: stream.New(stream.Options{
		Recheck: func(context.Context, *http.Request) error { return nil },
	})})
	srv := front(t, k, bob, allowed)
	for range 5 {
		c := dialEcho(t, srv.URL+"/api/v1/namespaces/a/pods/p/attach")
		_ = c.CloseNow()
	}
	c := rawDial(t, srv) // half a client: it sends nothing any more, and does not close
	c.send("GET /api/v1/watch/pods HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if res, _ := c.answer(); res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("code %d", res.StatusCode)
	}
	_ = c.conn.Close()
}
