package backend_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/proxy/backend"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/token"
)

const issuer = "https://ks.example.com"

type obj = map[string]any

// world is a server with a backend.
type world struct {
	t       *testing.T
	index   *extension.Index
	handler http.Handler
	keys    *token.KeySet
	now     time.Time
	// got is the last request that the backend has got, and say what it answers.
	got  *http.Request
	body string
	say  http.HandlerFunc
	*httptest.Server
	decision authz.Decision
	refused  netip.AddrPort
	groupsOf func(user.Info) []string // nil for all
	sent     string                   // the bearer token that requests came with
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Now().Truncate(time.Second), decision: authz.Allow("", "kapis:global:admin")}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		w.got, w.body = r, string(raw)
		if w.say != nil {
			w.say(rw, r)
		}
	}))
	w.Start()
	t.Cleanup(w.Close)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	began := w.now.Add(-time.Hour)
	w.keys, err = token.NewKeySet([]token.SigningKey{{ID: "s", Private: private, Created: began, NotBefore: began}},
		[]token.MACKey{{ID: "m", Secret: []byte(strings.Repeat("0123456789abcdef", 2)), Created: began, NotBefore: began}})
	if err != nil {
		t.Fatal(err)
	}
	w.index = extension.NewIndex(extension.Options{Egress: egress.Options{AllowLoopback: true,
		Refuse: func(a netip.AddrPort) bool { return a == w.refused }}})
	now := func() time.Time { return w.now }
	h := backend.New(backend.Options{Index: w.index, Files: extension.NewFiles(w.index, nil, now), Streams: stream.New(stream.Options{}), Now: now,
		Issuer: &token.Issuer{Keys: w.keys, URL: issuer, Audience: "kapis", Now: now}, Email: func(user.Info) string { return "ann@example.com" },
		GroupsOf: func(u user.Info) []string {
			if w.groupsOf == nil {
				return u.GetGroups()
			}
			return w.groupsOf(u)
		}})
	w.handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !h.Takes(request.InfoFrom(r.Context())) {
			rw.WriteHeader(http.StatusTeapot)
			return
		}
		h.ServeHTTP(rw, r)
	})
	return w
}

func (w *world) set(resource, name string, spec, more obj) {
	w.t.Helper()
	o := obj{"metadata": obj{"name": name, "uid": "uid-" + name, "resourceVersion": "1"}, "spec": spec, "status": obj{"state": "Available"}}
	for k, v := range more {
		o[k] = v
	}
	raw, err := json.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	for gvr, sink := range w.index.Sinks() {
		if gvr.Resource == resource {
			sink.Set(&store.Object{Name: name, Raw: redaction.Bytes(raw)})
		}
	}
}

// service has requests for shop.example.com/v1 go to the backend, and proxy those below /proxy/shop/.
func (w *world) service() {
	w.set("apiservices", "shop", obj{"group": "shop.example.com", "version": "v1", "url": w.URL}, nil)
}

func (w *world) proxy(directives obj) {
	w.set("reverseproxies", "shop", obj{"matcher": obj{"path": "/proxy/shop/*"}, "upstream": obj{"url": w.URL}, "directives": directives}, nil)
}

var ann = session.WithSession(&user.DefaultInfo{Name: "ann", UID: "uid-ann",
	Groups: []string{"dev", "kapis:global:admin", "system:masters", user.AllAuthenticated}}, &session.Session{Name: "s1", UserUID: "uid-ann"})

// serve is the server behind the filters: the request is parsed, and decided as the world says.
func (w *world) serve(u user.Info) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		info, err := request.Parse(r)
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		ctx := context.WithValue(request.WithUser(request.WithInfo(r.Context(), info), u), request.BearerTokenKey{}, w.sent)
		w.handler.ServeHTTP(rw, r.WithContext(authz.WithDecision(ctx, w.decision)))
	})
}

func (w *world) ask(u user.Info, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, target, strings.NewReader(body))
	if body == "" {
		r.Body = http.NoBody
	}
	for _, line := range headers {
		k, v, _ := strings.Cut(line, ": ")
		r.Header.Add(k, v)
	}
	w.got, w.body = nil, ""
	rec := httptest.NewRecorder()
	w.serve(u).ServeHTTP(rec, r)
	return rec
}

