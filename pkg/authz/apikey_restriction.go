package authz

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// ExtraScope is the key of a user.Info's extra that restricts what a request's credential may do, where that is less than its user may
// do. ScopeRead is the only known value.
const (
	ExtraScope = "authentication.kapis.dev/scope"
	ScopeRead  = "read"
)

// RestrictAPIKeys denies what the scope of an API key does not cover, whatever its user may do, and has no opinion on the rest. An
// unknown scope covers nothing. It is the first authorizer: paths that are open to everyone are restricted too.
//
// The scope "read" covers get, list and watch of resources, and GET and HEAD of other paths; not GETs that act (exec, attach,
// port-forward, proxies), nor upgrades other than those of watches. It also covers a review of the caller's own rights, which writes
// nothing.
func RestrictAPIKeys(_ context.Context, u user.Info, r *request.Info) (Decision, error) {
	if u == nil || r == nil {
		return Decision{}, nil
	}
	scopes, ok := u.GetExtra()[ExtraScope]
	switch {
	case !ok:
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
