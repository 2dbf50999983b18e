package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/discovery"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/web"
)

// endpoint is one path of the server.
type endpoint struct {
	path    string // below /oauth
	methods []string
	meta    string // its name in the discovery documents; "" if they don't have it
	// pages says that pages of public clients may call it from the browser (CORS).
	pages     bool
	handle    func(*restful.Request) (any, error)
	operation string
	doc       string
}

// endpoints returns the table of all paths below /oauth.
func (s *Server) endpoints() []endpoint {
	get, post, both := []string{http.MethodGet}, []string{http.MethodPost}, []string{http.MethodGet, http.MethodPost}
	return append(s.pages(), []endpoint{
		{"/authorize", both, "authorization_endpoint", false, s.forPeople(s.onceLoaded(s.authorize.Serve)), "authorize",
			"ask a person to let a client in (RFC 6749, 3.1; OpenID Connect Core 1.0, 3.1.2)"},
		{"/token", post, "token_endpoint", true, s.tokenEndpoint.Serve, "token",
			"exchange a grant for tokens (RFC 6749, 3.2); parameters as a form"},
		{"/login/{provider}", post, "", false, s.tokenEndpoint.ServeProviderLogin, "login-at-password",
			"the password grant at an identity provider, as clients of release 3.4 ask for it; parameters as a form"},
		{"/device_authorization", post, "device_authorization_endpoint", false, s.devices.ServeAuthorization, "device-authorization",
			"begin the login of a device (RFC 8628, 3.1)"},
		{"/revoke", post, "revocation_endpoint", true, s.revocation.Serve, "revoke",
			"end the session of a token (RFC 7009)"},
		{"/introspect", post, "introspection_endpoint", false, s.introspection.Serve, "introspect",
			"what an access token says, for clients with a secret (RFC 7662)"},
		{"/userinfo", both, "userinfo_endpoint", true, s.onceLoaded(s.userInfo.Serve), "userinfo",
			"who the access token belongs to (OpenID Connect Core 1.0, 5.3)"},
		{"/keys", get, "jwks_uri", true, s.keys, "keys",
			"the public keys that tokens are verified with (RFC 7517)"},
		{"/logout", both, "end_session_endpoint", false, s.forPeople(s.onceLoaded(s.logout.Serve)), "logout",
			"end the session of the access token (OpenID Connect RP-Initiated Logout 1.0)"},
		{"/authenticate", post, "", false, s.tokenReview.Serve, "authenticate",
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
	document := endpoint{methods: []string{http.MethodGet}, pages: true,
		handle: func(*restful.Request) (any, error) { return s.metadata, nil }}
	paths := []string{discovery.OpenIDPath, discovery.MetadataPath}
	if s.issuerPath != "" { // RFC 8414, 3.1
		paths = append(paths, discovery.MetadataPath+s.issuerPath)
	}
	for i, path := range paths {
		name := []string{"openid-configuration", "oauth-authorization-server", "oauth-authorization-server-path"}[i]
		known.Route(known.GET(path).To(s.route(&document)).Doc("what this authorization server offers").Operation(name))
		s.preflights(known, path, name, document.methods)
	}
	return []*restful.WebService{ws, known}
}

// route returns the function of an endpoint, which sets the headers of CORS if pages may call it.
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

// answer returns a function that writes what a handler returns: a value, or an error response (RFC 6749, 5.2). Nothing may be cached
// (RFC 6749, 5.1).
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
		var e *protocol.Error
		if !errors.As(err, &e) {
			e = protocol.Failure(err)
		}
		if e.Code >= http.StatusInternalServerError {
			klog.ErrorS(err, "OAuth request failed", "method", r.Method, "path", r.URL.Path)
		} else {
			klog.V(2).InfoS("OAuth request refused", "method", r.Method, "path", r.URL.Path, "error", e.Name, "reason", err.Error())
		}
		e.Write(w, r)
	}
}

// pages returns the paths that users open in a browser. Each checks the browser's cookie itself.
func (s *Server) pages() []endpoint {
	get, post, both := []string{http.MethodGet}, []string{http.MethodPost}, []string{http.MethodGet, http.MethodPost}
	all := []endpoint{
		{"/login", get, "", false, s.loginPage.Serve, "login", "the page that people log in on"},
		{"/login", post, "", false, s.loginSteps.Serve, "login-step", "a step of a login"},
		{"/login/{provider}", get, "", false, s.callback.ServeLogin, "login-at", "log in at an identity provider"},
		{"/login/{provider}/login", get, "", false, s.callback.ServeCASLogin, "login-at-cas",
			"log in at an identity provider, for a client that speaks CAS"},
		{"/callback/{provider}", both, "", false, s.callback.Serve, "callback",
			"where an identity provider sends the browser back to"},
		{"/consent", post, "", false, s.authorize.ServeConsent, "consent", "what a person says to a client's request"},
		{"/device", get, "", false, s.devicePage.Serve, "device", "the page that people let a device in on (RFC 8628, 3.3)"},
		{"/device", post, "", false, s.devicePage.ServeStep, "device-step", "a step of letting a device in"},
		{"/logout/confirm", post, "", false, s.logout.ServeConfirm, "logout-confirm", "what a person says to a logout"},
		{"/account", get, "", false, s.account.Serve, "account", "a person's own page"},
		{"/account", post, "", false, s.account.ServeStep, "account-step", "a change on a person's own page"},
	}
	for i := range all {
		all[i].handle = s.forPeople(s.onceLoaded(all[i].handle))
	}
	return append(all, endpoint{"/static/{file}", get, "", false, s.forPeople(s.static), "static", "what pages look like"})
}

// forPeople returns a handler that answers browsers with a page if h fails.
func (s *Server) forPeople(h handler) handler {
	return func(req *restful.Request) (any, error) {
		v, err := h(req)
		if err == nil || !page.WantsHTML(req.Request) {
			return v, err
		}
		return nil, protocol.AsPage(s.book, err)
	}
}

// handler answers a request.
type handler = func(*restful.Request) (any, error)

// onceLoaded returns a handler that answers 503 until all clients and identity providers are known.
func (s *Server) onceLoaded(h handler) handler {
	return func(req *restful.Request) (any, error) {
		if err := s.loaded(); err != nil {
			return nil, err
		}
		return h(req)
	}
}

// loaded returns an iam.ErrUnavailable until all clients and identity providers are known: one that is not known yet does not exist for
// nobody, and a client of the configuration file may have another secret in a Secret.
func (s *Server) loaded() error {
	if s.Loaded == nil {
		return nil
	}
	if err := s.Loaded(); err != nil {
		return fmt.Errorf("%w: %w", iam.ErrUnavailable, err)
	}
	return nil
}

// static answers with a file that pages refer to. The names contain hashes of the contents.
func (s *Server) static(req *restful.Request) (any, error) {
	f := s.book.Assets().File(req.PathParameter("file"))
	if f == nil {
		return nil, protocol.Problem(http.StatusNotFound, page.Say("error.missing"), nil)
	}
	return f, nil
}

// keys answers with the public keys. They may be cached for minutes: a new key is published before it signs.
func (s *Server) keys(*restful.Request) (any, error) {
	return discovery.Document(s.Keys.KeySet().JWKS()), nil
}

// makeMetadata makes the discovery document from the tables of endpoints and grants.
func (s *Server) makeMetadata() (discovery.Document, error) {
	m := discovery.Metadata{Issuer: s.Issuer, EmailVerified: s.EmailVerified != nil, Endpoints: map[string]string{}}
	for _, e := range s.endpoints() {
		if e.meta != "" {
			m.Endpoints[e.meta] = "/oauth" + e.path
		}
	}
	for _, g := range s.tokenEndpoint.Grants() {
		m.Grants = append(m.Grants, g.Name)
	}
	return m.Document()
}

// OwnsCredentials reports whether the endpoint of a path checks a request's credentials itself, so that the filters ignore them: the
// token endpoint takes HTTP Basic of clients and ignores bearer tokens, pages have a cookie of their own, and a logout with an
// expired token is no error.
func OwnsCredentials(path string) bool {
	switch strings.TrimSuffix(path, "/") {
	case "/oauth/authorize", "/oauth/token", "/oauth/device_authorization", "/oauth/revoke", "/oauth/introspect",
		"/oauth/authenticate", "/oauth/userinfo", "/oauth/logout":
		return true
	}
	return isPage(path)
}

// isPage reports whether a path is that of a page.
func isPage(path string) bool {
	switch path = strings.TrimPrefix(path, "/oauth/"); strings.TrimSuffix(path, "/") {
	case "login", "consent", "device", "logout/confirm", "account":
		return true
	}
	below, _, found := strings.Cut(path, "/")
	return found && (below == "login" || below == "callback" || below == "static")
}