const things = "/kapis/shop.example.com/v1/namespaces/a/things"

func TestInformationalAnswersOfABackendAreNotPassedOn(t *testing.T) { // X5
	w := newWorld(t)
	w.service()
	w.say = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Set-Cookie", "token=canary")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.Header().Del("Set-Cookie")
		rw.WriteHeader(http.StatusAccepted)
	}
	if rec := w.ask(ann, http.MethodGet, things, ""); rec.Code != http.StatusAccepted || rec.Header().Get("Set-Cookie") != "" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
}

// S6: a backend that takes somebody for its administrator by a group does not do so by a Group that a workspace has made.
func TestABackendIsToldNoGroupsOfWorkspaces(t *testing.T) {
	w := newWorld(t)
	w.service()
	w.proxy(obj{"authProxy": true, "headerUp": []string{"X-Groups {user.groups}"}})
	w.groupsOf = func(user.Info) []string { return []string{"staff", user.AllAuthenticated} }
	for _, target := range []string{things, "/proxy/shop/"} {
		if rec := w.ask(ann, http.MethodGet, target, ""); rec.Code != http.StatusOK || w.got == nil {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
		claims := jwt.MapClaims{}
		if _, _, err := jwt.NewParser().ParseUnverified(strings.TrimPrefix(w.got.Header.Get("Authorization"), "Bearer "), claims); err != nil {
			t.Fatal(err)
		}
		header, placed := w.got.Header["X-Remote-Group"], w.got.Header.Get("X-Groups")
		if fmt.Sprint(header) != "[staff system:authenticated]" || fmt.Sprint(claims["groups"]) != "[staff system:authenticated]" ||
			strings.Contains(placed, "dev") || (placed == "") != (target == things) {
			t.Errorf("%s: %q %v %q", target, header, claims["groups"], placed)
		}
	}
}

func TestABackendIsToldWhoAsksAndNoCredential(t *testing.T) { // X5
	w := newWorld(t)
	w.service()
	rec := w.ask(ann, http.MethodPost, things+"/x?a=%2F&b=", `{"kind":"Thing"}`, "Authorization: Bearer canary",
		"Cookie: token=canary; lang=zh; grafana=g; __Host-ks-session=canary; ks-session=canary", "X-Remote-User: root",
		"X-Remote-Group: system:masters", "Impersonate-User: root", "X-Forwarded-For: 6.6.6.6", "X-Kubesphere-Token: canary",
		"Connection: X-Secret", "X-Secret: canary", "X-Other: kept")
	if rec.Code != 200 || w.got == nil {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	if w.got.Method != http.MethodPost || w.got.RequestURI != things+"/x?a=%2F&b=" || w.body != `{"kind":"Thing"}` {
		t.Errorf("%s %s %s", w.got.Method, w.got.RequestURI, w.body)
	}
	h := w.got.Header
	all := fmt.Sprint(h)
	for _, never := range []string{"canary", "root", "kapis:global", "system:masters", "6.6.6.6"} {
		if strings.Contains(all, never) {
			t.Errorf("the backend is told %s: %v", never, h)
		}
	}
	for name, want := range map[string]string{"X-Remote-User": "ann", "X-Remote-Uid": "uid-ann", "X-Remote-Group": "dev|system:authenticated",
		"Cookie": "grafana=g", "X-Other": "kept", "Via": "1.1 kapis.dev", "X-Forwarded-For": "192.0.2.1"} {
		if got := strings.Join(h[name], "|"); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	raw := strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
	claims := jwt.MapClaims{}
	parsed, _, err := jwt.NewParser().ParseUnverified(raw, claims)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %v %v %v %v %v", claims["aud"], claims["sub"], claims["username"], claims["groups"], claims["sid"], claims["iss"])
	const want = "[apiservice:shop.example.com/v1] uid-ann ann [dev system:authenticated] s1 https://ks.example.com"
	if text != want || parsed.Header["typ"] != "kapis-backend+jwt" ||
		int64(claims["exp"].(float64))-int64(claims["iat"].(float64)) != 300 {
		t.Errorf("%s %v %v", text, parsed.Header, claims)
	}
	// No verifier of this server accepts it.
	for _, audience := range []string{"kapis", "apiservice:shop.example.com/v1"} {
		v, err := token.NewVerifier(token.Rules{Keys: w.keys, Issuer: issuer, Audience: audience, Now: func() time.Time { return w.now }, CacheSize: 16})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := v.Access(raw); err == nil {
			t.Errorf("it is an access token for %s: %+v", audience, a)
		}
	}
	// It is made once for half its life, and anew for somebody else.
	tokenOf := func(u user.Info) string {
		w.ask(u, http.MethodGet, things, "")
		return w.got.Header.Get("Authorization")
	}
	first := tokenOf(ann)
	if first != "Bearer "+raw {
		t.Error("each request has a token of its own")
	}
	w.now = w.now.Add(3 * time.Minute)
	if tokenOf(ann) == first {
		t.Error("a token is used for more than half its life")
	}
	if tokenOf(&user.DefaultInfo{Name: "ann", UID: "uid-other"}) == tokenOf(ann) {
		t.Error("two users have one token")
	}
	nobody := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	if got := tokenOf(nobody); got != "" || w.got.Header.Get("X-Remote-User") != user.Anonymous {
		t.Errorf("of nobody: %q %v", got, w.got.Header)
	}
}

// X5: a backend that takes an underscore for a hyphen, as CGI programs do, is told nothing by the client in such names. Its own headers may have one.
func TestX5HeadersWithUnderscoresDoNotArrive(t *testing.T) {
	w := newWorld(t)
	w.service()
	w.proxy(obj{"authProxy": true, "headerUp": []string{"X_WEBAUTH_USER {user.name}"}})
	for _, path := range []string{things, "/proxy/shop/x"} {
		rec := w.ask(ann, http.MethodGet, path, "", "X_Remote_User: canary", "X_remote-Group: canary", "X-Remote_Uid: canary", "X_WEBAUTH_USER: canary",
			"X_Forwarded_For: canary", "X-Other: kept")
		if rec.Code != 200 || w.got == nil {
			t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
		}
		h := w.got.Header
		if all := fmt.Sprint(h); strings.Contains(all, "canary") || h.Get("X-Other") != "kept" || h.Get("X-Remote-User") != "ann" {
			t.Errorf("%s: the backend is told %s", path, all)
		}
		if own := h.Get("X_WEBAUTH_USER"); path != things && own != "ann" {
			t.Errorf("%s: the backend's own header is %q", path, own)
		}
	}
}

func TestOnlyWhatWasDecidedIsPassedOn(t *testing.T) { // X1, X2
	w := newWorld(t)
	w.service()
	w.proxy(nil)
	for _, d := range []authz.Decision{{}, authz.AllowPartial(authz.NewPartialList([]string{"a"}, nil), "x")} {
		w.decision = d
		for _, path := range []string{things, "/proxy/shop/x", "/dist/shop/index.js"} {
			if rec := w.ask(ann, http.MethodGet, path, ""); rec.Code != http.StatusForbidden || w.got != nil {
				t.Errorf("%s: %d", path, rec.Code)
			}
		}
	}
	w.decision = authz.Allow("", "")
	for path, code := range map[string]int{
		"/kapis/other.example.com/v1/things": http.StatusTeapot, "/kapis/shop.example.com/v2/things": http.StatusTeapot, "/api/v1/pods": http.StatusTeapot,
		"/proxy/other": http.StatusNotFound, "/dist/none/index.js": http.StatusNotFound, "/proxy": http.StatusTeapot,
	} {
		if rec := w.ask(ann, http.MethodGet, path, ""); rec.Code != code || w.got != nil {
			t.Errorf("%s: %d, want %d", path, rec.Code, code)
		}
	}
	w.set("apiservices", "shop", obj{"group": "shop.example.com", "version": "v1", "url": w.URL}, obj{"status": obj{"state": "Disabled"}})
	if rec := w.ask(ann, http.MethodGet, things, ""); rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") == "" || w.got != nil {
		t.Errorf("disabled: %d %v", rec.Code, rec.Header())
	}
}

func TestDirectivesChangeARequest(t *testing.T) { // X4, X5
	w := newWorld(t)
	w.proxy(obj{"stripPathPrefix": "/proxy/shop", "headerUp": []string{"X-User {user.name}", "X-Mail {user.email}"},
		"headerDown": []string{"-X-Gone", "X-Set by-directive"}})
	w.say = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Gone", "1")
		_, _ = rw.Write([]byte("page"))
	}
	rec := w.ask(ann, http.MethodGet, "/proxy/shop/a/?q=1", "")
	if rec.Code != 200 || w.got.RequestURI != "/a/?q=1" || w.got.Header.Get("X-User") != "ann" || w.got.Header.Get("X-Mail") != "ann@example.com" ||
		w.got.Header.Get("X-Remote-User") != "" || w.got.Header.Get("Authorization") != "" {
		t.Errorf("%d %s %v", rec.Code, w.got.RequestURI, w.got.Header)
	}
	if rec.Header().Get("X-Gone") != "" || rec.Header().Get("X-Set") != "by-directive" || rec.Body.String() != "page" {
		t.Errorf("%v", rec.Header())
	}
	w.proxy(obj{"authProxy": true})
	w.ask(ann, http.MethodGet, "/proxy/shop/", "")
	if w.got.Header.Get("X-Remote-User") != "ann" || !strings.HasPrefix(w.got.Header.Get("Authorization"), "Bearer ey") || w.got.RequestURI != "/proxy/shop/" {
		t.Errorf("%s %v", w.got.RequestURI, w.got.Header)
	}
	w.proxy(obj{"authProxy": true, "headerUp": []string{"-Authorization"}})
	w.ask(ann, http.MethodGet, "/proxy/shop/x", "")
	if w.got.Header.Get("X-Remote-User") != "ann" || w.got.Header.Get("Authorization") != "" {
		t.Errorf("%v", w.got.Header)
	}
	w.proxy(obj{"replace": []string{"x ."}})
	if rec := w.ask(ann, http.MethodGet, "/proxy/shop/xx/y", ""); rec.Code != http.StatusBadRequest || w.got != nil {
		t.Errorf("dot segments: %d", rec.Code)
	}
}

func TestARedirectLeadsToTheBackendsOwnPaths(t *testing.T) { // X7
	w := newWorld(t)
	w.service()
	w.proxy(obj{"stripPathPrefix": "/proxy/shop"})
	location := ""
	w.say = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Location", location)
		rw.WriteHeader(http.StatusFound)
	}
	for to, want := range map[string]string{
		"/login?next=%2F": "/proxy/shop/login?next=%2F", "next": "/proxy/shop/a/next", w.URL + "/b": "/proxy/shop/b",
		"http://evil.example/": "", "//evil.example/x": "", "javascript:alert(1)": "", strings.Replace(w.URL, "http://", "http://user@", 1) + "/x": "",
		strings.Replace(w.URL, "http:", "https:", 1) + "/": "", "": "", "/%2e%2e/%2e%2e/oauth/logout": "",
	} {
		location = to
		rec := w.ask(ann, http.MethodGet, "/proxy/shop/a/b", "")
		code := http.StatusFound
		if want == "" {
			code = http.StatusBadGateway
		}
		if got := rec.Header().Get("Location"); got != want || rec.Code != code {
			t.Errorf("%s: %d %q, want %q", to, rec.Code, got, want)
		}
		if rec := w.ask(ann, http.MethodGet, things, ""); rec.Code != http.StatusBadGateway || rec.Header().Get("Location") != "" {
			t.Errorf("of an APIService to %s: %d", to, rec.Code)
		}
	}
	w.set("reverseproxies", "shop", obj{"matcher": obj{"path": "/proxy/shop/*"}, "upstream": obj{"url": w.URL + "/in"},
		"directives": obj{"stripPathPrefix": "/proxy/shop"}}, nil)
	for to, code := range map[string]int{"/in/b": http.StatusFound, "/inner/b": http.StatusBadGateway, "/b": http.StatusBadGateway} {
		location = to
		if rec := w.ask(ann, http.MethodGet, "/proxy/shop/a", ""); rec.Code != code {
			t.Errorf("below the path of the backend, to %s: %d %v", to, rec.Code, rec.Header())
		}
	}
	location = "/login"
	w.proxy(obj{})
	if rec := w.ask(ann, http.MethodGet, "/proxy/shop/a", ""); rec.Code != http.StatusBadGateway {
		t.Errorf("out of the matcher: %d %v", rec.Code, rec.Header())
	}
	w.proxy(obj{"stripPathPrefix": "/proxy/shop", "rejectForwardingRedirects": true})
	if rec := w.ask(ann, http.MethodGet, "/proxy/shop/a", ""); rec.Code != http.StatusBadGateway {
		t.Errorf("rejected ones: %d", rec.Code)
	}
}

