package stream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

const batch = 64 << 10 // bytes that are written at once

// source is a Source made of functions.
type source struct {
	stream func(context.Context, *stream.Writer)
	closed atomic.Int64
}

func (s *source) Head(h http.Header)                             { h.Set("X-Source", "s") }
func (s *source) Stream(ctx context.Context, out *stream.Writer) { s.stream(ctx, out) }
func (s *source) Close()                                         { s.closed.Add(1) }

// endless sends one event, and then nothing until ctx ends.
func endless() *source {
	return &source{stream: func(ctx context.Context, out *stream.Writer) {
		out.Event("ADDED", "7", `{"n":`, "1}")
		out.Flush()
		<-ctx.Done()
	}}
}

func handler(g *stream.Guard, src stream.Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get("User")
		ctx := request.WithUser(r.Context(), &user.DefaultInfo{Name: name})
		g.Answer(src).Respond(w, r.WithContext(ctx))
	})
}

func serve(t *testing.T, g *stream.Guard, src stream.Source) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(handler(g, src))
	t.Cleanup(srv.Close)
	return srv
}

// ask opens a stream. Failing tests end after a while.
func ask(t *testing.T, client *http.Client, method, url string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("the end is not a clean one: %v", err)
	}
	return string(b)
}

func TestFrames(t *testing.T) {
	src := func() *source {
		return &source{stream: func(_ context.Context, out *stream.Writer) {
			out.Event("ADDED", "7", `{"a":`, "\r\n1\n}")
			out.Event("MODIFIED", "", `{"b":"\n"}`)
			out.Beat("8")
			out.Beat("")
			out.Event("X", "9\ndata: forged", `{}`)
			out.Fail(errors.New("secret"))
			out.Flush()
		}}
	}
	status := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: see the server's log","reason":"InternalError","details":{"causes":[{"message":"see the server's log"}]},"code":500}}`
	for _, c := range []struct{ name, accept, content, want string }{
		{"LinesOfJSON", "application/json", "application/json", `{"a":  1 }` + "\n" + `{"b":"\n"}` + "\n{}\n" + status + "\n"},
		{"ServerSentEvents", stream.EventStream, stream.EventStream, "retry: 1000\n\n" +
			"event: ADDED\nid: 7\ndata: " + `{"a":  1 }` + "\n\n" +
			"event: MODIFIED\ndata: " + `{"b":"\n"}` + "\n\n" +
			": ping\nid: 8\n\n: ping\n\n" +
			"event: X\nid: 9 data: forged\ndata: {}\n\n" +
			"event: ERROR\nid:\ndata: " + status + "\n\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := src()
			g := stream.New(stream.Options{})
			res := ask(t, http.DefaultClient, http.MethodGet, serve(t, g, s).URL, "Accept: "+c.accept)
			if got := body(t, res); got != c.want {
				t.Errorf("got\n%q, want\n%q", got, c.want)
			}
			for k, want := range map[string]string{
				"Content-Type": c.content, "Cache-Control": "no-cache, private", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff", "X-Source": "s",
			} {
				if got := res.Header.Get(k); got != want {
					t.Errorf("%s: %q", k, got)
				}
			}
			if s.closed.Load() != 1 || g.Open() != 0 {
				t.Errorf("closed %d times, %d open", s.closed.Load(), g.Open())
			}
		})
	}
	t.Run("MessagesOfAWebSocket", func(t *testing.T) {
		conn, _, err := websocket.Dial(t.Context(), serve(t, stream.New(stream.Options{}), src()).URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.CloseNow()
		for _, want := range []string{`{"a":  1 }`, `{"b":"\n"}`, `{}`, status} {
			typ, got, err := conn.Read(t.Context())
			if err != nil || typ != websocket.MessageText || string(got) != want {
				t.Fatalf("%v %s %v, want %s", typ, got, err, want)
			}
		}
		if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
			t.Errorf("the end: %v", err)
		}
	})
}

