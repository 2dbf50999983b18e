package filter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
	"kapis.dev/ks-apiserver/pkg/request"
)

func TestUnauthorizedCarriesTheChallengeOfRFC6750(t *testing.T) { // T6750-3, S54
	nobody := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if r.Header.Get("Authorization") != "" || len(r.Cookies()) > 0 {
			return nil, false, errors.New("bad")
		}
		return nil, false, nil
	})
	h := Chain(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went on") }),
		Info, Authentication{Authenticator: nobody}.Wrap)
	for name, c := range map[string]struct {
		header, value string
		invalid       bool
	}{
		"NothingSent":     {"X-Nothing", "", false},
		"BadToken":        {"Authorization", "Bearer garbage", true},
		"EmptyBearer":     {"Authorization", "Bearer", true},
		"SpacesInBearer":  {"Authorization", "Bearer  x ", true},
		"LowerCase":       {"Authorization", "bearer x", true},
		"CookieAsToken":   {"Cookie", "token=x", true},
		"BasicIsNoToken":  {"Authorization", "Basic eDp5", false},
		"GarbageIsNoneAs": {"Authorization", "\x01\x02", false},
	} {
		for _, path := range []string{"/kapis/x.io/v1/things", "/api/v1/pods", "/oauth/userinfo"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set(c.header, c.value)
			w := serve(h, r)
			challenge := w.Header().Get("WWW-Authenticate")
			if w.Code != 401 || !strings.HasPrefix(challenge, "Bearer ") || strings.Contains(challenge, `error="invalid_token"`) != c.invalid {
				t.Errorf("%s on %s: %d %q", name, path, w.Code, challenge)
			}
			if s := statusOf(t, w); s.Reason != "Unauthorized" || strings.Contains(s.Message, "bad") {
				t.Errorf("%s on %s: %+v", name, path, s)
			}
		}
	}
}

func TestAnAuthenticatorThatCannotTellIsNotA401(t *testing.T) {
	busy := apierrors.NewTooManyRequests("busy", 3)
	for name, err := range map[string]error{
		"Unavailable": apierrors.NewServiceUnavailable("no keys yet"),
		"Busy":        busy,
		"InAUnion":    utilerrors.NewAggregate([]error{errors.New("not mine"), busy}),
	} {
		a := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, err })
		h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: a}.Wrap)
		if w := serve(h, httptest.NewRequest(http.MethodGet, "/api", nil)); w.Code != 503 && w.Code != 429 {
			t.Errorf("%s: code %d", name, w.Code)
		}
	}
}

func TestNobodyWithoutANameIsAuthenticated(t *testing.T) {
	for name, resp := range map[string]*authenticator.Response{
		"NoResponse": nil, "NoUser": {}, "EmptyName": {User: &user.DefaultInfo{}},
	} {
		a := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return resp, true, nil })
		h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: a}.Wrap)
		if w := serve(h, httptest.NewRequest(http.MethodGet, "/api", nil)); w.Code != 401 {
			t.Errorf("%s: code %d", name, w.Code)
		}
	}
}

