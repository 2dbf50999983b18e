package login

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// issuer is an OpenID provider with one user. It is as strict as the standards allow: each parameter is checked, and a
// refresh token that is used twice ends the session.
type issuer struct {
	*httptest.Server
	t *testing.T

	mu sync.Mutex
	// life is the lifetime of access tokens, in seconds. calls counts the requests by path and grant.
	life  int
	calls map[string]int
	// person is the user who logs in, audience the aud of ID tokens, and name the issuer's own name; "" for its address.
	person, audience, name string
	// noIDOnRefresh omits the ID token from the answers to refreshes, and noRotation the refresh token.
	noIDOnRefresh, noRotation bool
	// fails has errors with which requests are answered, by path and grant, before anything else is done. pending is how
	// many polls of a device have to wait.
	fails   map[string]failure
	pending int
	// without has the fields that the discovery document lacks.
	without []string
	// refuse is the error of the authorization endpoint, and badIssuer the iss that it sends.
	refuse, badIssuer string

	serial    int
	codes     map[string]url.Values // by code, the authorization request
	refresh   string                // the valid one
	access    map[string]bool
	revoked   []string
	userInfos int
}

type failure struct {
	code  int
	name  string
	times int // below 0 for every time
}

const clientID = "kubectl"

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, life: 3600, person: "alice", audience: clientID, calls: map[string]int{}, fails: map[string]failure{},
		codes: map[string]url.Values{}, access: map[string]bool{}}
	i.Server = httptest.NewTLSServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) count(what string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls[what]
}

// change changes the issuer's settings.
func (i *issuer) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := r.ParseForm(); err != nil {
		i.t.Errorf("%s: %v", r.URL.Path, err)
	}
	what := r.URL.Path
	if grant := r.PostForm.Get("grant_type"); grant != "" {
		what += " " + grant
	}
	i.calls[what]++
	if f, ok := i.fails[what]; ok && f.times != 0 {
		f.times--
		i.fails[what] = f
		answer(w, f.code, map[string]any{"error": f.name, "error_description": "because\x1b[31m of this"})
		return
	}
	if r.Method == http.MethodPost && r.PostForm.Get("client_id") != clientID {
		answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client"})
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		i.document(w)
	case "/authorize":
		i.authorize(w, r)
	case "/device":
		answer(w, 200, map[string]any{"device_code": "d1", "user_code": "BCDF-GHJK", "expires_in": 60, "interval": 1,
			"verification_uri": i.URL + "/verify", "verification_uri_complete": i.URL + "/verify?user_code=BCDF-GHJK"})
	case "/token":
		i.token(w, r.PostForm)
	case "/revoke":
		i.revoked = append(i.revoked, r.PostForm.Get("token_type_hint"))
		if r.PostForm.Get("token") == i.refresh || i.access[r.PostForm.Get("token")] {
			i.end()
		}
	case "/userinfo":
		i.userInfos++
		if !i.access[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")] {
			answer(w, http.StatusUnauthorized, map[string]any{"error": "invalid_token"})
			return
		}
		answer(w, 200, map[string]any{"sub": "uid-1", "preferred_username": i.person, "groups": []string{"dev", "op\x1b[31ms"}})
	default:
		http.NotFound(w, r)
	}
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func (i *issuer) end() { i.refresh, i.access = "", map[string]bool{} }

func (i *issuer) document(w http.ResponseWriter) {
	doc := map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
		"device_authorization_endpoint": i.URL + "/device", "revocation_endpoint": i.URL + "/revoke", "userinfo_endpoint": i.URL + "/userinfo",
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
	}
	if i.name != "" {
		doc["issuer"] = i.name
	}
	for _, name := range i.without {
		delete(doc, name)
	}
	answer(w, 200, doc)
}

// authorize is the page for the user, who consents at once.
func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("client_id") != clientID || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" ||
		len(q.Get("state")) < 22 {
		i.t.Errorf("authorization request %v", q)
	}
	i.serial++
	code := fmt.Sprint("code-", i.serial)
	i.codes[code] = q
	back := url.Values{"state": {q.Get("state")}, "iss": {i.URL}, "code": {code}}
	if i.badIssuer != "" {
		back.Set("iss", i.badIssuer)
	}
	if i.refuse != "" {
		back.Del("code")
		back.Set("error", i.refuse)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

func (i *issuer) token(w http.ResponseWriter, f url.Values) {
	bad := func() { answer(w, 400, map[string]any{"error": "invalid_grant"}) }
	switch f.Get("grant_type") {
	case "authorization_code":
		q, ok := i.codes[f.Get("code")]
		delete(i.codes, f.Get("code"))
		sum := sha256.Sum256([]byte(f.Get("code_verifier")))
		if !ok || base64.RawURLEncoding.EncodeToString(sum[:]) != q.Get("code_challenge") || f.Get("redirect_uri") != q.Get("redirect_uri") {
			bad()
			return
		}
		i.issue(w, q.Get("nonce"), true)
	case "urn:ietf:params:oauth:grant-type:device_code":
		if i.pending > 0 {
			i.pending--
			answer(w, 400, map[string]any{"error": "authorization_pending"})
			return
		}
		i.issue(w, "", true)
	case "refresh_token":
		if f.Get("refresh_token") != i.refresh || i.refresh == "" {
			i.end() // reuse
			bad()
			return
		}
		i.issue(w, "", !i.noIDOnRefresh)
	default:
		answer(w, 400, map[string]any{"error": "unsupported_grant_type"})
	}
}

func (i *issuer) issue(w http.ResponseWriter, nonce string, id bool) {
	i.serial++
	access := fmt.Sprint("access-", i.serial)
	i.access[access] = true
	out := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": i.life}
	if i.refresh == "" || !i.noRotation {
		i.refresh = fmt.Sprint("refresh-", i.serial)
		out["refresh_token"] = i.refresh
	}
	if id {
		claims, _ := json.Marshal(map[string]any{"iss": i.URL, "aud": i.audience, "sub": "uid-1", "nonce": nonce, "preferred_username": i.person})
		out["id_token"] = "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
	}
	answer(w, 200, out)
}

// browse returns a browser that follows redirects and shows the last page.
func (i *issuer) browse(t *testing.T) func(context.Context, string) error {
	return func(_ context.Context, address string) error {
		go func() {
			resp, err := i.Client().Get(address)
			if err != nil {
				t.Errorf("the browser: %v", err)
				return
			}
			defer resp.Body.Close()
		}()
		return nil
	}
}

// told collects the lines for the user.
type told struct {
	mu sync.Mutex
	b  strings.Builder
}

func (p *told) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *told) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