func TestLargeEventsArriveWhole(t *testing.T) {
	large := strings.Repeat("x", 5*batch+1)
	src := &source{stream: func(_ context.Context, out *stream.Writer) {
		for range 3 {
			out.Event("ADDED", "", `"`, large, `"`)
			if !out.Full() {
				t.Error("it is not full")
			}
			out.Flush()
		}
	}}
	if got, want := body(t, ask(t, http.DefaultClient, http.MethodGet, serve(t, stream.New(stream.Options{}), src).URL)),
		strings.Repeat(`"`+large+`"`+"\n", 3); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

func TestTheFormIsChosenByAccept(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "application/json": false, stream.EventStream: true, "text/event-stream;q=0": false, "text/*": false,
		"text/event-stream, */*": true, "application/json, text/event-stream": true, "application/json;q=0.5, text/event-stream;q=0.4": false,
		"TEXT/EVENT-STREAM": true, "text/event-stream;q=x": false, "application/json;as=Table, application/json": false,
	} {
		if got := stream.WantsEvents(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

func TestHeadHasNoEvents(t *testing.T) {
	g := stream.New(stream.Options{})
	src := &source{stream: func(context.Context, *stream.Writer) { t.Error("the stream began") }}
	h := handler(g, src)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(web.AsHead(r.Context())) // as package apiserver does, whose routes know GET only
		r.Method = http.MethodGet
		h.ServeHTTP(w, r)
	}))
	defer srv.Close()
	res := ask(t, http.DefaultClient, http.MethodHead, srv.URL)
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" || body(t, res) != "" || src.closed.Load() != 1 || g.Open() != 0 {
		t.Errorf("%v, closed %d times, %d open", res, src.closed.Load(), g.Open())
	}
}

func TestWithoutAGuardNothingIsStreamed(t *testing.T) {
	src := endless()
	res := ask(t, http.DefaultClient, http.MethodGet, serve(t, nil, src).URL)
	if res.StatusCode != http.StatusInternalServerError || src.closed.Load() != 1 {
		t.Errorf("%d, closed %d times", res.StatusCode, src.closed.Load())
	}
}

// first reads the first event of an endless source.
func first(t *testing.T, res *http.Response) *bufio.Reader {
	t.Helper()
	r := bufio.NewReader(res.Body)
	if line, err := r.ReadString('\n'); err != nil || line != "{\"n\":1}\n" {
		t.Fatalf("%q %v", line, err)
	}
	return r
}

func TestTooManyStreamsAreRefused(t *testing.T) {
	g := stream.New(stream.Options{PerUser: 2, Total: 3})
	srv := serve(t, g, endless())
	open := map[string]*http.Response{}
	for _, c := range []struct {
		who  string
		code int
		says string
	}{
		{"a", 200, ""}, {"b", 200, ""}, {"b", 200, ""}, {"a", 429, "this server"},
	} {
		res := ask(t, http.DefaultClient, http.MethodGet, srv.URL, "User: "+c.who)
		if res.StatusCode != c.code {
			t.Fatalf("%s: %d", c.who, res.StatusCode)
		}
		if c.code == 200 {
			first(t, res)
			open[c.who] = res
			continue
		}
		var s metav1.Status
		if err := json.Unmarshal([]byte(body(t, res)), &s); err != nil || s.Reason != metav1.StatusReasonTooManyRequests || !strings.Contains(s.Message, c.says) ||
			res.Header.Get("Retry-After") == "" {
			t.Errorf("%+v %v %v", s, err, res.Header)
		}
	}
	_ = open["a"].Body.Close()
	waitOpen(t, g, 2)
	res := ask(t, http.DefaultClient, http.MethodGet, srv.URL, "User: b")
	if text := body(t, res); res.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, `user \"b\"`) {
		t.Errorf("a third of b: %d %s", res.StatusCode, text)
	}
	first(t, ask(t, http.DefaultClient, http.MethodGet, srv.URL, "User: c"))
	http.DefaultClient.CloseIdleConnections()
}

// Whoever may make service accounts takes nobody else's room.
func TestServiceAccountsOfANamespaceCountAsOneUser(t *testing.T) {
	g := stream.New(stream.Options{PerUser: 2, Total: 6})
	for _, c := range []struct{ who, refusal string }{
		{"system:serviceaccount:a:one", ""},
		{"system:serviceaccount:a:two", ""},
		{"system:serviceaccount:a:one", `the service accounts of namespace "a" have 2 streams open`},
		{"system:serviceaccount:a:three", `the service accounts of namespace "a" have 2 streams open`},
		{"kubesphere:serviceaccount:b:one", ""},
		{"system:serviceaccount:c:one", "service accounts have 3 streams open at this server"}, // half of all
		{"ann", ""}, {"ann", ""}, {"bob", ""},
		{"cat", "this server has 6 streams open"},
	} {
		r := httptest.NewRequestWithContext(request.WithUser(t.Context(), &user.DefaultInfo{Name: c.who}), http.MethodGet, "/", nil)
		s, _, err := g.Over(httptest.NewRecorder(), r)
		switch {
		case c.refusal == "" && err != nil:
			t.Fatalf("%s: %v", c.who, err)
		case c.refusal != "" && (!apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), c.refusal)):
			t.Errorf("%s: got %v, want %s", c.who, err, c.refusal)
		case err == nil:
			defer s.Stop()
		}
	}
}

