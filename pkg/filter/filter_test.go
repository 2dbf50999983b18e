package filter

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// tokens authenticates "Bearer NAME" as NAME unless NAME is "bad", the cookie token on upgrades, and requests without credentials as anonymous.
var tokens = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if c, err := r.Cookie("token"); !ok && err == nil && request.IsUpgrade(r.Header) {
		name, ok = c.Value, true
	}
	switch {
	case !ok && r.Header.Get("Authorization") != "", name == "bad":
		return nil, false, errors.New("the token is bad")
	case !ok:
		return &authenticator.Response{User: anonymous}, true, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name, UID: "uid-" + name}}, true, nil
})

// namedOnly allows every user who is not anonymous.
var namedOnly = authz.Func(func(_ context.Context, u user.Info, _ *request.Info) (authz.Decision, error) {
	if u.GetName() == user.Anonymous {
		return authz.Decision{}, nil
	}
	return authz.Allow("named", "kapis:global:named"), nil
})

// serve sends r through filters and returns the answer.
func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func statusOf(t *testing.T, w *httptest.ResponseRecorder) metav1.Status {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.Kind != "Status" || int(s.Code) != w.Code {
		t.Fatalf("answer %d %q is no Status of its code: %v", w.Code, w.Body, err)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type is %q", got)
	}
	return s
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

func TestChainIsReadFromTopToBottom(t *testing.T) {
	var road []string
	step := func(name string) Filter {
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				road = append(road, name)
				next.ServeHTTP(w, r)
			})
		}
	}
	serve(Chain(http.HandlerFunc(ok), step("first"), step("second"), step("third")), httptest.NewRequest(http.MethodGet, "/", nil))
	if got := strings.Join(road, " "); got != "first second third" {
		t.Errorf("the road was %s", got)
	}
}

func TestInfoRefusesWhatItCannotParse(t *testing.T) {
	reached := false
	h := Info(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	// S23
	for _, path := range []string{"//api/v1/pods", "/api/../secrets", "/api/v1/%2e%2e/x", "/kapis/a%2fb"} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		u, err := url.Parse("http://example.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		r.URL.Path, r.URL.RawPath = u.Path, u.RawPath
		w := serve(h, r)
		if w.Code != http.StatusBadRequest || reached {
			t.Errorf("%s: code %d, reached %v", path, w.Code, reached)
		}
		statusOf(t, w)
	}
}

func TestInfoIsInTheContext(t *testing.T) {
	h := Info(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i := request.InfoFrom(r.Context()); i == nil || i.Resource != "pods" || i.Namespace != "a" {
			t.Errorf("info is %+v", i)
		}
	}))
	serve(h, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/a/pods/p", nil))
}

