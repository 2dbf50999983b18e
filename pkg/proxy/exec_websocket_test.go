package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/terminal"
	"kapis.dev/ks-apiserver/pkg/web"
)

const execPath = "/api/v1/namespaces/a/pods/p/exec"

// execRequest is a request to exec that was authorized for u.
func execRequest(t *testing.T, ctx context.Context, u user.Info, d authz.Decision) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, execPath+"?command=sh&tty=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.7:1234"
	r.Header.Set("User-Agent", "console")
	r.Header.Set("Audit-Id", "audit-1")
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	if u != nil {
		ctx = request.WithUser(ctx, u)
	}
	return r.WithContext(authz.WithDecision(request.WithInfo(ctx, info), d))
}

// container answers an exec by WebSocket.
func container(t *testing.T, run func(ctx context.Context, c *websocket.Conn)) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"v5.channel.k8s.io"}})
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.CloseNow() }()
		run(r.Context(), c)
	}
}

func message(t *testing.T, c *websocket.Conn, text string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageBinary, []byte(text)); err != nil {
		t.Error(err)
	}
}

const exited3 = "\x03" + `{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}`

func TestACommandRunsAsItsCaller(t *testing.T) { // O1
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, old) })
	b := startBackend(t, container(t, func(ctx context.Context, c *websocket.Conn) {
		var got strings.Builder
		for !strings.Contains(got.String(), "\xff\x00") || !strings.Contains(got.String(), `"Width":80`) { // in any order
			kind, m, err := c.Read(ctx)
			if err != nil || kind != websocket.MessageBinary {
				t.Errorf("%v %v", kind, err)
				return
			}
			got.Write(m)
		}
		if text := got.String(); strings.ReplaceAll(text, "\x04{\"Width\":80,\"Height\":24}", "") != "\x00typed\xff\x00" {
			t.Errorf("the container reads %q", text)
		}
		message(t, c, "\x01shown ")
		message(t, c, "")
		message(t, c, "\x01")
		message(t, c, "\x07of a later version")
		message(t, c, "\x01"+strings.Repeat("x", 100<<10))
		message(t, c, exited3)
	}), false)
	k := newKube(t, KubeOptions{Config: b.config()})
	var shown strings.Builder
	sizes, started := make(chan terminal.Size), 0
	in, typing := io.Pipe()
	go func() {
		sizes <- terminal.Size{Width: 80, Height: 24}
		_, _ = io.WriteString(typing, "typed")
		_ = typing.Close()
	}()
	err := k.Exec(execRequest(t, t.Context(), bob, allowed), terminal.Streams{Stdin: in, Stdout: &shown, TTY: true, Sizes: sizes, Started: func() { started++ }})
	var exit *terminal.ExitError
	if !errors.As(err, &exit) || exit.Code != 3 || shown.String() != "shown "+strings.Repeat("x", 100<<10) || started != 1 {
		t.Errorf("%v, %d bytes, started %d times", err, shown.Len(), started)
	}
	r := b.only(t)
	for name, want := range map[string][]string{
		"Authorization": {"Bearer " + serverToken}, "Impersonate-User": {"bob"}, "Impersonate-Uid": {"uid-bob"},
		"Impersonate-Group": {"dev", "system:authenticated", "kapis:global:viewer"}, "Impersonate-Extra-Example.com%2fsession": {"s1", "s2"},
		"X-Forwarded-For": {"192.0.2.7"}, "User-Agent": {"console"}, "Audit-Id": {"audit-1"}, "Origin": {b.URL},
	} {
		if got := r.Header[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.Method != http.MethodGet || r.URL.RequestURI() != execPath+"?command=sh&tty=true" {
		t.Errorf("%s %s", r.Method, r.URL.RequestURI())
	}
}

// Attaching to the process of a container is the same, and what else a pod has is not.
func TestAProcessIsAttachedToAsItsCaller(t *testing.T) { // O10
	b := startBackend(t, container(t, func(_ context.Context, c *websocket.Conn) { message(t, c, exited3) }), false)
	k := newKube(t, KubeOptions{Config: b.config()})
	at := func(subresource string) *http.Request {
		good := execRequest(t, t.Context(), bob, authz.Allow("", "kapis:platform:nodeshell"))
		good.URL.Path = strings.TrimSuffix(execPath, "exec") + subresource
		info, err := request.Parse(good)
		if err != nil {
			t.Fatal(err)
		}
		return good.WithContext(request.WithInfo(good.Context(), info))
	}
	var exit *terminal.ExitError
	if err := k.Exec(at("attach"), terminal.Streams{}); !errors.As(err, &exit) {
		t.Error(err)
	}
	r := b.only(t)
	if got := r.Header["Impersonate-Group"]; r.URL.Path != "/api/v1/namespaces/a/pods/p/attach" || got[len(got)-1] != "kapis:platform:nodeshell" {
		t.Errorf("%s in %q", r.URL, got)
	}
	for _, other := range []string{"portforward", "proxy", "ephemeralcontainers", "log"} {
		if err := k.Exec(at(other), terminal.Streams{}); err == nil || errors.As(err, &exit) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

func TestACommandNeedsItsDecision(t *testing.T) { // O1
	b := startBackend(t, func(http.ResponseWriter, *http.Request) { t.Error("it is asked") }, false)
	k := newKube(t, KubeOptions{Config: b.config()})
	good := execRequest(t, t.Context(), bob, allowed)
	other := good.Clone(good.Context())
	other.URL.Path = "/api/v1/namespaces/b/pods/p/exec"
	get := good.Clone(good.Context())
	get.Method = http.MethodGet
	for name, r := range map[string]*http.Request{
		"NoCaller": execRequest(t, t.Context(), nil, allowed), "NotAllowed": execRequest(t, t.Context(), bob, authz.Decision{}),
		"AnotherPath": other, "AnotherMethod": get,
		"ANode": execRequest(t, t.Context(), &user.DefaultInfo{Name: "system:node:n"}, allowed),
	} {
		if err := k.Exec(r, terminal.Streams{}); err == nil {
			t.Errorf("%s: it runs", name)
		}
	}
}

// Where a WebSocket is refused, or not understood on the way, SPDY is tried, as the caller too.
func TestACommandIsTriedBySPDY(t *testing.T) { // O2
	pods := schema.GroupResource{Resource: "pods"}
	refuse := func(err error) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { web.WriteError(w, r, err) }
	}
	text := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret of a proxy", code) }
	}
	noProtocol := func(w http.ResponseWriter, r *http.Request) {
		if c, err := websocket.Accept(w, r, nil); err == nil {
			_ = c.CloseNow()
		}
	}
	elsewhere := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
	}
	for name, c := range map[string]struct {
		webSocket, spdy http.HandlerFunc
		tried           int
		is              func(error) bool
	}{
		"RefusedByBoth":    {refuse(apierrors.NewForbidden(pods, "p", nil)), refuse(apierrors.NewForbidden(pods, "p", nil)), 2, apierrors.IsForbidden},
		"NotFoundByBoth":   {text(400), refuse(apierrors.NewNotFound(pods, "p")), 2, apierrors.IsNotFound},
		"NotFound":         {refuse(apierrors.NewNotFound(pods, "p")), nil, 1, apierrors.IsNotFound},
		"LostOnTheWay":     {text(200), text(200), 2, func(err error) bool { return errors.Is(err, terminal.ErrNoUpgrade) }},
		"Redirected":       {elsewhere, elsewhere, 2, func(err error) bool { return errors.Is(err, terminal.ErrNoUpgrade) }},
		"NoSuchProtocol":   {noProtocol, text(400), 2, func(err error) bool { return errors.Is(err, terminal.ErrNoUpgrade) }},
		"AnotherCodeOfOur": {refuse(apierrors.NewUnauthorized("no")), text(401), 1, apierrors.IsUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			var posts atomic.Int64
			b := startBackend(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Impersonate-User") != "bob" || r.Header.Get("Authorization") != "Bearer "+serverToken || len(r.Header["Impersonate-Group"]) != 3 {
					t.Errorf("%s as %v", r.Method, r.Header)
				}
				if r.Method == http.MethodPost {
					posts.Add(1)
					c.spdy(w, r)
					return
				}
				c.webSocket(w, r)
			}, false)
			k := newKube(t, KubeOptions{Config: b.config()})
			in, typing := io.Pipe()
			defer typing.Close()
			err := k.Exec(execRequest(t, t.Context(), bob, allowed), terminal.Streams{Stdin: in, Stdout: io.Discard, TTY: true, Sizes: make(chan terminal.Size)})
			if err == nil || !c.is(err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
			if n := len(b.requests()); n != c.tried {
				t.Errorf("%d requests, want %d", n, c.tried)
			}
		})
	}
}

