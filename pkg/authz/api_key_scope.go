package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

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