func TestNoClientStatesAnIdentity(t *testing.T) { // S13, S19, S22
	seen := func(where string) func(r *http.Request) {
		return func(r *http.Request) {
			for k := range r.Header {
				if k != "Accept" && k != "Authorization" && k != "Cookie" {
					t.Errorf("%s sees %s: %q", where, k, r.Header[k])
				}
			}
		}
	}
	a := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		seen("the authenticator")(r)
		return tokens.AuthenticateRequest(r)
	})
	auth := Authentication{Authenticator: a, Proxies: absentProxies{}}
	h := Chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen("the handler")(r)
		if r.Header.Get("Authorization") != "" {
			t.Error("the Authorization header goes on")
		}
		if got := r.Header.Get("Cookie"); got != "lang=en; theme=dark" {
			t.Errorf("the cookies that go on are %q", got)
		}
		if got := request.UserFrom(r.Context()).GetName(); got != "bob" {
			t.Errorf("the user is %s", got)
		}
	}), Info, auth.Wrap)
	srv := httptest.NewServer(h)
	defer srv.Close()
	conn := rawDial(t, srv.Listener.Addr().String())
	conn.send("GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob\r\n" +
		"Cookie: lang=en; token=bob\r\nCookie: refreshToken=r; theme=dark\r\n" +
		"X-Remote-User: admin\r\nx-remote-group: system:masters\r\n" +
		"X-Remote-Extra-a: b\r\nX-Remote-Uid: 1\r\nMy-User: admin\r\nMY-EXTRA-roles: all\r\n" +
		"X-KubeSphere-Authorization: Bearer root\r\nX-KubeSphere-Rawquery: dryRun=\r\nAccept: x/y\r\n\r\n")
	if got := conn.status(); got != 200 {
		t.Errorf("code %d", got)
	}
}

func TestNobodyIsAnsweredAsAnother(t *testing.T) { // S13
	h := Chain(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request goes on") }), Info, Authentication{Authenticator: tokens}.Wrap)
	srv := httptest.NewServer(h)
	defer srv.Close()
	for _, lines := range []string{
		"Impersonate-User: admin", "impersonate-user:", "Impersonate-Group: system:masters\r\nimpersonate-group: a", "IMPERSONATE-UID: 1",
		"Impersonate-Extra-x: y", "Impersonate-Extra-Scopes%2f: z", "Connection: Impersonate-User\r\nImpersonate-User: bob",
	} {
		conn := rawDial(t, srv.Listener.Addr().String())
		conn.send("GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bob\r\n" + lines + "\r\n\r\n")
		if got := conn.status(); got != 403 {
			t.Errorf("%q: code %d", lines, got)
		}
		conn = rawDial(t, srv.Listener.Addr().String())
		conn.send("GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bad\r\n" + lines + "\r\n\r\n")
		if got := conn.status(); got != 401 {
			t.Errorf("%q with a bad token: code %d", lines, got)
		}
	}
}

func TestEndpointsThatVerifyThemselvesKeepTheirHeader(t *testing.T) {
	auth := Authentication{Authenticator: tokens, VerifiesItself: func(i *request.Info) bool { return i.Path == "/oauth/token" }}
	h := Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer bad" {
			t.Errorf("the header is %q", got)
		}
		if got := request.UserFrom(r.Context()).GetName(); got != user.Anonymous {
			t.Errorf("the user is %s", got)
		}
		ok(w, r)
	}), Info, auth.Wrap)
	r := httptest.NewRequest(http.MethodPost, "/oauth/token", nil)
	r.Header.Set("Authorization", "Bearer bad")
	r.Header.Set("Impersonate-User", "admin")
	if w := serve(h, r); w.Code != 200 || r.Header.Get("Impersonate-User") != "" {
		t.Errorf("code %d, header %v", w.Code, r.Header)
	}
	r = httptest.NewRequest(http.MethodPost, "/oauth/tokens", nil)
	r.Header.Set("Authorization", "Bearer bad")
	if w := serve(h, r); w.Code != 401 {
		t.Errorf("another path is answered with %d", w.Code)
	}
}

// timed records the deadline by which its answer has to be received.
type timed struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (w *timed) SetWriteDeadline(t time.Time) error {
	w.until = t
	return nil
}

func TestHTTP2OfStrangersIsShort(t *testing.T) { // S55
	verifies := func(i *request.Info) bool { return i.Path == "/oauth/token" }
	h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: tokens, VerifiesItself: verifies}.Wrap)
	for _, c := range []struct {
		path, token string
		proto       int
		short       bool
	}{
		{"/version", "", 2, true}, {"/version", "bad", 2, true}, {"/oauth/token", "", 2, true}, {"/oauth/token", "bob", 2, true},
		{"/version", "bob", 2, false}, {"/version", "", 1, false}, {"/oauth/token", "", 1, false},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.ProtoMajor = c.proto
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Connection") == "close"; got != c.short || got != !w.until.IsZero() {
			t.Errorf("%+v: Connection is %q, and it has to be received until %v", c, w.Header().Get("Connection"), w.until)
		}
	}
}

