package tenant

import (
	"context"
	"slices"
	"strconv"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/tenant"
	"kapis.dev/ks-apiserver/pkg/web"
)

// roleBindingExists is the parameter that adds to a list of clusters those where the caller is bound in a workspace or a namespace, and
// those that are open to every workspace.
const roleBindingExists = "roleBindingExists"

// list answers a list of a kind: a page, a live page, or a watch.
func (h *Handler) list(gvr schema.GroupVersionResource) web.Handler {
	return func(r *restful.Request) (any, error) {
		ctx := r.Request.Context()
		scope := plan.Scope{Workspace: r.PathParameter("workspace"), PartialList: authz.DecisionFrom(ctx).PartialList()}
		q, err := parse(r)
		if err != nil {
			return nil, err
		}
		// A value that parse refused does not come here.
		if bound, _ := strconv.ParseBool(r.QueryParameter(roleBindingExists)); !bound {
			if scope.PartialList, err = h.listed(ctx, gvr, scope.PartialList); err != nil {
				return nil, err
			}
		}
		kind, err := h.Resources.Catalog().Resolve(ctx, gvr)
		if err != nil {
			return nil, err
		}
		return h.Resources.Answer(r.Request, &resource.Listing{
			Kind: kind, Scope: scope, Query: q, Watch: request.InfoFrom(ctx).Verb == "watch",
			Streams: h.Streams, AsCaller: h.AsCaller, Form: resource.Items,
		})
	}
}

// listed returns the partial list of a kind, of which clusters are only those that the caller has a role in: pages take each cluster in
// this list for one that the caller can open.
func (h *Handler) listed(ctx context.Context, gvr schema.GroupVersionResource, seen *authz.PartialList) (*authz.PartialList, error) {
	if gvr != clustersKind || seen == nil || h.Granted == nil {
		return seen, nil
	}
	names, err := h.Granted(ctx, request.UserFrom(ctx))
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(seen.Names, name) })
	return authz.NewOwnPartialList(nil, nil, names), nil
}

// whole answers a list that is restricted to what was asked for, and so is no partial one. It is not streamed.
func (h *Handler) whole(r *restful.Request, gvr schema.GroupVersionResource, scope plan.Scope) (any, error) {
	ctx := r.Request.Context()
	q, err := parse(r)
	if err != nil {
		return nil, err
	}
	if live, err := h.Resources.Streams.IsLive(q); err != nil || live {
		return nil, apierrors.NewBadRequest("this list is not streamed: leave view=live out")
	}
	kind, err := h.Resources.Catalog().Resolve(ctx, gvr)
	if err != nil {
		return nil, err
	}
	return h.Resources.Answer(r.Request, &resource.Listing{
		Kind: kind, Scope: scope, Query: q, AsCaller: h.AsCaller, Whole: true, Form: resource.Items,
	})
}

// parse reads the query of a list.
func parse(r *restful.Request) (*query.Query, error) {
	values := r.Request.URL.Query()
	if v := values.Get(roleBindingExists); v != "" {
		if _, err := strconv.ParseBool(v); err != nil {
			return nil, query.Invalid(roleBindingExists, v, "true or false")
		}
	}
	return query.Parse(values)
}

// get answers one object; a namespace only where it is in the workspace of the path.
func (h *Handler) get(gvr schema.GroupVersionResource) web.Handler {
	return func(r *restful.Request) (any, error) {
		ctx, scope, name := r.Request.Context(), plan.Scope{}, r.PathParameter("workspace")
		if gvr == namespacesKind {
			scope.Workspace, name = name, r.PathParameter("namespace")
		}
		kind, err := h.Resources.Catalog().Resolve(ctx, gvr)
		if err != nil {
			return nil, err
		}
		return h.Resources.Get(ctx, kind, scope, name)
	}
}

// placed answers the clusters of a workspace.
func (h *Handler) placed(r *restful.Request) (any, error) {
	ctx, workspace := r.Request.Context(), r.PathParameter("workspace")
	kind, err := h.Resources.Catalog().Resolve(ctx, templatesKind)
	if err != nil {
		return nil, err
	}
	template, err := h.Resources.Get(ctx, kind, plan.Scope{}, workspace)
	if err != nil {
		return nil, err
	}
	names, err := h.Fleet.Placed(ctx, template.JSON.String())
	if err != nil {
		return nil, err
	}
	return h.whole(r, clustersKind, plan.Scope{PartialList: authz.NewOwnPartialList(nil, nil, names)})
}

// memberNamespaces answers the namespaces of a workspace that one of its members sees.
func (h *Handler) memberNamespaces(r *restful.Request) (any, error) {
	ctx, workspace, member := r.Request.Context(), r.PathParameter("workspace"), r.PathParameter("workspacemember")
	d, err := h.AsCaller.May.Authorize(ctx, h.member(member), request.ListOf(tenant.Group, V1beta1, "namespaces", workspace))
	if err != nil {
		return nil, err
	}
	scope := plan.Scope{Workspace: workspace}
	if !d.Allowed() {
		if scope.PartialList = d.PartialList(); scope.PartialList == nil {
			scope.PartialList = authz.NewOwnPartialList(nil, nil, nil)
		}
	}
	return h.whole(r, namespacesKind, scope)
}

// member returns a member as an authorizer sees them; for a name without a user, what is bound to the name counts.
func (h *Handler) member(name string) user.Info {
	if u := h.UserOf(name); u != nil {
		return u
	}
	return &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
}
