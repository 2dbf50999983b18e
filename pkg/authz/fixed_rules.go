package authz

import (
	"context"
	"fmt"
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

// ExtraScope is the key of a user.Info's extra that restricts what a request's credential may do, where that is less than its user may
// do. Its known values are ScopeRead, and ScopeCluster with the name of a member cluster after it.
const (
	ExtraScope   = "authentication.kapis.dev/scope"
	ScopeRead    = "read"
	ScopeCluster = "cluster:"
)

// ClusterOf returns the member cluster that a user's credential is restricted to, "" for none.
func ClusterOf(u user.Info) string {
	if scopes := u.GetExtra()[ExtraScope]; len(scopes) == 1 {
		if name, is := strings.CutPrefix(scopes[0], ScopeCluster); is {
			return name
		}
	}
	return ""
}

// RestrictAPIKeys denies what the scope of an API key does not cover, whatever its user may do, and has no opinion on the rest. An
// unknown scope covers nothing. It is the first authorizer: paths that are open to everyone are restricted too.
//
// The scope "read" covers get, list and watch of resources, and GET and HEAD of other paths; not GETs that act (exec, attach,
// port-forward, proxies), nor upgrades other than those of watches. It also covers a review of the caller's own rights, which writes
// nothing. That of a cluster covers what is asked of that member cluster.
func RestrictAPIKeys(_ context.Context, u user.Info, r *request.Info) (Decision, error) {
	if u == nil || r == nil {
		return Decision{}, nil
	}
	scopes, ok := u.GetExtra()[ExtraScope]
	switch {
	case !ok:
	case ClusterOf(u) != "":
		if r.Cluster != ClusterOf(u) {
			return Deny(fmt.Sprintf("the credential is for the cluster %.64q only", ClusterOf(u))), nil
		}
	case len(scopes) != 1 || scopes[0] != ScopeRead:
		return Deny(fmt.Sprintf("the API key has the scope %.64q, which is unknown here and opens nothing", scopes)), nil
	case !reads(r):
		return Deny("the API key is for reading only"), nil
	}
	return Decision{}, nil
}

// acting are the subresources that act in a container, or through a proxy, with any method.
func acting() []string {
	return []string{"exec", "attach", "portforward", "proxy"}
}

func reads(r *request.Info) bool {
	switch {
	case r.Upgrade && (!r.IsResource || r.Verb != "watch" && r.Verb != "list"), r.IsProxied():
		return false
	case !r.IsResource:
		return r.Verb == "get" || r.Verb == "head"
	case r.Verb == "create":
		return r.Resource == "subjectaccessreviews" && r.APIGroup == groupIAM && !r.IsKubernetes && r.Name == "" && r.Subresource == "" &&
			r.Namespace == "" && r.Workspace == ""
	}
	return (r.Verb == "get" || r.Verb == "list" || r.Verb == "watch") && !slices.Contains(acting(), r.Subresource)
}

// AlwaysAllow allows everything to all users who are logged in: it is the mode of that name. kube-apiserver still decides by the caller's
// own rights there.
func AlwaysAllow() Authorizer {
	return Func(func(_ context.Context, u user.Info, _ *request.Info) (Decision, error) {
		if !isAuthenticated(u) {
			return Decision{Reason: "log in first"}, nil
		}
		return Allow("the authorization mode is AlwaysAllow", ""), nil
	})
}

// AlwaysDeny denies everything to everyone: it is the mode of that name.
func AlwaysDeny() Authorizer {
	return Func(func(context.Context, user.Info, *request.Info) (Decision, error) {
		return Deny("the authorization mode is AlwaysDeny"), nil
	})
}
