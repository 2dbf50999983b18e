package authz

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Path is a path that needs no role.
type Path struct {
	// Path is exact. One that ends in "/*" stands for the paths below it, and not for itself.
	Path string
	// Methods are in lower case; get stands for head as well.
	Methods []string
	// Authenticated leaves out anonymous callers.
	Authenticated bool
}

// DefaultPaths returns the paths that this server opens: those that are needed before the login, those that load balancers and kubelets
// ask for, and, for users who are logged in, the OpenAPI documents. The server answers each of them itself: none is passed on to
// kube-apiserver under the server's own identity for a caller who is not logged in.
func DefaultPaths() []Path {
	get, form := []string{"get"}, []string{"get", "post"}
	// Browsers send OPTIONS first for requests that scripts of pages make (WHATWG Fetch, 3.2.2).
	getPages, formPages := []string{"get", "options"}, []string{"get", "post", "options"}
	return []Path{
		{Path: "/oauth/authorize", Methods: form},
		{Path: "/oauth/token", Methods: formPages}, // it answers GET itself, with 405 (RFC 6749, 3.2)
		{Path: "/oauth/device_authorization", Methods: form},
		{Path: "/oauth/revoke", Methods: formPages},
		{Path: "/oauth/introspect", Methods: form},
		{Path: "/oauth/authenticate", Methods: form},
		{Path: "/oauth/userinfo", Methods: formPages},
		{Path: "/oauth/keys", Methods: getPages},
		{Path: "/oauth/logout", Methods: form},
		// Each login page verifies the browser's cookie itself.
		{Path: "/oauth/login", Methods: form},
		{Path: "/oauth/login/*", Methods: form},
		{Path: "/oauth/callback/*", Methods: form},
		{Path: "/oauth/consent", Methods: form[1:]},
		{Path: "/oauth/device", Methods: form},
		{Path: "/oauth/logout/confirm", Methods: form[1:]},
		{Path: "/oauth/account", Methods: form},
		{Path: "/oauth/static/*", Methods: get},
		{Path: "/.well-known/openid-configuration", Methods: getPages},
		{Path: "/.well-known/oauth-authorization-server", Methods: getPages},
		{Path: "/.well-known/oauth-authorization-server/*", Methods: getPages}, // of an issuer with a path (RFC 8414, 3.1)
		{Path: "/static/images", Methods: form[1:], Authenticated: true},       // it authorizes writes of the theme itself
		// Members prove who they are by a join token, or within the link, and so do the other replicas of a hub.
		{Path: "/fleet/join", Methods: form[1:]},
		{Path: "/fleet/links/*", Methods: get},
		{Path: "/fleet/replicas", Methods: get},
		{Path: "/fleet/direct", Methods: get},
		{Path: "/dist/*", Methods: get}, // files of pages, which load them before the login
		{Path: "/version", Methods: get},
		{Path: "/healthz", Methods: get},
		{Path: "/healthz/*", Methods: get},
		{Path: "/livez", Methods: get},
		{Path: "/livez/*", Methods: get},
		{Path: "/readyz", Methods: get},
		{Path: "/readyz/*", Methods: get},
		{Path: "/openapi/v2", Methods: get, Authenticated: true},
		{Path: "/openapi/v3", Methods: get, Authenticated: true},
		{Path: "/openapi/v3/*", Methods: get, Authenticated: true},
	}
}

// Paths allows the paths of the table; it never allows a resource.
func Paths(table []Path) Authorizer {
	p := paths{exact: make(map[string]Path, len(table))}
	for _, row := range table {
		if prefix, ok := strings.CutSuffix(row.Path, "*"); ok {
			row.Path = prefix
			p.below = append(p.below, row)
			continue
		}
		p.exact[row.Path] = row
	}
	return p
}

type paths struct {
	exact map[string]Path
	below []Path // their Path ends in a slash
}

func (p paths) Authorize(_ context.Context, u user.Info, r *request.Info) (Decision, error) {
	if r == nil || r.IsResource || r.IsKubernetes {
		return Decision{}, nil
	}
	row, ok := p.find(r.Path)
	if !ok || !row.allows(r.Verb) {
		return Decision{}, nil
	}
	if row.Authenticated && !isAuthenticated(u) {
		return Decision{Reason: "log in first"}, nil
	}
	return Allow("the path is open", ""), nil
}

func (p paths) find(path string) (Path, bool) {
	if row, ok := p.exact[path]; ok {
		return row, true
	}
	for _, row := range p.below {
		if len(path) > len(row.Path) && strings.HasPrefix(path, row.Path) {
			return row, true
		}
	}
	return Path{}, false
}

func (p Path) allows(verb string) bool {
	if verb == "head" {
		verb = "get"
	}
	return slices.Contains(p.Methods, verb)
}

// isAuthenticated reports whether u has the group that authenticators add. It is false for an unknown user.
func isAuthenticated(u user.Info) bool {
	return u != nil && u.GetName() != "" && u.GetName() != user.Anonymous && slices.Contains(u.GetGroups(), user.AllAuthenticated)
}