func TestABackendTakesNothingOfTheConsoles(t *testing.T) { // X8
	w := newWorld(t)
	w.service()
	w.proxy(obj{"headerDown": []string{"Set-Cookie token=forged"}})
	w.say = func(rw http.ResponseWriter, _ *http.Request) {
		h := rw.Header()
		for _, c := range []string{"token=x; Path=/", "refreshToken=x", "KS=1", "a=1; Path=/; Domain=example.com",
			"b=2; Path=/proxy/shop/in; HttpOnly", "__Host-x=1; Path=/; Secure", "lang=xx"} {
			h.Add("Set-Cookie", c)
		}
		for _, name := range []string{"WWW-Authenticate", "Clear-Site-Data", "Service-Worker-Allowed", "Alt-Svc", "Strict-Transport-Security",
			"Access-Control-Allow-Origin"} {
			h.Set(name, "x")
		}
		h["Content-Type"] = []string{"text/html", "text/plain"}
		_, _ = rw.Write([]byte("<script>1</script>"))
	}
	rec := w.ask(ann, http.MethodGet, "/proxy/shop/x", "")
	h := rec.Header()
	if len(h["Set-Cookie"]) != 0 { // the directive has replaced those of the backend, and its own is the console's
		t.Errorf("%q", h["Set-Cookie"])
	}
	w.proxy(obj{})
	h = w.ask(ann, http.MethodGet, "/proxy/shop/x", "").Header()
	if got := strings.Join(h["Set-Cookie"], "|"); got != "KS=1; Path=/proxy/shop|a=1; Path=/proxy/shop|b=2; Path=/proxy/shop/in; HttpOnly" {
		t.Errorf("%s", got)
	}
	for name := range h {
		switch name {
		case "Set-Cookie", "Content-Type", "Date", "X-Content-Type-Options", "Content-Length":
		default:
			t.Errorf("%s: %q", name, h[name])
		}
	}
	if len(h["Content-Type"]) != 1 || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v", h)
	}
	if got := w.ask(ann, http.MethodGet, things, "").Header().Get("Content-Security-Policy"); got != "sandbox" {
		t.Errorf("a page of an API: %q", got)
	}
	w.say = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusUnauthorized) }
	rec = w.ask(ann, http.MethodGet, things, "")
	if rec.Code != http.StatusBadGateway || !strings.Contains(rec.Body.String(), `"reason":"BackendUnauthorized"`) {
		t.Errorf("a 401 is %d %s", rec.Code, rec.Body)
	}
}