// S55: a page and its parts come over one connection, and a flood doesn't.
func TestStrangersOfAConnectionAreCounted(t *testing.T) {
	h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: tokens}.Wrap)
	one, other := CountStrangers(t.Context(), nil), CountStrangers(t.Context(), nil)
	ask := func(ctx context.Context, token string) (ends bool) {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/version", nil)
		r.ProtoMajor = 2
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Header().Get("Connection") == "close"
	}
	for i := 1; i < strangerRequests; i++ {
		if ask(one, "") || ask(one, "bob") {
			t.Fatalf("the connection ends after %d requests without a login", i)
		}
	}
	if !ask(one, "") || !ask(one, "bad") || ask(one, "bob") || ask(other, "") {
		t.Error("only a request without a login, after the last one that the connection serves, ends it")
	}
}

// F39: whoever is refused in a member ends nothing of a link, which is everybody's.
func TestARefusedUserEndsNoLink(t *testing.T) {
	const member = "0f8fad5b-d9cb-469f-a165-70867728950e"
	begun, on := make(chan struct{}), make(chan struct{})
	h := Chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			close(begun)
			<-on
		}
	}), Info, Authentication{Authenticator: tokens}.Wrap)
	a := linktest.NewAuthority(t)
	one, other := linktest.Pair(t)
	go func() { _ = (&link.Handler{Identity: a.Member(t, member), Handler: h}).Serve(t.Context(), other, 0) }()
	l, err := link.Open(t.Context(), one, member, a.Hub(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ask := func(path, token string) (int, error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://member"+path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := l.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	held := make(chan error, 1)
	go func() { _, err := ask("/version", "bob"); held <- err }()
	<-begun
	for range 2 * strangerRequests {
		if code, err := ask("/api", "bad"); code != http.StatusUnauthorized || err != nil {
			t.Fatalf("somebody who is not known: %d, %v", code, err)
		}
	}
	if code, err := ask("/api", "bob"); code != http.StatusOK || err != nil {
		t.Errorf("another user, afterwards: %d, %v", code, err)
	}
	close(on)
	if err := <-held; err != nil {
		t.Errorf("what ran meanwhile: %v", err)
	}
}

// X5: what may be passed on of a request's credentials is a well-formed bearer token that was verified, and never a cookie or a header that nobody looked at.
func TestX5TheBearerTokenOfARequestIsAVerifiedOne(t *testing.T) {
	a := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		r.Header.Del("Authorization") // as the authenticators of Kubernetes do
		return &authenticator.Response{User: &user.DefaultInfo{Name: "ann"}}, true, nil
	})
	for name, c := range map[string]struct {
		path, header, value string
		want                string
	}{
		"InTheHeader":       {"/kapis/x.io/v1/things", "Authorization", "Bearer t.o.k", "t.o.k"},
		"LowerCase":         {"/kapis/x.io/v1/things", "Authorization", "bearer t.o.k", "t.o.k"},
		"InTheCookie":       {"/kapis/x.io/v1/things", "Cookie", "token=t.o.k", ""},
		"InTheQuery":        {"/kapis/x.io/v1/things?access_token=t.o.k&token=t.o.k", "X-Nothing", "", ""},
		"AnotherScheme":     {"/kapis/x.io/v1/things", "Authorization", "Basic dC5vLms=", ""},
		"NotWellFormed":     {"/kapis/x.io/v1/things", "Authorization", "Bearer t.o.k, x", ""},
		"AnEndpointThatHas": {"/oauth/token", "Authorization", "Bearer t.o.k", ""}, // to verify it itself
	} {
		t.Run(name, func(t *testing.T) {
			got, passed := "", false
			h := Chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, passed = request.BearerTokenFrom(r.Context()), true }),
				Info, Authentication{Authenticator: a, VerifiesItself: func(i *request.Info) bool { return i.Path == "/oauth/token" }}.Wrap)
			r := httptest.NewRequest(http.MethodGet, c.path, nil)
			r.Header.Set(c.header, c.value)
			if serve(h, r); !passed || got != c.want {
				t.Errorf("%v %q, want %q", passed, got, c.want)
			}
		})
	}
	if got := request.BearerTokenFrom(t.Context()); got != "" {
		t.Errorf("of no request: %q", got)
	}
}

