package lite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/delegated"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// decisions are the cluster's kube-apiserver's.
type decisions struct {
	reviewer *delegated.Reviewer
	catalog  *store.Catalog
}

// Authorize implements authz.Authorizer.
func (d *decisions) Authorize(ctx context.Context, u user.Info, r *request.Info) (authz.Decision, error) {
	if refusal, err := authz.RestrictAPIKeys(ctx, u, r); err != nil || refusal.Denied() {
		return refusal, err
	}
	if u == nil || r == nil || !slices.Contains(u.GetGroups(), user.AllAuthenticated) {
		return authz.Decision{}, nil
	}
	if !r.IsResource {
		if (r.Verb == "get" || r.Verb == "head") && isDescription(r.Path) {
			return authz.Allow("users may know what can be asked for", ""), nil
		}
		return authz.Decision{Reason: "the cluster runs no program of ours, which alone has such a path"}, nil
	}
	what, known := d.attributes(r)
	if !known {
		return authz.Decision{Reason: "the cluster has no such kind"}, nil
	}
	ok, err := d.reviewer.Allowed(ctx, u, what)
	if err != nil || !ok {
		return authz.Decision{Reason: fmt.Sprintf("the roles of the cluster's own RBAC decide, and none allows to %s %s of the API group %q",
			what.Verb, strings.TrimSuffix(what.Resource+"/"+what.Subresource, "/"), what.Group)}, err
	}
	return authz.Allow("the cluster's kube-apiserver allows it", ""), nil
}

// attributes returns what kube-apiserver is asked for: of a resource by its name alone, the kind that it means.
func (d *decisions) attributes(r *request.Info) (what authorizationv1.ResourceAttributes, known bool) {
	gr := schema.GroupResource{Group: r.APIGroup, Resource: r.Resource}
	version := r.APIVersion
	if gr.Group == resources.Group && !r.IsKubernetes {
		if gr, known = d.catalog.GroupOf(r.Resource); !known {
			return what, false
		}
		version = "*"
	}
	what = authorizationv1.ResourceAttributes{Verb: r.Verb, Group: gr.Group, Version: version, Resource: gr.Resource,
		Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}
	if gr.Group == "" && gr.Resource == "namespaces" && r.Name != "" {
		what.Namespace = r.Name // as kube-apiserver asks for a namespace: roles in it count
	}
	return what, r.Workspace == ""
}

// isDescription reports whether a path says what there is, and shows no object.
func isDescription(path string) bool {
	switch path {
	case "/api", "/apis", "/kapi", "/kapis", "/version", "/kapis/version":
		return true
	}
	return slices.ContainsFunc([]string{"/api/", "/apis/", "/kapi/", "/kapis/", "/openapi/"}, func(root string) bool {
		return strings.HasPrefix(path, root)
	})
}