func TestLinksOfPagesAreMapped(t *testing.T) {
	w := newWorld(t)
	w.proxy(obj{"stripPathPrefix": "/proxy/shop", "wrapTransport": true})
	w.say = func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("it may be compressed: %q", r.Header.Get("Accept-Encoding"))
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Header().Set("Etag", `"x"`)
		_, _ = rw.Write([]byte(`<!DOCTYPE html><a href="/in/x?a=b&amp;c">é</a><script src='/s.js'>if (a < b && "/x") {}</script>` +
			`<img src="//cdn/x"><a href="rel"><form action="/proxy/shop/y">`))
	}
	rec := w.ask(ann, http.MethodGet, "/proxy/shop/", "", "Accept-Encoding: gzip")
	want := `<!DOCTYPE html><a href="/proxy/shop/in/x?a=b&amp;c">é</a><script src="/proxy/shop/s.js">if (a < b && "/x") {}</script>` +
		`<img src="//cdn/x"><a href="rel"><form action="/proxy/shop/y">`
	if rec.Body.String() != want || rec.Header().Get("Etag") != "" {
		t.Errorf("%s\nwant %s\n%v", rec.Body, want, rec.Header())
	}
}

// Whatever is large or broken off, no byte of a page is lost or there twice, and the links after a large text are mapped.
func TestLargeTextsOfPagesPass(t *testing.T) {
	w := newWorld(t)
	w.proxy(obj{"stripPathPrefix": "/proxy/shop", "wrapTransport": true})
	page := ""
	w.say = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(rw, page)
	}
	const link, mapped = `<a href="/x">`, `<a href="/proxy/shop/x">`
	large, larger, tag := strings.Repeat("0123 < 567\n", 100<<10), strings.Repeat("<b a> -->", 600<<10), "<b "+strings.Repeat("a=1 ", 40<<10)+">"
	for name, c := range map[string]struct {
		between string
		same    bool // the link after it stays as it is
	}{
		"AText":                        {large, false},
		"ATextThatBeginsLikeATag":      {"< " + large, false},
		"ATextThatIsTooLarge":          {strings.Repeat(large, 5), true},
		"AScript":                      {"<script>" + larger[:2<<20] + "</script>", false},
		"AScriptThatBeginsWithATag":    {"<SCRIPT>" + tag + larger[:1<<20] + "</script>", false},
		"AScriptThatIsTooLarge":        {"<script>" + larger + "</script>", true},
		"AnEmptyScript":                {"<script></script><style></style>", false},
		"ATagInAnEmptyElement":         {"<title></title>" + tag, true},
		"AComment":                     {"<!-- " + large + "-->", false},
		"ADoctype":                     {"<!doctype " + strings.Repeat("x", 1<<20) + ">", false},
		"ATag":                         {tag, true},
		"ATagAfterAText":               {large + tag, true},
		"AnAttribute":                  {`<img src="data:` + strings.Repeat("x", 1<<20) + `">`, true},
		"AnEndTag":                     {"</b" + strings.Repeat(" a=1", 20<<10) + ">", false},
		"ATagThatIsAlmostTooLarge":     {"<b " + strings.Repeat(" ", 128<<10-6) + ">", false},
		"AnEndTagOfNothing":            {"</>", false},
		"ALessThan":                    {"<", false},
		"AnElementThatLooksLikeScript": {"<scripts>" + tag + "</scripts>", true},
	} {
		ends := []string{`<b a="`}
		if len(c.between) < 10 {
			ends = []string{"", "<", "</", "</b", "<b", "<!", "<!d", "<!--", "&", "<script>", "<plaintext>" + link}
		}
		for _, end := range ends {
			page = link + c.between + link + end
			want := mapped + c.between + mapped + end
			if c.same {
				want = mapped + c.between + link + end
			}
			got := w.ask(ann, http.MethodGet, "/proxy/shop/", "").Body.String()
			if got != want {
				t.Errorf("%s and %q: %d bytes, want %d: ...%s", name, end, len(got), len(want), got[max(0, len(got)-80):])
			}
		}
	}
}

