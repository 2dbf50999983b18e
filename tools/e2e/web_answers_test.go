package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// browserClient registers an OAuth client without a secret, of the page https://NAME.example, which may call the endpoints of tokens.
func browserClient(t *testing.T) (page string) {
	t.Helper()
	name := unique("spa")
	page = "https://" + name + ".example"
	admin(t).create(t, secretsPath, obj{"apiVersion": "v1", "kind": "Secret", "type": "config.kubesphere.io/oauthclient",
		"metadata":   obj{"name": name, "labels": obj{"config.kubesphere.io/type": "oauthclient"}},
		"stringData": obj{"configuration.yaml": "name: " + name + "\ngrantMethod: auto\nredirectURIs: [" + page + "/callback]\n"}})
	return page
}

// A page of another site reads nothing here: only pages of registered clients without a secret, of the very origin that was registered, may call the
// endpoints of tokens, never with cookies; the authorization endpoint and the API are called by no page, and a server after this one lets nobody in either.
func TestPagesOfOtherSitesReadNothing(t *testing.T) {
	proves(t, "S51")
	p, page := newPassage(t), browserClient(t)
	base := p.me.base
	host := strings.TrimPrefix(page, "https://")
	may := []string{"/oauth/token", "/oauth/revoke", "/oauth/userinfo", "/oauth/keys", "/.well-known/openid-configuration"}
	never := []string{"/oauth/authorize", "/oauth/login", "/oauth/logout", "/oauth/introspect", "/oauth/device_authorization", "/version",
		"/kapi/v1/namespaces/" + p.ns + "/configmaps",
		"/api/v1/namespaces/" + p.ns + "/configmaps", "/api/v1/namespaces/" + p.ns + "/services/generous/proxy/", "/kapis/nowhere", "/healthz"}
	p.answer(t, "/services/generous/proxy", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Credentials", "true")
		w.Header().Set("Access-Control-Allow-Headers", "Authorization")
		w.Header().Set("Access-Control-Allow-Methods", "DELETE")
		w.Header().Set("Access-Control-Expose-Headers", "*")
		w.Header().Set("Set-Cookie", "token=evil; Path=/")
		_, _ = io.WriteString(w, "{}")
	})
	ask := func(method, path, origin string) http.Header {
		t.Helper()
		headers := []string{"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization", "Cookie: token=" + p.me.token}
		if path != "/oauth/logout" { // which would end the session
			headers = append(headers, "Authorization: Bearer "+p.me.token)
		}
		if origin != "" {
			headers = append(headers, "Origin: "+origin)
		}
		r, err := caller{base: base}.do(t.Context(), method, path, nil, headers...)
		if err != nil {
			t.Fatal(err)
		}
		return r.header
	}
	eventually(t, "the client is known", func(context.Context) error {
		if h := ask(http.MethodGet, may[3], page); h.Get("Access-Control-Allow-Origin") != page {
			return fmt.Errorf("%v", h)
		}
		return nil
	})
	foreign := []string{"https://" + host + ".evil.com", "https://" + strings.Replace(host, ".", "X", 1), "https://evil-" + host, "https://sub." + host,
		strings.ToUpper(page), "HTTPS://" + host, "http://" + host,
		page + ":8443", page + ":443", page + "/", page + "/callback", page + " https://evil.example", "https://user@" + host, page + ".",
		"https://evil.example/?" + page, "null", "*", "", "file://", base, product.TLSURL}
	for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodPost} {
		for _, path := range append(may, never...) {
			for _, origin := range append(foreign, page) {
				h := ask(method, path, origin)
				got, good := h.Get("Access-Control-Allow-Origin"), origin == page && slices.Contains(may, path)
				if got != "" && (!good || got != page) {
					t.Errorf("%s %s from %q is open to %q", method, path, origin, got)
				}
				for _, name := range []string{"Access-Control-Allow-Credentials", "Set-Cookie"} {
					if v := h.Get(name); v != "" && !strings.HasPrefix(path, "/oauth/log") && path != "/oauth/authorize" {
						t.Errorf("%s %s from %q: %s: %s", method, path, origin, name, v)
					}
				}
				for name := range h {
					if strings.HasPrefix(name, "Access-Control-") && !good {
						t.Errorf("%s %s from %q: %s: %v", method, path, origin, name, h[name])
					}
				}
			}
		}
	}
}

