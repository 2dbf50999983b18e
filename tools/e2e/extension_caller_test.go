package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// The backend of an extension, of its group and of its pages, is told of the caller and nobody else, on upgraded connections too, whatever a client states of
// itself and lists in Connection; it sends nobody to another server.
func TestAnExtensionSeesTheCallerAndSendsHimNowhere(t *testing.T) {
	proves(t, "S14", "S17", "S18")
	a, name, group := admin(t), unique("buyer"), unique("talks")+".example.com"
	var mu sync.Mutex
	var saw []http.Header
	redirect := 0
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isProbe(r) {
			return
		}
		mu.Lock()
		saw = append(saw, r.Header.Clone())
		code := redirect
		mu.Unlock()
		switch {
		case code != 0:
			w.Header().Set("Location", "https://evil.example/")
			w.Header().Set("Refresh", "0; url=https://evil.example/")
			w.WriteHeader(code)
		case r.Header.Get("Upgrade") != "":
			if c, err := websocket.Accept(w, r, nil); err == nil {
				_ = c.Close(websocket.StatusNormalClosure, "")
			}
		default:
			_, _ = w.Write([]byte("{}"))
		}
	}))
	t.Cleanup(b.Close)
	a.create(t, extensionsAPI+"/apiservices", extensionObject("APIService", group, obj{"group": group, "version": "v1", "url": b.URL}))
	a.create(t, extensionsAPI+"/reverseproxies", extensionObject("ReverseProxy", name, obj{"matcher": obj{"path": "/proxy/" + name + "/*", "method": "*"},
		"upstream": obj{"url": b.URL}, "directives": obj{"authProxy": true}}))
	buyer := withRole(t, name, obj{"rules": []any{rule{[]string{group}, []string{"things", "things/talk"}, []string{"get", "list"}},
		obj{"nonResourceURLs": []string{"/proxy/" + name + "/*"}, "verbs": []string{"get"}}}})
	thing, page := "/kapis/"+group+"/v1/namespaces/default/things/x", "/proxy/"+name+"/x"
	eventually(t, "the group is served", buyer.is(http.StatusOK, http.MethodGet, thing))
	eventually(t, "the page is served", buyer.is(http.StatusOK, http.MethodGet, page))

	ask := func(path string, upgrade bool, lines ...string) (code int, header http.Header, told []http.Header) {
		t.Helper()
		mu.Lock()
		saw = nil
		mu.Unlock()
		headers := http.Header{"Authorization": {"Bearer " + buyer.token}}
		for _, line := range lines {
			key, value, _ := strings.Cut(line, ": ")
			headers[http.CanonicalHeaderKey(key)] = append(headers[http.CanonicalHeaderKey(key)], value)
		}
		if upgrade {
			c, resp, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(product.URL, "http")+path, &websocket.DialOptions{HTTPHeader: headers})
			if resp == nil {
				t.Fatalf("%s with %q: %v", path, lines, err)
			}
			if err == nil {
				defer c.CloseNow()
			}
			code, header = resp.StatusCode, resp.Header
		} else {
			r, err := buyer.do(t.Context(), http.MethodGet, path, nil, lines...)
			if err != nil {
				t.Fatal(err)
			}
			code, header = r.code, r.header
		}
		mu.Lock()
		defer mu.Unlock()
		return code, header, slices.Clone(saw)
	}
	doors := []struct {
		path    string
		upgrade bool
	}{{thing, false}, {thing + "/talk", true}, {page, false}, {page, true}}
	for _, d := range doors {
		for _, lines := range append(slices.Clone(statements), []string{"X-Remote-User: admin", "X-Remote-User: root"}) {
			code, _, told := ask(d.path, d.upgrade, lines...)
			if code >= http.StatusBadRequest || len(told) != 1 {
				t.Fatalf("%s with %q: %d, and it was asked %d times", d.path, lines, code, len(told))
			}
			h := told[0]
			if !slices.Equal(h["X-Remote-User"], []string{name}) || slices.Contains(h["X-Remote-Group"], "system:masters") || slices.Contains(h["X-Remote-Uid"], "0") {
				t.Errorf("%s with %q: it was told %v", d.path, lines, h)
			}
			text := fmt.Sprint(h)
			for _, claim := range []string{buyer.token, "Bearer x", "dryRun=All", "refreshToken", "by=admin", "X-Kubesphere-User"} {
				if strings.Contains(text, claim) {
					t.Errorf("%s with %q: it was told %q in %v", d.path, lines, claim, h)
				}
			}
		}
		if !d.upgrade { // a client that upgrades writes Connection itself
			code, _, told := ask(d.path, false, "Connection: X-Remote-User, X-Remote-Group, Authorization")
			if code != http.StatusBadRequest && (len(told) != 1 || told[0].Get("X-Remote-User") != name || told[0].Get("Authorization") == "") {
				t.Errorf("%s with headers to drop: %d, and it was told %v", d.path, code, told)
			}
		}
		if code, _, told := ask(d.path, d.upgrade, "Impersonate-User: admin"); code != http.StatusForbidden || len(told) != 0 {
			t.Errorf("%s with impersonation: %d, and it was asked %d times", d.path, code, len(told))
		}
	}
	for _, code := range []int{301, 302, 303, 307, 308} {
		mu.Lock()
		redirect = code
		mu.Unlock()
		for _, d := range doors {
			got, header, told := ask(d.path, d.upgrade)
			if got != http.StatusBadGateway || header.Get("Location") != "" || strings.Contains(fmt.Sprint(header), "evil.example") || len(told) != 1 {
				t.Errorf("%d at %s: %d %v", code, d.path, got, header)
			}
		}
	}
}