// What is refused or has ended counts for nobody.
func TestServiceAccountsMakeRoomWhenTheyLeave(t *testing.T) {
	g := stream.New(stream.Options{PerUser: 2, Total: 2})
	over := func(who string) (*stream.Stream, error) {
		r := httptest.NewRequestWithContext(request.WithUser(t.Context(), &user.DefaultInfo{Name: who}), http.MethodGet, "/", nil)
		s, _, err := g.Over(httptest.NewRecorder(), r)
		return s, err
	}
	for range 3 {
		s, err := over("system:serviceaccount:a:one")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := over("system:serviceaccount:b:one"); !apierrors.IsTooManyRequests(err) {
			t.Errorf("beyond their half: got %v, want a 429", err)
		}
		if n := g.Open(); n != 1 {
			t.Errorf("%d streams are open, want one", n)
		}
		s.Stop()
	}
}

// waitOpen waits until n streams are open.
func waitOpen(t *testing.T, g *stream.Guard, n int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); g.Open() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d are open", g.Open())
		}
	}
}

// versions are the versions of HTTP that a test goes through.
var versions = []string{"HTTP/1.1", "HTTP/2.0"}

// secure serves h by a version of HTTP.
func secure(t *testing.T, version string, h http.Handler) (*http.Client, string) {
	t.Helper()
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Proto != version {
			t.Errorf("the client speaks %s", r.Proto)
		}
		h.ServeHTTP(w, r)
	}))
	srv.EnableHTTP2 = version == "HTTP/2.0"
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.Client(), srv.URL
}

func TestStreamsEndCleanly(t *testing.T) { // S53
	until := func(end <-chan struct{}, why func(context.Context) error) stream.Options {
		return stream.Options{RecheckEvery: time.Millisecond, Recheck: func(ctx context.Context, _ *http.Request) error {
			select {
			case <-end:
				return why(ctx)
			default:
				return nil
			}
		}}
	}
	for name, options := range map[string]func(end <-chan struct{}) stream.Options{
		"WithTheRight": func(end <-chan struct{}) stream.Options {
			return until(end, func(context.Context) error { return errors.New("no longer") })
		},
		"WithACheckThatHangs": func(end <-chan struct{}) stream.Options {
			return until(end, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		},
		"WhenTheServerStops": func(end <-chan struct{}) stream.Options {
			ctx, cancel := context.WithCancel(context.Background())
			go func() { <-end; cancel() }()
			return stream.Options{Drain: ctx}
		},
	} {
		for _, accept := range []string{"application/json", stream.EventStream} {
			for _, version := range versions {
				t.Run(name+"/"+accept+"/"+version, func(t *testing.T) {
					t.Parallel()
					end := make(chan struct{})
					g := stream.New(options(end))
					client, url := secure(t, version, handler(g, endless()))
					res := ask(t, client, http.MethodGet, url, "Accept: "+accept)
					close(end)
					if text := body(t, res); !strings.HasSuffix(text, "\n") {
						t.Errorf("%q", text)
					}
					waitOpen(t, g, 0)
				})
			}
		}
	}
}

func TestAClientThatReadsNothingIsCutOff(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			gone := make(chan struct{})
			src := &source{stream: func(_ context.Context, out *stream.Writer) {
				defer close(gone)
				for out.Flush() {
					out.Event("ADDED", "", strings.Repeat("x", batch))
				}
			}}
			client, url := secure(t, version, handler(stream.New(stream.Options{Progress: 20 * time.Millisecond}), src))
			res := ask(t, client, http.MethodGet, url)
			<-gone
			if _, err := io.Copy(io.Discard, res.Body); err == nil {
				t.Error("the stream ended like any other")
			}
		})
	}
}

func TestAQuietStreamGoesOn(t *testing.T) {
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // nothing is written for longer than one write may take
				src := &source{stream: func(_ context.Context, out *stream.Writer) {
					for _, event := range []string{"1", "2"} {
						time.Sleep(10 * stream.DefaultProgress)
						out.Event("ADDED", "", event)
						out.Flush()
					}
				}}
				speaks := &http.Protocols{}
				speaks.SetHTTP1(version == "HTTP/1.1")
				speaks.SetUnencryptedHTTP2(version != "HTTP/1.1")
				near, far := net.Pipe()
				at := &once{conn: make(chan net.Conn, 1)}
				at.conn <- far
				srv := &http.Server{Handler: handler(stream.New(stream.Options{}), src), Protocols: speaks}
				go func() { _ = srv.Serve(at) }()
				client := &http.Transport{Protocols: speaks, DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
				res, err := client.RoundTrip(httptest.NewRequest(http.MethodGet, "http://in.memory/", nil))
				if err != nil {
					t.Fatal(err)
				}
				if got := body(t, res); res.Proto != version || got != "1\n2\n" {
					t.Errorf("%s: %q", res.Proto, got)
				}
				client.CloseIdleConnections()
				_ = srv.Close()
			})
		})
	}
}