// A browser sends cookies along with a WebSocket that any page opens, so the cookie counts for pages of this server alone, on every route that may be upgraded.
func TestPagesOfOtherSitesOpenNoWebSocket(t *testing.T) {
	proves(t, "S52")
	p := newPassage(t)
	host := strings.TrimPrefix(p.me.base, "http://")
	maps := "/namespaces/" + p.ns + "/configmaps"
	for name, target := range map[string]string{"a watch": "/api/v1/watch" + maps, "a watch by parameter": "/api/v1" + maps + "?watch=true",
		"a watch of ours": "/kapi/v1" + maps + "?watch=true",
		"a live page":     kapis + maps + "?view=live&limit=1", "a terminal": "/api/v1/namespaces/" + p.ns + "/pods/p/exec?command=sh",
		"a page's terminal": "/kapis/terminal.kubesphere.io/v1alpha2/namespaces/" + p.ns + "/pods/p/exec?container=c&shell=sh",
		"another way to it": "/clusters/host/api/v1/namespaces/" + p.ns + "/pods/p/exec?command=sh"} {
		t.Run(name, func(t *testing.T) {
			for _, origin := range []string{"", "Origin: null", "Origin: https://evil.example", "Origin: http://" + host + ".evil.example",
				"Origin: http://evil.example@" + host, "Origin: http://x" + host,
				"Origin: http://" + strings.Split(host, ":")[0] + ":1", "Origin: http://" + host + "\r\nOrigin: https://evil.example", "Origin: ", "Origin: file://",
				"Origin: chrome-extension://" + host, "Origin: http://localhost"} {
				for _, cookie := range []string{"Cookie: token=" + p.me.token, "Cookie: lang=en; token=" + p.me.token, "Cookie: a=b\r\nCookie: token=" + p.me.token} {
					for _, more := range []string{"X-A: b", "Sec-Fetch-Site: same-origin", "X-Forwarded-Host: evil.example", "Referer: http://" + host + "/",
						"Sec-WebSocket-Protocol: v5.channel.k8s.io"} {
						lines := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", cookie, more}
						if origin != "" {
							lines = append(lines, origin)
						}
						w := dial(t, p.me.base)
						w.say(head(http.MethodGet, target, caller{base: p.me.base}, lines...))
						r := w.answer()
						if r.code != http.StatusForbidden {
							t.Errorf("%q %.40q is answered with %d", origin, more, r.code)
						}
						_ = w.Close()
					}
				}
			}
		})
	}
	if saw := p.about(p.ns + "/pods/p/exec"); len(saw) > 0 {
		t.Errorf("kube-apiserver saw %v", saw)
	}
}

