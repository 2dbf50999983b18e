package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
)

// terminal is a shell in a pod, which notes each line that is typed in a file of this machine.
type terminal struct {
	file  string
	typed int
	in    *io.PipeWriter
	out   *printed
	ended chan struct{}
}

// newTerminal opens one by SPDY or by WebSocket, and returns once a line was executed.
func newTerminal(t *testing.T, c caller, pod, protocol string) *terminal {
	t.Helper()
	file := filepath.Join(t.TempDir(), "typed")
	q := url.Values{"command": {"sh", "-c", `while read line; do echo "$line" >> "$0"; echo "done $line"; done`, file}, "stdin": {"true"}, "stdout": {"true"}}
	at, err := url.Parse(c.base + pod + "/exec?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	var executor remotecommand.Executor
	config := &rest.Config{Host: c.base, BearerToken: c.token}
	if protocol == "SPDY" {
		executor, err = remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
	} else {
		executor, err = remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	term := &terminal{file: file, in: w, out: &printed{}, ended: make(chan struct{})}
	t.Cleanup(func() { _ = w.Close() })
	go func() {
		defer close(term.ended)
		err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: r, Stdout: term.out})
		fmt.Fprintf(term.out, "ended with %v\n", err)
		_ = r.Close() // who types on is told that nobody reads
	}()
	term.line()
	eventually(t, "a line is executed", func(context.Context) error {
		if !strings.Contains(term.out.String(), "done 1\n") {
			return fmt.Errorf("it shows %q", term.out.String())
		}
		return nil
	})
	return term
}

// line types a line, and tells whether somebody took it.
func (term *terminal) line() bool {
	term.typed++
	_, err := fmt.Fprintln(term.in, term.typed)
	return err == nil
}

// executed is how many lines were executed.
func (term *terminal) executed(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(term.file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// forward forwards a port of a pod, and returns a channel that is closed when that has ended.
func forward(t *testing.T, c caller, pod string) <-chan struct{} {
	t.Helper()
	config := &rest.Config{Host: c.base, BearerToken: c.token}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(c.base + pod + "/portforward")
	if err != nil {
		t.Fatal(err)
	}
	ready, stop, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	f, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at), []string{"0:80"}, stop, ready, io.Discard,
		io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sync.OnceFunc(func() { close(stop) }))
	failed := make(chan error, 1)
	go func() {
		defer close(ended)
		failed <- f.ForwardPorts()
	}()
	select {
	case <-ready:
	case err := <-failed:
		t.Fatalf("forward a port: %v", err)
	}
	ports, err := f.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	there := caller{base: fmt.Sprint("http://127.0.0.1:", ports[0].Local)}
	if r := there.must(t, http.StatusOK, http.MethodGet, "/", nil); !strings.Contains(r.body, "simulated pod") {
		t.Errorf("the port says %s", clip(r.body))
	}
	return ended
}

// socket opens a WebSocket, and returns a channel that is closed when the server has ended it.
func socket(t *testing.T, c caller, path string) <-chan struct{} {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), c.base+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + c.token}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			if _, _, err := conn.Read(context.WithoutCancel(t.Context())); err != nil {
				return
			}
		}
	}()
	return ended
}

// newPod is a pod that runs, for exec, logs and forwarded ports.
func newPod(t *testing.T, ns string) (path string) {
	t.Helper()
	a := admin(t)
	a.create(t, "/apis/apps/v1/namespaces/"+ns+"/deployments", deployment("web", 1))
	eventually(t, "a pod runs", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, kapis+"/namespaces/"+ns+"/pods?status=Running", nil)
		if err != nil {
			return err
		}
		names := decode[list](t, r.body).names()
		if len(names) != 1 {
			return fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		path = "/api/v1/namespaces/" + ns + "/pods/" + names[0]
		return nil
	})
	return path
}

