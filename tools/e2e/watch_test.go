package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/coder/websocket"
)

// The console watches by WebSocket without a sub-protocol, on legacy watch paths too; its first one
// carries the token in a cookie only.
func TestWatchesByWebSocket(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	bearer := http.Header{"Authorization": {"Bearer " + a.token}}
	cookie := http.Header{"Cookie": {"lang=en; token=" + a.token}, "Origin": {a.base}}
	for _, c := range []struct {
		name, path string
		header     http.Header
	}{
		{"legacy path", "/api/v1/watch/namespaces/" + ns + "/configmaps", bearer},
		{"watch=true", "/api/v1/namespaces/" + ns + "/configmaps?watch=true", bearer},
		{"of the host cluster", "/clusters/host/api/v1/watch/namespaces/" + ns + "/configmaps", bearer},
		{"with the cookie of the same origin", "/api/v1/watch/namespaces/" + ns + "/configmaps", cookie},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			conn, _, err := websocket.Dial(ctx, a.base+c.path, &websocket.DialOptions{HTTPHeader: c.header})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.CloseNow()
			name := unique("watched")
			a.create(t, "/api/v1/namespaces/"+ns+"/configmaps", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}})
			for {
				typ, frame, err := conn.Read(ctx)
				if err != nil {
					t.Fatalf("before %s was seen: %v", name, err)
				}
				var event struct {
					Type   string
					Object struct {
						Kind     string
						Metadata struct{ Name string }
					}
				}
				if err := json.Unmarshal(frame, &event); err != nil || typ != websocket.MessageText {
					t.Fatalf("frame %v %s: %v", typ, clip(string(frame)), err)
				}
				if event.Object.Metadata.Name == name {
					if event.Type != "ADDED" || event.Object.Kind != "ConfigMap" {
						t.Errorf("event %+v", event)
					}
					return
				}
			}
		})
	}
	t.Run("the cookie of another origin opens nothing", func(t *testing.T) { // S52
		for _, origin := range []string{"https://evil.example.com", "null", ""} {
			h := http.Header{"Cookie": {"token=" + a.token}}
			if origin != "" {
				h.Set("Origin", origin)
			}
			conn, resp, err := websocket.Dial(t.Context(), a.base+"/api/v1/watch/namespaces/"+ns+"/configmaps", &websocket.DialOptions{HTTPHeader: h})
			if err == nil {
				conn.CloseNow()
				t.Fatalf("origin %q: the watch opened", origin)
			}
			if resp == nil || resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("origin %q: %v %v", origin, resp, err)
			}
		}
		r, err := anonymous().do(t.Context(), http.MethodGet, "/api/v1/namespaces", nil, "Cookie: token="+a.token, "Origin: "+a.base)
		if err != nil || r.code != http.StatusForbidden {
			t.Errorf("the cookie on a plain request: %d %v", r.code, err)
		}
	})
}

func TestAWatchEndsWithTheRightToIt(t *testing.T) { // S53, U39
	ns, name := newNamespace(t), unique("watcher")
	u := newUser(t, name)
	role(t, ns, "watcher", rule{[]string{""}, []string{"configmaps"}, []string{"get", "list", "watch"}})
	path := "/api/v1/namespaces/" + ns + "/configmaps"
	for _, c := range []struct {
		name string
		end  func(t *testing.T, binding string)
	}{
		{"the binding is removed", func(t *testing.T, binding string) {
			admin(t).must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+ns+"/rolebindings/"+binding, nil)
		}},
		{"the session is over", func(t *testing.T, _ string) {
			u.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			binding := bind(t, ns, "watcher", map[string]any{"kind": "User", "name": name})
			eventually(t, "the role counts", u.is(http.StatusOK, http.MethodGet, path))
			ended := u.watch(t, path+"?watch=true")
			c.end(t, binding)
			select {
			case <-ended:
			case <-after(t, 2*revocation):
				t.Errorf("the watch goes on %v later", 2*revocation)
			}
		})
	}
}

// watch opens a watch, and returns a channel that is closed when the server has ended it.
func (c caller) watch(t *testing.T, path string) <-chan struct{} {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("watch %s: %v %v", path, resp, err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, resp.Body)
	}()
	return ended
}