// X10: the names of a tag's attributes, which are all kept while it is read, take no multiple of its size.
func TestX10ATagTakesAFewTimesItsSize(t *testing.T) {
	w := newWorld(t)
	w.proxy(obj{"stripPathPrefix": "/proxy/shop", "wrapTransport": true})
	page := []byte("<p>x</p><p")
	for i := 0; len(page) < 4<<20-64; i++ {
		page = strconv.AppendInt(append(page, " a"...), int64(i), 36)
	}
	page = append(page, ` href="/x">x</p>`...)
	w.say = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write(page)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	rec := w.ask(ann, http.MethodGet, "/proxy/shop/", "")
	runtime.ReadMemStats(&after)
	if !bytes.Equal(rec.Body.Bytes(), page) {
		t.Errorf("%d bytes arrive, want %d", rec.Body.Len(), len(page))
	}
	if times := (after.TotalAlloc - before.TotalAlloc) / uint64(len(page)); times > 16 {
		t.Errorf("it takes %d times its size", times)
	}
}

func TestOnlyAllowedAddressesAreConnectedTo(t *testing.T) { // X6, X10
	w := newWorld(t)
	w.service()
	w.refused = netip.MustParseAddrPort(strings.TrimPrefix(w.URL, "http://"))
	rec := w.ask(ann, http.MethodGet, things, "")
	if rec.Code != http.StatusServiceUnavailable || w.got != nil || strings.Contains(rec.Body.String(), "127.0.0.1") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	w.refused = netip.AddrPort{}
	if rec := w.ask(ann, http.MethodGet, things, "", "Via: 1.1 kapis.dev"); rec.Code != http.StatusLoopDetected || w.got != nil {
		t.Errorf("a loop: %d", rec.Code)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	w.set("apiservices", "shop", obj{"group": "shop.example.com", "version": "v1", "url": "http://" + closed.Addr().String()}, nil)
	for range 5 {
		w.ask(ann, http.MethodGet, things, "")
	}
	rec = w.ask(ann, http.MethodGet, things, "")
	if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "tried again soon") || rec.Header().Get("Retry-After") == "" {
		t.Errorf("after five failures: %d %s", rec.Code, rec.Body)
	}
	w.set("apiservices", "shop", obj{"group": "shop.example.com", "version": "v1", "url": w.URL}, nil)
	if rec := w.ask(ann, http.MethodGet, things, ""); rec.Code != 200 {
		t.Errorf("at another address: %d %s", rec.Code, rec.Body)
	}
}