// The process gets the end of its input when the session ends, and nothing of it is left.
func TestACommandEndsWithItsContext(t *testing.T) { // O5, U7
	old := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, old) })
	heard := make(chan string, 1)
	b := startBackend(t, container(t, func(ctx context.Context, c *websocket.Conn) {
		_, m, _ := c.Read(ctx)
		heard <- string(m)
		_, _, err := c.Read(ctx)
		if err == nil {
			t.Error("more is typed")
		}
	}), false)
	k := newKube(t, KubeOptions{Config: b.config()})
	ctx, cancel := context.WithCancel(t.Context())
	in, typing := io.Pipe()
	defer typing.Close()
	err := k.Exec(execRequest(t, ctx, bob, allowed), terminal.Streams{Stdin: in, Stdout: io.Discard, Started: cancel})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if m := <-heard; m != "\xff\x00" {
		t.Errorf("the container reads %q", m)
	}
}

func TestALostConnectionIsNoEnd(t *testing.T) {
	b := startBackend(t, container(t, func(_ context.Context, c *websocket.Conn) { message(t, c, "\x01half") }), false)
	k := newKube(t, KubeOptions{Config: b.config()})
	err := k.Exec(execRequest(t, t.Context(), bob, allowed), terminal.Streams{Stdout: io.Discard})
	if !errors.Is(err, errExecLost) {
		t.Errorf("%v", err)
	}
}