func TestClusterKnowsItsNamesOnly(t *testing.T) {
	h := Chain(http.HandlerFunc(ok), Info, Cluster("host", "mine"))
	for path, code := range map[string]int{
		"/kapis/iam.kubesphere.io/v1beta1/users":                http.StatusOK,
		"/clusters/host/kapis/iam.kubesphere.io/v1beta1/users":  http.StatusOK,
		"/clusters/mine/api/v1/pods":                            http.StatusOK,
		"/clusters/other/api/v1/pods":                           http.StatusBadRequest,
		"/kapis/clusters/other/iam.kubesphere.io/v1beta1/users": http.StatusBadRequest,
	} {
		w := serve(h, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != code {
			t.Errorf("%s: code %d, want %d", path, w.Code, code)
		}
		if code != http.StatusOK {
			if s := statusOf(t, w); s.Message != `cluster "other" does not exist` {
				t.Errorf("%s: message %q", path, s.Message)
			}
		}
	}
}

func TestFiltersWithoutInfoRefuse(t *testing.T) {
	never := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request went on that was not parsed") })
	for name, f := range map[string]Filter{
		"Cluster": Cluster("host"), "Authorize": Authorize(namedOnly),
		"Authentication": Authentication{Authenticator: tokens}.Wrap,
	} {
		if w := serve(f(never), httptest.NewRequest(http.MethodGet, "/api", nil)); w.Code != http.StatusInternalServerError {
			t.Errorf("%s answered %d", name, w.Code)
		}
	}
}

func TestLimitRefusesLargeBodies(t *testing.T) {
	read := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			var tooLarge *http.MaxBytesError
			if !errors.As(err, &tooLarge) {
				t.Errorf("reading failed with %v", err)
			}
			w.WriteHeader(http.StatusTeapot)
		}
	})
	h := Chain(read, Info, Limit(10, nil))
	for name, c := range map[string]struct {
		path, body string
		chunked    bool
		code       int
	}{
		"S56 DeclaredLengthIsRefusedUnread": {"/kapis/x.io/v1/things", "12345678901", false, http.StatusRequestEntityTooLarge},
		"S56 ChunkedBodyIsCutAtTheLimit":    {"/kapis/x.io/v1/things", "12345678901", true, http.StatusTeapot},
		"KubePathsAreLimitedToo":            {"/api/v1/namespaces", "12345678901", false, http.StatusRequestEntityTooLarge},
		"AtTheLimitIsFine":                  {"/api/v1/namespaces", "1234567890", false, http.StatusOK},
		"NoBodyIsFine":                      {"/api/v1/namespaces", "", false, http.StatusOK},
		"ProxiedUploadsHaveNoLimit":         {"/api/v1/namespaces/a/services/s/proxy/up", "12345678901", false, http.StatusOK},
		"OurOwnProxySubresourceHas":         {"/kapis/x.io/v1/namespaces/a/things/s/proxy", "12345678901", false, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body))
			if c.chunked {
				r.ContentLength = -1
			}
			w := serve(h, r)
			if w.Code != c.code {
				t.Errorf("code %d, want %d", w.Code, c.code)
			}
			if c.code == http.StatusRequestEntityTooLarge && w.Header().Get("Connection") != "close" {
				t.Error("the connection stays open with the body on it")
			}
		})
	}
}