// What was opened before ends with the token, the right or the user: terminals by both protocols, followed logs, forwarded ports, watches of
// kube-apiserver and of ours, live pages. What is typed from then on is executed by nobody.
func TestWhatIsOpenEndsWithTheRight(t *testing.T) {
	proves(t, "S53")
	ns := newNamespace(t)
	pod, short := newPod(t, ns), newClient(t, 60) // seconds, in which a busy machine opens all
	role(t, ns, "operator", rule{[]string{""}, []string{"pods", "pods/exec", "pods/log", "pods/portforward", "configmaps"}, []string{"get", "list", "watch",
		"create"}})
	merge := "Content-Type: application/merge-patch+json"
	a := admin(t)
	for name, end := range map[string]func(t *testing.T, name, binding string, c caller){
		"the binding is removed": func(t *testing.T, _, binding string, _ caller) {
			a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+ns+"/rolebindings/"+binding, nil)
		},
		"the user is disabled": func(t *testing.T, name, _ string, _ caller) {
			a.must(t, http.StatusOK, http.MethodPatch, iamAPI+"/users/"+name+"/status", `{"status":{"state":"Disabled"}}`, merge)
		},
		"the session is over": func(t *testing.T, _, _ string, c caller) {
			c.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
		},
		"the token expires": nil,
	} {
		t.Run(name, func(t *testing.T) { // O5
			t.Parallel()
			user := unique("operator")
			c := newUser(t, user)
			binding := bind(t, ns, "operator", map[string]any{"kind": "User", "name": user})
			eventually(t, "the role counts", c.is(http.StatusOK, http.MethodGet, "/kapi/v1/namespaces/"+ns+"/configmaps"))
			eventually(t, "at kube-apiserver too", c.is(http.StatusOK, http.MethodGet, pod+"/log?tailLines=1"))
			if end == nil {
				c.token, _ = grant(t, short, user, "openid")
			}
			maps := "/namespaces/" + ns + "/configmaps"
			terminals := map[string]*terminal{"SPDY": newTerminal(t, c, pod, "SPDY"), "WebSocket": newTerminal(t, c, pod, "WebSocket")}
			open := map[string]<-chan struct{}{"a forwarded port": forward(t, c, pod), "a watch by WebSocket": socket(t, c, "/api/v1"+maps+"?watch=true"),
				"a watch of ours by WebSocket": socket(t, c, "/kapi/v1"+maps+"?watch=true")}
			for what, path := range map[string]string{"the log": pod + "/log?follow=true", "a watch": "/api/v1" + maps + "?watch=true",
				"a watch of ours": "/kapi/v1" + maps + "?watch=true", "a live page": kapis + maps + "?view=live&limit=5"} {
				_, open[what] = c.lines(t, path)
			}
			_, open["server-sent events"] = c.lines(t, "/kapi/v1"+maps+"?watch=true", "Accept: text/event-stream")
			for protocol, term := range terminals {
				open["a terminal by "+protocol] = term.ended
			}
			shell := openPage(t, c, terminalOf(pod)+"/exec")
			open["a page's terminal"] = shell.ended
			if end != nil {
				end(t, user, binding, c)
			}
			begun, late := time.Now(), after(t, patience)
			for what, ended := range open {
				if !endsBy(ended, late) {
					t.Fatalf("%s goes on", what)
				}
			}
			t.Logf("all has ended after %v", time.Since(begun).Round(100*time.Millisecond))
			want := websocket.StatusCode(4401)
			if name == "the binding is removed" {
				want = 4403
			}
			if shell.code != want {
				t.Errorf("the page's terminal ends with %d, want %d", shell.code, want)
			}
			for protocol, term := range terminals {
				if err := nothingMore(t, term); err != nil {
					t.Errorf("by %s: %v", protocol, err)
				}
			}
		})
	}
}

// nothingMore types on where the terminal has ended, and says whether any of it was executed.
func nothingMore(t *testing.T, term *terminal) error {
	t.Helper()
	before := term.executed(t)
	if before == 0 {
		return errors.New("nothing was executed before either")
	}
	for range 3 {
		if term.line() {
			return errors.New("what is typed is taken")
		}
	}
	if now := term.executed(t); now != before {
		return fmt.Errorf("%d lines were executed after the end", now-before)
	}
	return nil
}
