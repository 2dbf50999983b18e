// Package oauth is the OAuth 2.0 authorization server: /oauth/* and its discovery documents. Each
// endpoint has a file, each grant has a file, and what the documents name is read off the tables that
// the endpoints and the grants stand in.
package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/token"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Options are what a Server works with.
type Options struct {
	// Issuer is the URL that tokens and discovery name as their issuer. It has no query and no fragment.
	Issuer    string
	Tokens    *token.Issuer
	Verifier  *token.Verifier
	Keys      token.KeySource
	Clients   *Clients
	Passwords *iam.Passwords
	Sessions  *iam.Sessions
	// Entrance is where people come in, Directory the identity providers, Factors the second factors and APIKeys the
	// keys for automation.
	Entrance  *iam.Entrance
	Directory *idp.Directory
	Factors   *iam.Factors
	APIKeys   *iam.APIKeys
	// Providers check the passwords of users whom others vouch for; nil where there are none.
	Providers Providers
	// Now is the clock.
	Now func() time.Time
	// Metrics gets the counters; nil for none.
	Metrics prometheus.Registerer
}

// Server answers /oauth/* and the discovery documents.
type Server struct {
	Options
	limit   *limiter
	results *prometheus.CounterVec
	meta    []byte
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
		Options: o, limit: newLimiter(), wellKnown: path,
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ks_oauth_token_requests_total", Help: "Requests of the token endpoint, by grant and what came of it."},
			[]string{"grant", "result"}),
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

// OwnsCredentials tells whether the endpoint of a path judges the Authorization header itself, so that
// the chain neither judges it nor takes it away: at the token endpoint HTTP Basic is a client's and a
// bearer token is to be ignored, and a logout with a token that is no longer good is no error.
func OwnsCredentials(path string) bool {
	switch strings.TrimSuffix(path, "/") {
	case "/oauth/token", "/oauth/userinfo", "/oauth/logout":
		return true
	}
	return false
}

// endpoint is one address of the server.
type endpoint struct {
	path      string // below /oauth
	methods   []string
	meta      string // its name in the discovery documents
	handle    func(*restful.Request) (any, error)
	operation string
	doc       string
}

func (s *Server) endpoints() []endpoint {
	return []endpoint{
		{"/token", []string{http.MethodPost}, "token_endpoint", s.token, "token",
			"exchange a grant for tokens (RFC 6749, 3.2); parameters as a form"},
		{"/userinfo", []string{http.MethodGet, http.MethodPost}, "userinfo_endpoint", s.userinfo, "userinfo",
			"who the access token belongs to (OpenID Connect Core 1.0, 5.3)"},
		{"/keys", []string{http.MethodGet}, "jwks_uri", s.keys, "keys",
			"the public keys that tokens are verified with (RFC 7517)"},
		{"/logout", []string{http.MethodGet, http.MethodPost}, "end_session_endpoint", s.logout, "logout",
			"end the session of the access token (OpenID Connect RP-Initiated Logout 1.0)"},
	}
}

// WebServices returns the routes.
func (s *Server) WebServices() []*restful.WebService {
	ws := new(restful.WebService).Path("/oauth").Produces(restful.MIME_JSON)
	for _, e := range s.endpoints() {
		for _, m := range e.methods {
			ws.Route(ws.Method(m).Path(e.path).To(answer(e.handle)).Doc(e.doc).Operation(e.operation + "-" + strings.ToLower(m)))
		}
	}
	known := new(restful.WebService).Path("/.well-known").Produces(restful.MIME_JSON)
	for _, path := range []string{openidPath, metadataPath} {
		known.Route(known.GET(path).To(answer(s.discovery)).Doc("what this authorization server offers").Operation(strings.Trim(path, "/")))
	}
	if s.wellKnown != "" {
		known.Route(known.GET(metadataPath + s.wellKnown).To(answer(s.discovery)).
			Doc("what this authorization server offers (RFC 8414, 3.1)").Operation("oauth-authorization-server-path"))
	}
	return []*restful.WebService{ws, known}
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
