// Package oauth is the OAuth 2.0 authorization server: /oauth/* and its discovery documents. Each
// endpoint has a file, each grant has a file, and what the documents name is read off the tables that
// the endpoints and the grants stand in.
package oauth

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/token"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Options are what a Server works with.
type Options struct {
	// Issuer is the URL that tokens and discovery name as their issuer. It has no query and no fragment.
	Issuer   string
	Tokens   *token.Issuer
	Verifier *token.Verifier
	Keys     token.KeySource
	Clients  *Clients
	Sessions *session.Store
	// Entrance is where people come in, Directory the identity providers, Factors the second factors and APIKeys the
	// keys for automation.
	Entrance  *login.Authenticator
	Directory *idp.Directory
	Factors   *factor.Store
	APIKeys   *apikey.Store
	// ChangePassword sets passwords; nil where pages can't.
	ChangePassword ChangePassword
	// OtherTokens are the tokens, beside access tokens, that a TokenReview is for; nil for none.
	OtherTokens authenticator.Token
	// PasswordGrant lets the platform's own clients take people's passwords (RFC 9700, 2.4).
	PasswordGrant bool
	// CodeLife is how long an authorization code is good; 0 means DefaultCodeLife.
	CodeLife time.Duration
	// Audiences are the member clusters that access tokens are exchanged for; nil for none.
	Audiences func() []string
	// EmailVerified tells whether an identity provider has verified a user's e-mail; nil for nobody's.
	EmailVerified func(*iam.User) bool
	// Origin tells where a request comes from; nil for the address of the connection.
	Origin func(*http.Request) iam.Origin
	// Now is the clock.
	Now func() time.Time
	// Metrics gets the counters; nil for none.
	Metrics prometheus.Registerer
}

// Server answers /oauth/* and the discovery documents.
type Server struct {
	Options
	deps        *pageDeps
	limit       *limiter
	codeGuesses *limiter
	polls       *polls
	// here is who is logged in in the browser of a request: browserOf, and a stand-in in tests.
	loggedIn func(*http.Request) (*browser, error)
	results  *prometheus.CounterVec
	meta     []byte
	// wellKnown is the second path of the RFC 8414 document, where the issuer has a path.
	wellKnown string
}

// New makes a Server. It fails where the issuer is no URL that may stand in a token.
func New(o Options) (*Server, error) {
	path, err := checkIssuer(o.Issuer)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Options: o, limit: newLimiter(failuresPerSecond, failuresAtOnce), wellKnown: path,
		codeGuesses: newLimiter(rate.Every(guessPause), guessesAtOnce), polls: newPolls(),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_oauth_token_requests_total", Help: "Requests of the token endpoint, by grant and what came of it."},
			[]string{"grant", "result"}),
	}
	s.loggedIn = s.browserOf
	if s.deps, err = newPageDeps(&o); err != nil {
		return nil, fmt.Errorf("make the authorization server: %w", err)
	}
	if s.CodeLife = cmp.Or(s.CodeLife, DefaultCodeLife); s.CodeLife < 0 || s.CodeLife > MaxCodeLife {
		return nil, fmt.Errorf("make the authorization server: a code lives for %v; %v at most (RFC 6749, 4.1.2)", s.CodeLife, MaxCodeLife)
	}
	if s.meta, err = s.metadata(); err != nil {
		return nil, err
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(s.results); err != nil {
			return nil, fmt.Errorf("register metrics of the token endpoint: %w", err)
		}
	}
	return s, nil
}

// OwnsCredentials tells whether the endpoint of a path judges the credentials of a request itself, so that
// the chain neither judges nor takes them away: at the token endpoint HTTP Basic is a client's and a
// bearer token is to be ignored, pages go by a cookie of their own, and a logout with a token that is no longer good is no error.
func OwnsCredentials(path string) bool {
	switch strings.TrimSuffix(path, "/") {
	case "/oauth/authorize", "/oauth/token", "/oauth/device_authorization", "/oauth/revoke", "/oauth/introspect",
		"/oauth/authenticate", "/oauth/userinfo", "/oauth/logout":
		return true
	}
	return isPage(path)
}

// originOf tells where a request comes from.
func (s *Server) originOf(r *http.Request) iam.Origin {
	if s.Origin != nil {
		return s.Origin(r)
	}
	return iam.Origin{Source: host(r), UserAgent: r.UserAgent()}
}

// endpoint is one address of the server.
type endpoint struct {
	path    string // below /oauth
	methods []string
	meta    string // its name in the discovery documents; "" where it is in none
	// pages says that pages of clients without a secret may call it from the browser (CORS).
	pages     bool
	handle    func(*restful.Request) (any, error)
	operation string
	doc       string
}

