package lite

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	authnfleet "kapis.dev/ks-apiserver/pkg/authn/fleet"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/delegated"
	"kapis.dev/ks-apiserver/pkg/filter"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/web"
)

// people authenticates the users whom the hub names, in those of their groups that the cluster's administrator lets count.
type people struct {
	authnfleet.Authenticator
	groups []string // sorted
}

// AuthenticateRequest implements authenticator.Request.
func (p *people) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	got, ok, err := p.Authenticator.AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, false, err
	}
	u := got.User
	var groups []string
	for _, g := range u.GetGroups() {
		if _, counts := slices.BinarySearch(p.groups, g); counts || g == user.AllAuthenticated {
			groups = append(groups, g)
		}
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: groups, Extra: u.GetExtra()}}, true, nil
}

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

// missing answers requests for what only our programs have, in a cluster without them. A kind that the cluster has is served all the same.
func missing(name string, catalog *store.Catalog) filter.Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			info := request.InfoFrom(r.Context())
			byName := info != nil && info.APIGroup == resources.Group && info.APIVersion == "v1alpha3" && isKind(catalog, info)
			if info == nil || info.IsKubernetes || !isOurs(info) || byName {
				next.ServeHTTP(w, r)
				return
			}
			if _, found := catalog.Preferred(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}); found {
				next.ServeHTTP(w, r)
				return
			}
			web.WriteError(w, r, status.Errorf(http.StatusNotImplemented, "the cluster %q is served by its kube-apiserver alone: no program of ours"+
				" runs there, so it has no %s; /api, /apis, and lists of its own kinds work", name, info.Path))
		})
	}
}

// isKind reports whether a request by a plural name alone is for a kind that the cluster has.
func isKind(catalog *store.Catalog, i *request.Info) bool {
	_, known := catalog.GroupOf(i.Resource)
	return known
}

// isOurs reports whether a request is for a group, or a path, that only our programs have.
func isOurs(i *request.Info) bool {
	if !i.IsResource {
		return !isDescription(i.Path)
	}
	return i.Workspace != "" || i.APIGroup == "kubesphere.io" || strings.HasSuffix(i.APIGroup, ".kubesphere.io") ||
		strings.HasSuffix(i.APIGroup, ".kapis.dev")
}
