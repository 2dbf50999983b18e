package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder/websocket"
)

const terminalRoutes = "/kapis/terminal.kubesphere.io/v1alpha2"

// terminalOf returns the address of terminals in a pod, by the pod's own path.
func terminalOf(pod string) string { return strings.Replace(pod, "/api/v1", terminalRoutes, 1) }

// shellPage is a terminal as the console's page has it.
type shellPage struct {
	conn  *websocket.Conn
	ended chan struct{}
	shown printed
	code  websocket.StatusCode // when it has ended
}

// dialPage opens a terminal, or returns the answer that refuses it.
func dialPage(ctx context.Context, c caller, path string, headers ...string) (*websocket.Conn, int, error) {
	h := http.Header{}
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		h.Set(k, v)
	}
	conn, res, err := websocket.Dial(ctx, c.base+path, &websocket.DialOptions{HTTPHeader: h})
	if err != nil && res != nil {
		return nil, res.StatusCode, nil
	}
	return conn, http.StatusSwitchingProtocols, err
}

// openPage opens a terminal and waits for its first frame.
func openPage(t *testing.T, c caller, path string, headers ...string) *shellPage {
	t.Helper()
	conn, code, err := dialPage(t.Context(), c, path, headers...)
	if err != nil || conn == nil {
		t.Fatalf("open %s: %d %v", path, code, err)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = conn.CloseNow() })
	p, first := &shellPage{conn: conn, ended: make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(p.ended)
		for begun := false; ; {
			_, raw, err := conn.Read(context.WithoutCancel(t.Context()))
			if !begun {
				begun = true
				close(first)
			}
			if err != nil {
				p.code = websocket.CloseStatus(err)
				return
			}
			var f struct{ Op, Data string }
			if err := json.Unmarshal(raw, &f); err != nil {
				fmt.Fprintf(&p.shown, "(a frame is %q)", raw)
			}
			fmt.Fprint(&p.shown, f.Data)
		}
	}()
	select {
	case <-first:
	case <-after(t, patience):
		t.Fatal("the terminal shows nothing")
	}
	return p
}

// frame sends a frame.
func (p *shellPage) frame(t *testing.T, f any) {
	t.Helper()
	raw, err := json.Marshal(f)
	if err == nil {
		err = p.conn.Write(t.Context(), websocket.MessageText, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// types sends input, in frames as small as a server takes.
func (p *shellPage) types(t *testing.T, text string) {
	t.Helper()
	for len(text) > 0 {
		n := min(len(text), 32<<10)
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		p.frame(t, obj{"Op": "stdin", "Data": text[:n]})
		text = text[n:]
	}
}

// shows waits for a text.
func (p *shellPage) shows(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the terminal shows "+text, func(context.Context) error {
		if s := p.shown.String(); !strings.Contains(s, text) {
			return fmt.Errorf("it shows %q", clip(s))
		}
		return nil
	})
}

// ends waits for the end, and returns its code.
func (p *shellPage) ends(t *testing.T) websocket.StatusCode {
	t.Helper()
	select {
	case <-p.ended:
		return p.code
	case <-after(t, patience):
		t.Fatal("the terminal goes on")
		return 0
	}
}

// A page's terminal is the user's own exec: nothing is lost, whatever the bytes and however many, and only who may create pods/exec of core/v1
// there has one.
func TestAShellInAPodIsItsUsersOwn(t *testing.T) { // O1, O2, O3
	ns := newNamespace(t)
	pod := newPod(t, ns)
	path := terminalOf(pod)
	exec, also := rule{[]string{""}, []string{"pods/exec"}, []string{"create"}}, rule{[]string{""}, []string{"pods/exec"}, []string{"create", "get"}}
	reads := rule{[]string{"", "terminal.kubesphere.io"}, []string{"pods", "pods/exec", "pods/log"}, []string{"get", "list", "watch"}}
	role(t, ns, "opens", exec)
	role(t, ns, "reads", reads)
	role(t, ns, "both", also)
	users := map[string]caller{}
	for _, name := range []string{"opens", "reads", "both"} {
		user := unique(name)
		users[name] = newUser(t, user)
		bind(t, ns, name, map[string]any{"kind": "User", "name": user})
	}
	nobody := newUser(t, unique("nobody"))
	opens, reader, both := users["opens"], users["reads"], users["both"]
	// A console asks so first: anything but 404 means that the address is the right one.
	eventually(t, "the right counts", opens.is(http.StatusBadRequest, http.MethodGet, path+"/exec?container=&shell="))
	eventually(t, "the reader's too", reader.is(http.StatusOK, http.MethodGet, pod))
	for _, suffix := range []string{"", "/exec"} {
		opens.must(t, http.StatusBadRequest, http.MethodGet, path+suffix, nil)
		for who, c := range map[string]caller{"a reader": reader, "nobody": nobody, "a stranger": anonymous()} {
			if conn, code, err := dialPage(t.Context(), c, path+suffix); conn != nil || code != http.StatusForbidden {
				t.Errorf("%s at %s: %d %v", who, path+suffix, code, err)
			}
			c.must(t, http.StatusForbidden, http.MethodGet, path+suffix, nil) // before whether it is a WebSocket
		}
		for _, c := range []caller{opens, reader} {
			other := strings.Replace(path, ns, "kubesphere-system", 1)
			if conn, code, err := dialPage(t.Context(), c, other+suffix); conn != nil || code != http.StatusForbidden {
				t.Errorf("in another namespace: %d %v", code, err)
			}
		}
	}
	// The role has create alone: kube-apiserver refuses it a WebSocket, and not SPDY. Our decision may precede kube-apiserver's.
	eventually(t, "kube-apiserver knows the role", func(ctx context.Context) error {
		r, err := opens.do(ctx, http.MethodPost, pod+"/exec?command=true&stdout=true", nil)
		if err == nil && r.code == http.StatusForbidden {
			err = errors.New(r.body)
		}
		return err
	})
	eventually(t, "and the other one", func(ctx context.Context) error {
		r, err := both.do(ctx, http.MethodGet, pod+"/exec?command=true&stdout=true", nil)
		if err == nil && r.code == http.StatusForbidden {
			err = errors.New(r.body)
		}
		return err
	})
	t.Run("BySPDY", func(t *testing.T) { whatIsTypedAndShown(t, opens, path) })
	t.Run("ByWebSocket", func(t *testing.T) { whatIsTypedAndShown(t, both, path) })
	t.Run("WhatIsNotThereHasItsCode", func(t *testing.T) {
		for _, wrong := range []string{path + "/exec?container=none", strings.Replace(path, "/pods/", "/pods/no-", 1) + "/exec"} {
			if code := openPage(t, opens, wrong).ends(t); code != 4404 {
				t.Errorf("%s ends with %d", wrong, code)
			}
		}
		opens.must(t, http.StatusBadRequest, http.MethodGet, path+"/exec?container=No_name", nil)
	})
}

// whatIsTypedAndShown types and shows text of all kinds in a shell, by a way to the container.
func whatIsTypedAndShown(t *testing.T, c caller, path string) {
	t.Helper()
	p := openPage(t, c, path+"/exec?container=web&shell=sh")
	p.frame(t, obj{"Op": "resize", "Cols": 151, "Rows": 55})
	p.types(t, "stty raw -echo; stty size; echo is the si''ze\r")
	p.shows(t, "55 151\nis the size\n")
	p.frame(t, obj{"Op": "resize", "Cols": 80, "Rows": 24})
	p.types(t, "until stty size | grep '24 80'; do :; done\n")
	p.shows(t, "24 80\n")

	var typed strings.Builder // 1 MB, with every control character and characters of each length
	for i := 0; typed.Len() < 1<<20; i++ {
		fmt.Fprintf(&typed, "%c%c%c%c%d", i%32, 0x80+i%0x700, 0x4e00+i%0x1000, 0x1f600+i%80, i)
	}
	p.types(t, fmt.Sprintf("echo co''unts; head -c %d | sha256sum; echo do''ne\n", typed.Len()))
	p.shows(t, "counts\n")
	p.types(t, typed.String())
	p.shows(t, "done\n")
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(typed.String()))); !strings.Contains(p.shown.String(), sum) {
		t.Errorf("of %d bytes that were typed something else arrived: %s", typed.Len(), clip(p.shown.String()))
	}

	p.types(t, "seq 1 200000; printf 'a\\303\\244\\377\\360\\237\\230\\200e'; echo n''d\n")
	p.shows(t, "a\u00e4\ufffd\U0001F600end\n")
	var want strings.Builder
	for i := 1; i <= 200000; i++ {
		fmt.Fprintln(&want, i)
	}
	if !strings.Contains(p.shown.String(), want.String()+"a") {
		t.Error("200000 lines of output are not shown in order")
	}
	p.types(t, "exit 3\n")
	if code := p.ends(t); code != websocket.StatusNormalClosure {
		t.Errorf("it ends with %d", code)
	}
}

