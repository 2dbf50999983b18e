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
	// Path is exact. One that ends in "/*" stands for what is below it, and not for itself.
	Path string
	// Methods are in lower case; get stands for head as well.
	Methods []string
	// Authenticated leaves out anonymous callers.
	Authenticated bool
}

// DefaultPaths returns the paths that this server opens: what a person needs before the login, what
// a load balancer and a kubelet ask for, and, to whoever is logged in, what says how the API looks.
// Each of them answers by itself: none is passed on to kube-apiserver under the server's own identity
// for somebody who is not logged in.
func DefaultPaths() []Path {
	get, form := []string{"get"}, []string{"get", "post"}
	// What pages call from the browser is asked with OPTIONS first (WHATWG Fetch, 3.2.2).
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
		// The pages: each judges the browser's cookie itself.
		{Path: "/oauth/login", Methods: form},
		{Path: "/oauth/login/*", Methods: get},
		{Path: "/oauth/callback/*", Methods: form},
		{Path: "/oauth/consent", Methods: form[1:]},
		{Path: "/oauth/device", Methods: form},
		{Path: "/oauth/logout/confirm", Methods: form[1:]},
		{Path: "/oauth/account", Methods: form},
		{Path: "/oauth/static/*", Methods: get},
		{Path: "/.well-known/openid-configuration", Methods: getPages},
		{Path: "/.well-known/oauth-authorization-server", Methods: getPages},
		{Path: "/.well-known/oauth-authorization-server/*", Methods: getPages}, // of an issuer with a path (RFC 8414, 3.1)
		{Path: "/static/images", Methods: form[1:], Authenticated: true},       // it asks itself for the right to the theme
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

// Paths allows the paths of the table, and no resource whatever its path.
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

// isAuthenticated asks for the group that an authenticator gives, so that it is false for a user of
// whom nothing is known.
func isAuthenticated(u user.Info) bool {
	return u != nil && u.GetName() != "" && u.GetName() != user.Anonymous && slices.Contains(u.GetGroups(), user.AllAuthenticated)
}