func TestCertificatesOfBackendsAreVerified(t *testing.T) { // X6, X12
	w := newWorld(t)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("secure")) }))
	defer secure.Close()
	secure.Config.ErrorLog = nil
	at := func(more obj) *httptest.ResponseRecorder {
		spec := obj{"group": "shop.example.com", "version": "v1", "url": secure.URL}
		for k, v := range more {
			spec[k] = v
		}
		w.set("apiservices", "shop", spec, nil)
		return w.ask(ann, http.MethodGet, things, "")
	}
	if rec := at(nil); rec.Code != http.StatusBadGateway {
		t.Errorf("an unknown authority: %d %s", rec.Code, rec.Body)
	}
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if rec := at(obj{"caBundle": bundle}); rec.Body.String() != "secure" {
		t.Errorf("with its authority: %d %s", rec.Code, rec.Body)
	}
	if rec := at(obj{"insecureSkipVerify": true}); rec.Body.String() != "secure" {
		t.Errorf("unverified: %d %s", rec.Code, rec.Body)
	}
	if rec := at(nil); rec.Code != http.StatusBadGateway {
		t.Errorf("verified again: %d", rec.Code)
	}
}

func TestStreamsUpgradesAndUploadsPass(t *testing.T) { // X9
	w := newWorld(t)
	w.service()
	w.proxy(nil)
	front := httptest.NewServer(w.serve(ann))
	defer front.Close()
	next := make(chan string)
	w.say = func(rw http.ResponseWriter, r *http.Request) {
		if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			c, err := websocket.Accept(rw, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			kind, raw, err := c.Read(r.Context())
			if err == nil {
				err = c.Write(r.Context(), kind, append([]byte("echo "), raw...))
			}
			if err != nil {
				t.Error(err)
			}
			_ = c.Close(websocket.StatusNormalClosure, "")
			return
		}
		rw.WriteHeader(http.StatusOK)
		rw.(http.Flusher).Flush()
		for line := range next {
			_, _ = fmt.Fprintln(rw, line)
			rw.(http.Flusher).Flush()
		}
	}
	for _, path := range []string{things + "?watch=true", "/proxy/shop/events"} {
		resp, err := http.Get(front.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for _, want := range []string{"one", "two"} {
			next <- want
			if !lines.Scan() || lines.Text() != want {
				t.Errorf("%s: %q", path, lines.Text())
			}
		}
		close(next)
		next = make(chan string)
		_ = resp.Body.Close()
	}
	for _, path := range []string{things + "/x/exec", "/proxy/shop/ws"} {
		c, _, err := websocket.Dial(t.Context(), front.URL+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer canary"}}})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if err := c.Write(t.Context(), websocket.MessageText, []byte("x")); err != nil {
			t.Error(err)
		}
		if _, raw, err := c.Read(t.Context()); string(raw) != "echo x" {
			t.Errorf("%s: %q %v", path, raw, err)
		}
		_ = c.CloseNow()
		if strings.Contains(fmt.Sprint(w.got.Header), "canary") {
			t.Errorf("an upgrade tells %v", w.got.Header)
		}
	}
	w.say = func(rw http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(rw, len(w.body)) }
	resp, err := http.Post(front.URL+things, "application/octet-stream", strings.NewReader(strings.Repeat("x", 8<<20)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, _ := io.ReadAll(resp.Body); string(raw) != fmt.Sprint(8<<20) {
		t.Errorf("an upload of 8 MiB: %d %s", resp.StatusCode, raw)
	}
	w.say = func(rw http.ResponseWriter, r *http.Request) { // an upgrade that nobody asked for
		conn, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_ = conn.Close()
	}
	if rec := w.ask(ann, http.MethodGet, things, ""); rec.Code != http.StatusBadGateway {
		t.Errorf("an upgrade that nobody asked for: %d", rec.Code)
	}
}

func TestAnUploadIsBounded(t *testing.T) { // X9
	w := newWorld(t)
	w.service()
	r := httptest.NewRequest(http.MethodPost, things, http.NoBody)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), backend.MaxBody+1
	rec := httptest.NewRecorder()
	w.serve(ann).ServeHTTP(rec, r)
	if rec.Code != http.StatusRequestEntityTooLarge || w.got != nil {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestFilesOfBundlesNeedNoLogin(t *testing.T) { // X13
	w := newWorld(t)
	w.set("jsbundles", "shop", obj{"raw": []byte("export default 1")}, obj{"status": obj{"state": "Available", "link": "/dist/shop/index.js"}})
	nobody := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	if rec := w.ask(nobody, http.MethodGet, "/dist/shop/index.js?resourceVersion=1", ""); rec.Code != 200 || rec.Body.String() != "export default 1" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if rec := w.ask(nobody, http.MethodPost, "/dist/shop/index.js", ""); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", rec.Code)
	}
	w.set("jsbundles", "other", obj{"rawFrom": obj{"url": w.URL + "/bundle"}}, obj{"status": obj{"state": "Available", "link": "/dist/other/index.js"}})
	w.say = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "from the backend") }
	rec := w.ask(nobody, http.MethodGet, "/dist/other/index.js", "", "Authorization: Bearer canary")
	if rec.Body.String() != "from the backend" || w.got.URL.Path != "/bundle" || strings.Contains(fmt.Sprint(w.got.Header), "canary") {
		t.Errorf("%d %s %v", rec.Code, rec.Body, w.got)
	}
}

// X3, X4: no path and no header reaches a backend that the matcher does not name, or takes an identity along.
func FuzzRequests(f *testing.F) {
	f.Add("/proxy/shop/..%2f..%2fx", "X-Remote-User", "root")
	f.Add("/proxy/shop/%2e%2e/x", "x_remote_user", "root")
	f.Add("/kapis/shop.example.com/v1/things/%00", "Authorization", "Bearer canary")
	f.Fuzz(func(t *testing.T, target, name, value string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" || !strings.HasPrefix(target, "/") {
			return
		}
		w := newWorld(t)
		w.service()
		w.proxy(nil)
		r := &http.Request{Method: http.MethodGet, URL: u, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{http.CanonicalHeaderKey(name): {value}},
			Host:   "ks.example.com", RemoteAddr: "192.0.2.1:1", Body: http.NoBody, RequestURI: target}
		rec := httptest.NewRecorder()
		w.serve(ann).ServeHTTP(rec, r.WithContext(t.Context()))
		if w.got == nil {
			return
		}
		if p := w.got.URL.Path; !strings.HasPrefix(p, "/proxy/shop/") && !strings.HasPrefix(p, "/kapis/shop.example.com/v1/") {
			t.Errorf("%q leads to %q", target, p)
		}
		for k, v := range w.got.Header {
			states := strings.HasPrefix(k, "X-Remote-") || k == "Authorization"
			if states && strings.Join(v, "") == value && value != "" && value != "ann" && value != "uid-ann" {
				t.Errorf("%s: %q arrives", k, v)
			}
		}
	})
}