// What a client sends is nowhere answered as a page: errors are JSON, browsers are told not to guess, and the pages of the login show it as text.
// What net/http refuses before this server sees it is plain text, and repeats nothing.
func TestNothingThatAClientSendsIsMarkup(t *testing.T) {
	proves(t, "S59")
	p := newPassage(t)
	const script = "<script>alert(1)</script>"
	written := url.PathEscape(script)
	p.answer(t, "markup-by-a-backend", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, script)
	})
	safe := func(what string, r reply) {
		t.Helper()
		media, body := r.header.Get("Content-Type"), strings.ToLower(r.body)
		html := strings.HasPrefix(media, "text/html")
		if html && !strings.Contains(r.header.Get("Content-Security-Policy"), "default-src 'none'") || strings.Contains(media, "xml") || strings.Contains(media,
			"javascript") || r.body != "" && media == "" {
			t.Errorf("%s: %d of type %q", what, r.code, media)
		}
		if r.header.Get("X-Content-Type-Options") != "nosniff" && r.code != http.StatusNoContent {
			t.Errorf("%s: a browser may guess what %d %q is", what, r.code, media)
		}
		if html && strings.Contains(body, "<script>alert") || strings.HasPrefix(media, "application/json") && strings.Contains(body, "<script") {
			t.Errorf("%s: %d %s", what, r.code, clip(r.body))
		}
	}
	maps := "/namespaces/" + p.ns + "/configmaps"
	admin := p.as(admin(t))
	for _, c := range []caller{{base: p.me.base}, p.me, admin} {
		for _, path := range []string{
			"/kapis/" + written, "/kapis/x/v1/" + written, "/kapi/v1/" + written, "/apis/" + written + "/v1/x", "/api/v1/namespaces/" + written + "/pods",
			"/api/v1/namespaces/" + p.ns + "/pods/" + written, "/" + written, "/clusters/" + written + "/api",
			kapis + "/pods?sortBy=" + url.QueryEscape(script), kapis + "/pods?q=" + url.QueryEscape(script), kapis + "/" + written, "/kapi/v1" + maps + "/" +
				written, "/kapi/v1" + maps + "?labelSelector=" + url.QueryEscape(script),
			iamRoutes + "/users/" + written, older + "/users/" + written + "/kubeconfig", "/oauth/" + written, "/oauth/authorize?client_id=" +
				url.QueryEscape(script), "/oauth/authorize?client_id=kubesphere&redirect_uri=" + url.QueryEscape("javascript:"+script),
			"/oauth/login?error=" + url.QueryEscape(script), "/oauth/login/" + written, "/oauth/callback/" + written + "?error=" + url.QueryEscape(script) +
				"&error_description=" + url.QueryEscape(script), "/oauth/logout?post_logout_redirect_uri=" + url.QueryEscape("javascript:"+script),
			"/oauth/device?user_code=" + url.QueryEscape(script), "/healthz/" + written, "/readyz?verbose&exclude=" + url.QueryEscape(script), "/healthz",
			"/version", "/metrics", "/openapi/v2", "/openapi/v3", "/openapi/v3/" + written, "/dist/" + written, "/static/" + written, "/proxy/" + written,
			storeAPI + "/apps/" + written, storeAPI + "/repos?conditions=" + url.QueryEscape(script), "/fleet/kapi/v1/" + written,
			"/.well-known/openid-configuration", "/oauth/keys", "/oauth/userinfo", "/kapis/config.kubesphere.io/v1alpha2/configs/" + written,
			"/kapis/static.kubesphere.io/v1alpha2/images/" + written,
			"/api/v1/namespaces/" + p.ns + "/services/markup-by-a-backend/proxy/", "/api/v1" + maps + "/markup-by-a-backend", "/kapi/v1" + maps +
				"/markup-by-a-backend",
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
				http.MethodPatch, "TRACE"} {
				if method == http.MethodDelete && c == admin || strings.HasPrefix(path, "/oauth/logout") && c.token != "" { // which would end the session
					continue
				}
				variants := [][]string{nil}
				if method == http.MethodGet {
					variants = append(variants, []string{"Accept: text/html"}, []string{"Accept: " + script, "Content-Type: " + script, "User-Agent: " + script})
				}
				for _, headers := range variants {
					var body any
					if method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
						body = `{"kind":"` + script + `","metadata":{"name":"` + script + `"}}`
					}
					r, err := c.do(t.Context(), method, path, body, headers...)
					if err != nil {
						t.Fatalf("%s %s: %v", method, path, err)
					}
					safe(fmt.Sprintf("%s %s %q", method, path, headers), r)
				}
			}
		}
	}
	for name, text := range map[string]string{
		"no request": script + "\r\n\r\n", "a method": "GET" + script + " / HTTP/1.1\r\nHost: x\r\n\r\n", "a host": "GET / HTTP/1.1\r\nHost: " + script +
			"\r\n\r\n", "no host": "GET /" + written + " HTTP/1.1\r\n\r\n",
		"a version": "GET /" + written + " HTTP/1.9\r\nHost: x\r\n\r\n", "a header": "GET / HTTP/1.1\r\nHost: x\r\n" + script + ": y\r\n\r\n",
		"a length": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + script + "\r\n\r\n",
		"a path":   "GET /" + script + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "an encoding": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: " +
			script + "\r\n\r\n", "a long header": "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat(script, 4000) + "\r\n\r\n",
		"an escape": "GET /%3Cscript%zz HTTP/1.1\r\nHost: x\r\n\r\n", "an expectation": "POST / HTTP/1.1\r\nHost: x\r\nExpect: " + script +
			"\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx",
	} {
		w := dial(t, p.me.base)
		w.say(text)
		r := w.answer()
		if r.code < 400 || strings.Contains(r.body, "<") || !strings.HasPrefix(r.header.Get("Content-Type"), "text/plain") &&
			r.header.Get("X-Content-Type-Options") != "nosniff" && r.body != "" {
			t.Errorf("%s: %d %v %s", name, r.code, r.header, clip(r.body))
		}
		_ = w.Close()
	}
}