func (s *Server) endpoints() []endpoint {
	get, post, both := []string{http.MethodGet}, []string{http.MethodPost}, []string{http.MethodGet, http.MethodPost}
	return append(s.pages(), []endpoint{
		{"/authorize", both, "authorization_endpoint", false, s.forPeople(s.authorize), "authorize",
			"ask a person to let a client in (RFC 6749, 3.1; OpenID Connect Core 1.0, 3.1.2)"},
		{"/token", post, "token_endpoint", true, s.token, "token",
			"exchange a grant for tokens (RFC 6749, 3.2); parameters as a form"},
		{"/device_authorization", post, "device_authorization_endpoint", false, s.deviceAuthorization, "device-authorization",
			"begin the login of a device (RFC 8628, 3.1)"},
		{"/revoke", post, "revocation_endpoint", true, s.revoke, "revoke",
			"end the session of a token (RFC 7009)"},
		{"/introspect", post, "introspection_endpoint", false, s.introspect, "introspect",
			"what an access token says, for clients with a secret (RFC 7662)"},
		{"/userinfo", both, "userinfo_endpoint", true, s.userinfo, "userinfo",
			"who the access token belongs to (OpenID Connect Core 1.0, 5.3)"},
		{"/keys", get, "jwks_uri", true, s.keys, "keys",
			"the public keys that tokens are verified with (RFC 7517)"},
		{"/logout", both, "end_session_endpoint", false, s.forPeople(s.logout), "logout",
			"end the session of the access token (OpenID Connect RP-Initiated Logout 1.0)"},
		{"/authenticate", post, "", false, s.authenticate, "authenticate",
			"whose a token is, as kube-apiserver's webhook asks (TokenReview of authentication.k8s.io)"},
	}...)
}

// WebServices returns the routes.
func (s *Server) WebServices() []*restful.WebService {
	ws := new(restful.WebService).Path("/oauth").Produces(restful.MIME_JSON, "*/*")
	for _, e := range s.endpoints() {
		for _, m := range e.methods {
			ws.Route(ws.Method(m).Path(e.path).To(s.route(&e)).Doc(e.doc).Operation(e.operation + "-" + strings.ToLower(m)))
		}
		if e.pages {
			s.preflights(ws, e.path, e.operation, e.methods)
		}
	}
	known := new(restful.WebService).Path("/.well-known").Produces(restful.MIME_JSON)
	discovery := endpoint{methods: []string{http.MethodGet}, pages: true, handle: s.discovery}
	paths := []string{openidPath, metadataPath}
	if s.wellKnown != "" { // RFC 8414, 3.1
		paths = append(paths, metadataPath+s.wellKnown)
	}
	for i, path := range paths {
		name := []string{"openid-configuration", "oauth-authorization-server", "oauth-authorization-server-path"}[i]
		known.Route(known.GET(path).To(s.route(&discovery)).Doc("what this authorization server offers").Operation(name))
		s.preflights(known, path, name, discovery.methods)
	}
	return []*restful.WebService{ws, known}
}

func (s *Server) preflights(ws *restful.WebService, path, operation string, methods []string) {
	h := s.preflight(strings.Join(methods, ", "))
	ws.Route(ws.Method(http.MethodOptions).Path(path).To(func(req *restful.Request, resp *restful.Response) {
		h(resp.ResponseWriter, req.Request)
	}).Doc("whether a page may call it (CORS)").Operation(operation + "-options"))
}

// route is the function of an endpoint.
func (s *Server) route(e *endpoint) restful.RouteFunction {
	h := answer(e.handle)
	if !e.pages {
		return h
	}
	return func(req *restful.Request, resp *restful.Response) {
		s.allowOrigin(resp.ResponseWriter, req.Request)
		h(req, resp)
	}
}

// answer writes what a handler returns: its errors as RFC 6749, 5.2 wants them, and all of it with the
// order not to keep it (RFC 6749, 5.1).
func answer(h func(*restful.Request) (any, error)) restful.RouteFunction {
	return func(req *restful.Request, resp *restful.Response) {
		w, r := resp.ResponseWriter, req.Request
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Pragma", "no-cache")
		v, err := h(req)
		if err == nil {
			web.Write(w, r, v, nil)
			return
		}
		var e *Error
		if !errors.As(err, &e) {
			e = failure(err)
		}
		if e.Code >= http.StatusInternalServerError {
			klog.ErrorS(err, "OAuth request failed", "method", r.Method, "path", r.URL.Path)
		} else {
			klog.V(2).InfoS("OAuth request refused", "method", r.Method, "path", r.URL.Path, "error", e.Name, "reason", err.Error())
		}
		e.write(w, r)
	}
}