func TestUpgradeRefuses(t *testing.T) {
	h := Upgrade(request.Origins{"https://console.example"})(http.HandlerFunc(ok))
	for name, c := range map[string]struct {
		header map[string]string
		body   string
		code   int
	}{
		"S24 Body":                       {map[string]string{}, "x", http.StatusBadRequest},
		"S24 Expect":                     {map[string]string{"Expect": "100-continue"}, "", http.StatusBadRequest},
		"S52 ForeignOrigin":              {map[string]string{"Cookie": "token=t", "Origin": "https://evil.example"}, "", http.StatusForbidden},
		"S52 NullOrigin":                 {map[string]string{"Cookie": "token=t", "Origin": "null"}, "", http.StatusForbidden},
		"S52 AbsentOrigin":               {map[string]string{"Cookie": "a=b; token=t"}, "", http.StatusForbidden},
		"S52 OriginThatBeginsAlike":      {map[string]string{"Cookie": "token=t", "Origin": "http://example.com.evil.example"}, "", http.StatusForbidden},
		"S52 OriginWithUser":             {map[string]string{"Cookie": "token=t", "Origin": "http://example.com@evil.example"}, "", http.StatusForbidden},
		"S52 OtherPort":                  {map[string]string{"Cookie": "token=t", "Origin": "http://example.com:8080"}, "", http.StatusForbidden},
		"SameOriginPasses":               {map[string]string{"Cookie": "token=t", "Origin": "http://EXAMPLE.com"}, "", http.StatusOK},
		"OurOriginPasses":                {map[string]string{"Cookie": "token=t", "Origin": "https://console.example"}, "", http.StatusOK},
		"S52 OurOriginOverHTTP":          {map[string]string{"Cookie": "token=t", "Origin": "http://console.example"}, "", http.StatusForbidden},
		"S52 OurOriginTwice":             {map[string]string{"Cookie": "token=t", "Origin": "https://console.example, https://console.example"}, "", http.StatusForbidden},
		"AuthorizationNeedsNoOrigin":     {map[string]string{"Cookie": "token=t", "Origin": "https://console", "Authorization": "Bearer t"}, "", http.StatusOK},
		"WithoutCookieThereIsNoDanger":   {map[string]string{"Origin": "https://evil.example"}, "", http.StatusOK},
		"OtherCookiesAreNoCredentials":   {map[string]string{"Cookie": "lang=en", "Origin": "https://evil.example"}, "", http.StatusOK},
		"H2cIsIgnored":                   {map[string]string{"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings"}, "x", http.StatusOK},
		"UpgradeWithoutConnectionIsNone": {map[string]string{"Connection": "keep-alive"}, "x", http.StatusOK},
		"TwoTokensAmongProtocols":        {map[string]string{"Sec-WebSocket-Protocol": "x, " + tokenProtocol + "dA, " + tokenProtocol + "dQ"}, "", http.StatusBadRequest},
		"NoTokenAmongProtocols":          {map[string]string{"Sec-WebSocket-Protocol": "x, " + tokenProtocol}, "", http.StatusBadRequest},
		"ABrokenTokenAmongProtocols":     {map[string]string{"Sec-WebSocket-Protocol": "x, " + tokenProtocol + "d=="}, "", http.StatusBadRequest},
		"ATokenAloneAmongProtocols":      {map[string]string{"Sec-WebSocket-Protocol": tokenProtocol + "dA"}, "", http.StatusBadRequest},
		"ATokenTwiceInDifferentWays":     {map[string]string{"Sec-WebSocket-Protocol": "x, " + tokenProtocol + "dA", "Authorization": "Bearer t"}, "", http.StatusBadRequest},
		"ATokenAmongProtocolsIsNoCookie": {map[string]string{"Sec-WebSocket-Protocol": "x," + tokenProtocol + "dA", "Cookie": "token=t"}, "", http.StatusOK},
		"S24 TokenAmongOthers":           {map[string]string{"Connection": "keep-alive, UPGRADE"}, "x", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://example.com/api/v1/pods", strings.NewReader(c.body))
			r.Header.Set("Connection", "Upgrade")
			r.Header.Set("Upgrade", "websocket")
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			w := serve(h, r)
			if w.Code != c.code {
				t.Fatalf("code %d, want %d: %s", w.Code, c.code, w.Body)
			}
			if c.code != http.StatusOK {
				statusOf(t, w)
				if w.Header().Get("Connection") != "close" {
					t.Error("the connection stays open")
				}
			}
		})
	}
}

// A browser's WebSocket sends its token as a sub-protocol, which is verified as any other and goes no further.
func TestATokenAmongTheSubProtocolsIsABearerToken(t *testing.T) {
	for name, c := range map[string]struct {
		lines     []string
		upgrade   bool
		protocols string
		user      string
		code      int
	}{
		"OneLine":      {[]string{"v5.channel.k8s.io, " + tokenProtocol + "Ym9i, other"}, true, "v5.channel.k8s.io, other", "bob", 200},
		"SeveralLines": {[]string{tokenProtocol + "Ym9i", "v5.channel.k8s.io"}, true, "v5.channel.k8s.io", "bob", 200},
		"AWrongToken":  {[]string{"x", tokenProtocol + "YmFk"}, true, "", "", 401},
		"NoUpgrade":    {[]string{"x", tokenProtocol + "Ym9i"}, false, "", user.Anonymous, 200},
		"NoToken":      {[]string{"x, y"}, true, "x, y", user.Anonymous, 200},
	} {
		t.Run(name, func(t *testing.T) {
			called := false
			h := Chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				called = true
				if got := strings.Join(r.Header["Sec-Websocket-Protocol"], "|"); got != c.protocols {
					t.Errorf("the sub-protocols are %q, want %q", got, c.protocols)
				}
				if len(r.Header["Authorization"]) > 0 || request.UserFrom(r.Context()).GetName() != c.user {
					t.Errorf("the user is %v, and there is %v", request.UserFrom(r.Context()), r.Header)
				}
			}), Info, Upgrade(nil), Authentication{Authenticator: tokens}.Wrap)
			r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
			if c.upgrade {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", "websocket")
			}
			r.Header["Sec-Websocket-Protocol"] = c.lines
			if w := serve(h, r); w.Code != c.code || called != (c.code == 200) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
}