// once is a listener with the connections in conn.
type once struct{ conn chan net.Conn }

func (o *once) Accept() (net.Conn, error) {
	if c, ok := <-o.conn; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (o *once) Addr() net.Addr { return &net.UnixAddr{} }
func (o *once) Close() error   { close(o.conn); return nil }

func TestTheConnectionServesOnAfterAnEndedStream(t *testing.T) {
	g := stream.New(stream.Options{Progress: time.Second})
	srv := serve(t, g, &source{stream: func(_ context.Context, out *stream.Writer) {
		out.Event("ADDED", "", "1")
		out.Flush()
	}})
	reused := 0
	for range 3 {
		res := ask(t, srv.Client(), http.MethodGet, srv.URL)
		if got := body(t, res); got != "1\n" {
			t.Errorf("%q", got)
		}
		reused++
	}
	if reused != 3 || g.Open() != 0 {
		t.Errorf("%d, %d open", reused, g.Open())
	}
}

func TestNothingIsLeftOfAbandonedStreams(t *testing.T) { // U7
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, old) }) // runs last: after the server is closed
	g := stream.New(stream.Options{RecheckEvery: time.Millisecond, Recheck: func(context.Context, *http.Request) error { return nil }})
	srv := serve(t, g, endless())
	for i := range 100 {
		if i%4 == 0 {
			conn, _, err := websocket.Dial(t.Context(), srv.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _, _ = conn.Read(t.Context())
			_ = conn.CloseNow()
			continue
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res := ask(t, client, http.MethodGet, srv.URL)
		first(t, res)
		_ = res.Body.Close()
	}
	waitOpen(t, g, 0)
}

func TestAWebSocketEndsWithTheRight(t *testing.T) { // S53
	var withdrawn atomic.Bool
	g := stream.New(stream.Options{RecheckEvery: time.Millisecond, Recheck: func(context.Context, *http.Request) error {
		if withdrawn.Load() {
			return errors.New("no longer")
		}
		return nil
	}})
	conn, _, err := websocket.Dial(t.Context(), serve(t, g, endless()).URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if _, _, err := conn.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	withdrawn.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the end: %v", err)
	}
	waitOpen(t, g, 0)
}

func TestAPanicOfTheCheckEndsItsStreamOnly(t *testing.T) {
	g := stream.New(stream.Options{RecheckEvery: time.Millisecond, Recheck: func(context.Context, *http.Request) error { panic("lost") }})
	conn, _, err := websocket.Dial(t.Context(), serve(t, g, endless()).URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the end: %v", err)
	}
	waitOpen(t, g, 0)
}

func TestAClientIsToldOfAnEndAfterWhichItMayBeginAnew(t *testing.T) {
	for name, c := range map[string]struct {
		why  error
		code string
	}{
		"Expired":     {fmt.Errorf("look again: %w", apierrors.NewResourceExpired("list again")), `"code":410`},
		"AnotherEnd":  {errors.New("no longer"), `"code":401`},
		"NotTheCause": {apierrors.NewInternalError(errors.New("a detail")), `"code":401`},
	} {
		t.Run(name, func(t *testing.T) {
			g := stream.New(stream.Options{RecheckEvery: time.Millisecond, Recheck: func(context.Context, *http.Request) error { return c.why }})
			srv := serve(t, g, &source{stream: func(ctx context.Context, out *stream.Writer) {
				<-ctx.Done()
				out.Fail(stream.Ended(ctx))
				out.Flush()
			}})
			conn, _, err := websocket.Dial(t.Context(), srv.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.CloseNow()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if _, text, err := conn.Read(ctx); err != nil || !strings.Contains(string(text), c.code) {
				t.Errorf("the last message: %s %v, want %s", text, err, c.code)
			}
			if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
				t.Errorf("the end: %v", err)
			}
			waitOpen(t, g, 0)
		})
	}
}

func ExampleWriter_Event() {
	g := stream.New(stream.Options{})
	rec := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", stream.EventStream)
	g.Answer(&source{stream: func(_ context.Context, out *stream.Writer) {
		out.Event("ADDED", "7", `{"type":"ADDED","object":`, `{}`, `}`)
		out.Flush()
	}}).Respond(rec, r)
	fmt.Print(rec.Body)
	// Output:
	// retry: 1000
	//
	// event: ADDED
	// id: 7
	// data: {"type":"ADDED","object":{}}
}