// spdyContainer answers an exec by SPDY alone. It lasts until run returns, which has the streams for the output and the Status.
func spdyContainer(t *testing.T, run func(conn httpstream.Connection, stdout, status io.Writer)) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			http.Error(w, "no WebSocket", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
			t.Error(err)
			return
		}
		streams := make(chan httpstream.Stream, 2)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			t.Error("it is not upgraded")
			return
		}
		defer func() { _ = conn.Close() }()
		by := map[string]io.Writer{}
		for len(by) < 2 {
			select {
			case s := <-streams:
				by[s.Headers().Get("streamType")] = s
			case <-conn.CloseChan():
				t.Errorf("the connection has ended with %d streams", len(by))
				return
			}
		}
		run(conn, by["stdout"], by["error"])
	}
}

func TestALostConnectionBySPDYIsNoEnd(t *testing.T) { // O5, O7
	for name, c := range map[string]struct {
		status string
		is     func(error) bool
	}{
		"Lost":  {"", func(err error) bool { return errors.Is(err, errExecLost) }},
		"Ended": {`{"status":"Success"}`, func(err error) bool { return err == nil }},
		"Failed": {exited3[1:], func(err error) bool {
			var exit *terminal.ExitError
			return errors.As(err, &exit) && exit.Code == 3
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBackend(t, spdyContainer(t, func(_ httpstream.Connection, stdout, status io.Writer) {
				_, _ = io.WriteString(stdout, "half")
				if c.status != "" {
					_, _ = io.WriteString(status, c.status)
				}
			}), false)
			var shown strings.Builder
			err := newKube(t, KubeOptions{Config: b.config()}).Exec(execRequest(t, t.Context(), bob, allowed), terminal.Streams{Stdout: &shown})
			if !c.is(err) || shown.String() != "half" {
				t.Errorf("%q, then %v", shown.String(), err)
			}
		})
	}
}

// unwritable takes nothing.
type unwritable struct{}

func (unwritable) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestOutputThatNobodyTakesEndsACommand(t *testing.T) { // O3
	for name, answer := range map[string]http.HandlerFunc{
		"WebSocket": container(t, func(ctx context.Context, c *websocket.Conn) {
			message(t, c, "\x01shown")
			_, _, _ = c.Read(ctx) // until the connection ends
		}),
		"SPDY": spdyContainer(t, func(conn httpstream.Connection, stdout, _ io.Writer) {
			_, _ = io.WriteString(stdout, "shown")
			<-conn.CloseChan()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			b := startBackend(t, answer, false)
			err := newKube(t, KubeOptions{Config: b.config()}).Exec(execRequest(t, t.Context(), bob, allowed), terminal.Streams{Stdout: unwritable{}})
			if !errors.Is(err, errOutput) || !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("%v", err)
			}
		})
	}
}