func TestAuthorizeWordsRefusalsAsKubernetesDoes(t *testing.T) {
	h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: tokens}.Wrap,
		Authorize(authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
			return authz.Decision{Group: "kapis:global:x"}, nil
		})))
	for path, want := range map[string]string{
		"/api/v1/namespaces/a/pods/p": `pods "p" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "a"`,
		"/apis/apps/v1/deployments":   `deployments.apps is forbidden: User "bob" cannot list resource "deployments" in API group "apps" at the cluster scope`,
		"/metrics":                    `forbidden: User "bob" cannot get path "/metrics"`,
		"/kapis/tenant.kubesphere.io/v1beta1/workspaces/w/namespaces": `namespaces.tenant.kubesphere.io is forbidden: User "bob" cannot list resource "namespaces" in API group "tenant.kubesphere.io" in the workspace "w"`,
		"/api/v1/namespaces/a/pods/p/log":                             `pods "p" is forbidden: User "bob" cannot get resource "pods/log" in API group "" in the namespace "a"`,
	} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer bob")
		s := statusOf(t, serve(h, r))
		if !strings.HasPrefix(s.Message, want+": ") || s.Code != 403 || s.Reason != metav1.StatusReasonForbidden {
			t.Errorf("%s:\n got %d %s %s\nwant %s", path, s.Code, s.Reason, s.Message, want)
		}
	}
}

func TestWhoHasNotLoggedInIsToldHow(t *testing.T) { // T6750-3
	who := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name := r.Header.Get("X-Name")
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
	})
	h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: who}.Wrap,
		Authorize(authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) { return authz.Decision{}, nil })))
	for name, want := range map[string]string{user.Anonymous: `Bearer realm="ks-apiserver"`, "bob": ""} {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
		r.Header.Set("X-Name", name)
		if w := serve(h, r); w.Code != http.StatusForbidden || w.Header().Get("WWW-Authenticate") != want {
			t.Errorf("%s: %d with the challenge %q", name, w.Code, w.Header().Get("WWW-Authenticate"))
		}
	}
}

func TestAuthorizerThatCannotTellRefuses(t *testing.T) {
	secret := errors.New("dial 10.1.2.3: secret")
	h := Chain(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it went on") }),
		Info, Authentication{Authenticator: tokens}.Wrap,
		Authorize(authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
			return authz.Allow("", ""), secret
		})))
	w := serve(h, httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "10.1.2.3") {
		t.Errorf("answer %d %s", w.Code, w.Body)
	}
}

func TestTheDecisionIsInTheContext(t *testing.T) {
	h := Chain(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if d := authz.DecisionFrom(r.Context()); !d.Allowed() || d.Group != "kapis:global:named" {
			t.Errorf("decision is %+v", d)
		}
	}), Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly))
	r := httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil)
	r.Header.Set("Authorization", "Bearer bob")
	serve(h, r)
}

func TestNoCORS(t *testing.T) { // S51
	h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly))
	for _, origin := range []string{"https://ks.example", "https://ks.example.evil.com", "null"} {
		for _, method := range []string{"GET", "OPTIONS"} {
			r := httptest.NewRequest(method, "/kapis/x.io/v1/things", nil)
			r.Header.Set("Origin", origin)
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Authorization", "Bearer bob")
			for k := range serve(h, r).Header() {
				if strings.HasPrefix(k, "Access-Control-") {
					t.Errorf("%s from %s is answered with %s", method, origin, k)
				}
			}
		}
	}
}

func TestMarkupInAPathIsNotEchoedAsHTML(t *testing.T) { // S59
	h := Chain(http.HandlerFunc(ok), Info, Authentication{Authenticator: tokens}.Wrap, Authorize(namedOnly))
	r := httptest.NewRequest(http.MethodGet, "/kapis/%3Cscript%3Ealert(1)%3C/script%3E", nil)
	w := serve(h, r)
	if strings.Contains(w.Body.String(), "<script") || w.Header().Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		t.Errorf("answer %d %v %s", w.Code, w.Header(), w.Body)
	}
}