func TestNoForeignPageHasATerminal(t *testing.T) { // O4
	ns := newNamespace(t)
	pod := newPod(t, ns)
	path, a := terminalOf(pod)+"/exec", admin(t)
	foreign, cookie := "Origin: https://foreign.example", "Cookie: token="+a.token
	for _, headers := range [][]string{
		{cookie}, {cookie, foreign}, {cookie, "Origin: null"}, {cookie, foreign, "Sec-Fetch-Site: cross-site"},
		{"Authorization: Bearer " + a.token, foreign, "Sec-Fetch-Site: cross-site"}, // a console that passes a foreign page's request on
	} {
		if conn, code, err := dialPage(t.Context(), anonymous(), path, headers...); conn != nil || code != http.StatusForbidden {
			t.Errorf("%v: %d %v", headers[1:], code, err)
		}
	}
	for _, headers := range [][]string{
		{"Authorization: Bearer " + a.token, "Origin: https://console.example", "Sec-Fetch-Site: same-origin"}, {"Authorization: Bearer " + a.token},
		{cookie, "Origin: " + product.URL},
	} {
		p := openPage(t, anonymous(), path, headers...)
		p.types(t, "exit\r")
		p.ends(t)
	}
}

func TestTerminalsAreLimited(t *testing.T) { // O6
	ns := newNamespace(t)
	pod := newPod(t, ns)
	path := terminalOf(pod) + "/exec"
	user := unique("opener")
	c := newUser(t, user)
	role(t, ns, "opener", rule{[]string{""}, []string{"pods/exec"}, []string{"get", "create"}})
	bind(t, ns, "opener", map[string]any{"kind": "User", "name": user})
	eventually(t, "the right counts", c.is(http.StatusBadRequest, http.MethodGet, path))
	eventually(t, "and at kube-apiserver", func(ctx context.Context) error { // which else ends a terminal at once, and makes room for another
		r, err := c.do(ctx, http.MethodGet, pod+"/exec?command=sh&stdout=true", nil)
		if err == nil && (r.code == http.StatusForbidden || r.code == http.StatusUnauthorized) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	for opened := 0; ; opened++ {
		conn, code, err := dialPage(t.Context(), c, path)
		switch {
		case err != nil:
			t.Fatal(err)
		case conn == nil && code == http.StatusTooManyRequests && opened == 10:
			return
		case conn == nil || opened >= 10:
			t.Fatalf("terminal %d: %d", opened+1, code)
		}
		defer func() { _ = conn.CloseNow() }()
	}
}