func TestRecheckFollowsWhatChanged(t *testing.T) { // S53
	type world struct {
		users   map[string]string // token -> name
		allowed bool
	}
	for name, c := range map[string]struct {
		change func(*world)
		ends   bool
	}{
		"NothingChanged": {func(*world) {}, false},
		"TokenRevoked":   {func(w *world) { delete(w.users, "t") }, true},
		"RightWithdrawn": {func(w *world) { w.allowed = false }, true},
		"OtherUser":      {func(w *world) { w.users["t"] = "eve" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{users: map[string]string{"t": "bob"}, allowed: true}
			a := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
				n, ok := w.users[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
				r.Header.Del("Authorization") // as the authenticators of Kubernetes do
				if !ok {
					return nil, false, errors.New("bad")
				}
				return &authenticator.Response{User: &user.DefaultInfo{Name: n}}, true, nil
			})
			z := authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
				if w.allowed {
					return authz.Allow("", ""), nil
				}
				return authz.Decision{}, nil
			})
			var passed *http.Request
			h := Chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed = r }),
				Info, Authentication{Authenticator: a}.Wrap, Authorize(z))
			r := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=true", nil)
			r.Header.Set("Authorization", "Bearer t")
			serve(h, r)
			c.change(w)
			for range 2 { // checking removes nothing
				if err := Recheck(a, z)(context.Background(), passed); (err != nil) != c.ends {
					t.Errorf("the check says %v", err)
				}
			}
		})
	}
}

func TestRecheckRefusesRequestsFromElsewhere(t *testing.T) {
	if err := Recheck(tokens, namedOnly)(context.Background(), httptest.NewRequest(http.MethodGet, "/api", nil)); err == nil {
		t.Error("a request that passed no filter is good")
	}
}

func FuzzCookiesWithTokensNeverGoOn(f *testing.F) {
	for _, s := range []string{"", "token=x", "a=b; token=x;refreshToken=y", " token =x", "token", "a=b;;;c=d", "token=a=b; lang=en"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := http.Header{"Cookie": {s, "lang=en"}}
		cutSecretCookies(h)
		r := http.Request{Header: h}
		for _, name := range []string{"token", "refreshToken"} {
			if c, err := r.Cookie(name); err == nil {
				t.Errorf("%q lets %v through", s, c)
			}
		}
		if c, err := r.Cookie("lang"); err != nil || c.Value == "" && !strings.Contains(s, "lang") {
			t.Errorf("%q loses another cookie", s)
		}
	})
}

// proxies trust every request with the header X-Trusted, which stands for a client certificate.
type proxies struct{}

func (proxies) Trusts(r *http.Request) bool { return r.Header.Get("X-Trusted") != "" }
func (proxies) Headers() []string           { return []string{"X-Custom-User", "X-Remote-User"} }
func (proxies) HeaderPrefixes() []string    { return []string{"X-Custom-Extra-"} }

// absentProxies send none of the requests.
type absentProxies struct{}

func (absentProxies) Trusts(*http.Request) bool { return false }
func (absentProxies) Headers() []string         { return []string{"my-user"} }
func (absentProxies) HeaderPrefixes() []string  { return []string{"my-extra-", ""} }