// options returns those of a Session at the issuer, whose logins are stored in dir.
func (i *issuer) options(t *testing.T, dir string) Options {
	pool := i.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return Options{Issuer: i.URL, Client: clientID, Scopes: []string{"openid", "groups", "openid"}, Way: Browser, Roots: pool, Dir: dir,
		Tell: &told{}, Open: i.browse(t), Now: time.Now}
}

func newSession(t *testing.T, o Options) *Session {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.http.CloseIdleConnections)
	return s
}

// at returns a Session with another time.
func at(t *testing.T, o Options, later time.Duration) *Session {
	t.Helper()
	o.Now = func() time.Time { return time.Now().Add(later) }
	return newSession(t, o)
}

func tokenOf(t *testing.T, s *Session) *Token {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestOptionsThatAreNotSafeAreRefused(t *testing.T) {
	good := Options{Issuer: "https://ks.example.com", Client: clientID, Scopes: []string{"openid"}, Dir: t.TempDir()}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"PlainHTTP":               {func(o *Options) { o.Issuer = "http://ks.example.com" }, "https"},
		"InsecureElsewhere":       {func(o *Options) { o.Insecure = true }, "has to be verified"},
		"AQuery":                  {func(o *Options) { o.Issuer += "?a=b" }, "not a URL"},
		"AUser":                   {func(o *Options) { o.Issuer = "https://a:b@ks.example.com" }, "not a URL"},
		"NoIssuer":                {func(o *Options) { o.Issuer = "" }, "not a URL"},
		"NoClient":                {func(o *Options) { o.Client = "" }, "client"},
		"NoScope":                 {func(o *Options) { o.Scopes = nil }, "scope"},
		"NoFolder":                {func(o *Options) { o.Dir = "" }, "folder"},
		"ListeningToTheWorld":     {func(o *Options) { o.Listen = "0.0.0.0:8000" }, "loopback"},
		"ListeningToAName":        {func(o *Options) { o.Listen = "localhost:8000" }, "loopback"},
		"ListeningWithoutAPort":   {func(o *Options) { o.Listen = "127.0.0.1" }, "loopback"},
		"ANameThatBeginsLoopback": {func(o *Options) { o.Issuer, o.Insecure = "https://localhost.example.com", true }, "has to be verified"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			c.change(&o)
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
	for _, local := range []Options{{Issuer: "http://127.0.0.1:9090"}, {Issuer: "https://localhost:9443", Insecure: true},
		{Issuer: "https://[::1]:1", Insecure: true, Listen: "[::1]:0"}} {
		local.Client, local.Scopes, local.Dir = clientID, good.Scopes, good.Dir
		if _, err := New(local); err != nil {
			t.Errorf("%s: %v", local.Issuer, err)
		}
	}
}

func TestTheIssuerIsWhoItSays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*issuer, *Options)
		says   string
	}{
		"AnotherName":      {func(i *issuer, _ *Options) { i.name = i.URL + "/" }, "letter by letter"}, // T8414-1
		"AnotherAuthority": {func(_ *issuer, o *Options) { o.Roots = nil }, "certificate"},
		"NoTokenEndpoint":  {func(i *issuer, _ *Options) { i.without = []string{"token_endpoint"} }, "token_endpoint"},
		"NoPKCE":           {func(i *issuer, _ *Options) { i.without = []string{"code_challenge_methods_supported"} }, "PKCE"},
		"NoDevices": {func(i *issuer, o *Options) {
			i.without, o.Way = []string{"device_authorization_endpoint"}, Device
		}, "no login by device code"},
		"NotAProvider": {func(i *issuer, _ *Options) {
			i.fails["/.well-known/openid-configuration"] = failure{404, "", -1}
		}, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIssuer(t)
			i.Config.ErrorLog = quiet
			o := i.options(t, t.TempDir()+"/ks")
			c.change(i, &o)
			_, err := newSession(t, o).Token(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
}

func TestAServerNamesItsIssuer(t *testing.T) {
	i := newIssuer(t)
	roots := i.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	if got, err := Discover(t.Context(), i.URL+"/", roots, false); err != nil || got != i.URL {
		t.Errorf("%q, %v", got, err)
	}
	i.name = "nonsense"
	if _, err := Discover(t.Context(), i.URL, roots, false); err == nil {
		t.Error("an issuer that is no URL was taken")
	}
}