// Only an endpoint that is no resource may verify credentials itself.
func TestNoResourceVerifiesItsCredentialsItself(t *testing.T) {
	nobody := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) { return nil, false, nil })
	h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: nobody, VerifiesItself: func(*request.Info) bool { return true }}.Wrap)
	for path, want := range map[string]int{
		"/oauth/token": http.StatusOK, "/kapis/x.io/v1/things": http.StatusUnauthorized, "/api/v1/pods": http.StatusUnauthorized,
	} {
		if w := serve(h, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != want {
			t.Errorf("%s: answered %d, not %d", path, w.Code, want)
		}
	}
}

// anything allows everything, even without a login.
var anything = authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
	return authz.Allow("", ""), nil
})

// S13, S19: identity headers, of custom and of the usual names, reach the authenticators if a proxy sent them, and no one else's do; after the filter they
// are removed in any case. A later check of the same request sees them again.
func TestIdentityHeadersCountFromProxiesOnly(t *testing.T) {
	names := []string{"X-Custom-User", "X-Remote-User", "X-Remote-Group", "X-Remote-Extra-Scopes", "X-Custom-Extra-Team"}
	for _, trusted := range []bool{false, true} {
		var seen []string
		who := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
			seen = nil
			for _, name := range names {
				if r.Header.Get(name) != "" {
					seen = append(seen, name)
				}
			}
			name := r.Header.Get("X-Custom-User")
			if name == "" {
				name = user.Anonymous
			}
			return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
		})
		var passed *http.Request
		h := Chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = r
			for _, name := range names {
				if r.Header.Get(name) != "" {
					t.Errorf("trusted %v: %s goes on", trusted, name)
				}
			}
		}), Info, Authentication{Authenticator: who, Proxies: proxies{}, VerifiesItself: func(i *request.Info) bool { return i.Path == "/oauth/token" }}.Wrap)
		r := httptest.NewRequest(http.MethodGet, "/kapis/x.io/v1/things", nil)
		for _, name := range names {
			r.Header.Set(name, "jane")
		}
		if trusted {
			r.Header.Set("X-Trusted", "yes")
		}
		own := r.Clone(t.Context())
		own.URL.Path, own.RequestURI = "/oauth/token", "/oauth/token"
		serve(h, r)
		want := ""
		if trusted {
			want = "X-Custom-User X-Remote-User X-Custom-Extra-Team"
		}
		if got := strings.Join(seen, " "); got != want {
			t.Errorf("trusted %v: the authenticators see %q, want %q", trusted, got, want)
		}
		seen = nil
		err := Recheck(who, anything)(t.Context(), passed)
		if got := strings.Join(seen, " "); got != want || err != nil {
			t.Errorf("trusted %v, later: %q, %v", trusted, got, err)
		}
		serve(h, own)
	}
}

// S68: any of several authenticators may be the one that can't tell now; the errors of the others, to which the token does not belong, do not make it a bad
// one.
func TestNobodyIsToldThatATokenIsBadWhichNobodyCouldVerify(t *testing.T) {
	busy := apierrors.NewTooManyRequests("too many", 1)
	for name, err := range map[string]error{
		"Alone": busy, "Wrapped": fmt.Errorf("bearer token: %w", busy), "First": errors.Join(busy, errors.New("not mine")),
		"AfterOthers":   fmt.Errorf("bearer token: %w", errors.Join(errors.New("not mine"), apierrors.NewUnauthorized("no"), fmt.Errorf("pods: %w", busy))),
		"InAnAggregate": utilerrors.NewAggregate([]error{errors.New("not mine"), errors.Join(errors.New("x"), busy)}),
	} {
		if e := undecided(err); !apierrors.IsTooManyRequests(e) {
			t.Errorf("%s: %v", name, e)
		}
	}
	for name, err := range map[string]error{"Nothing": nil, "Text": errors.New("no"), "401": errors.Join(errors.New("x"), apierrors.NewUnauthorized("no"))} {
		if e := undecided(err); e != nil {
			t.Errorf("%s: %v", name, e)
		}
	}
}
