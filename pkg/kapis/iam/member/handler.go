// Package member serves the members of workspaces, namespaces and the cluster: the users whom a binding there names by name.
//
// A user who has a role through a group is no member, since such a user can't be removed from one scope alone.
package member

import (
	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/removal"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler serves the members of workspaces, namespaces and the cluster.
type Handler struct {
	Users     *iam.UserIndex
	Resources *resource.Service
	Bindings  *binding.Service
	Removals  *removal.Remover
	// Fleet says that this cluster is a member of a fleet, whose hub has the users: one is known here once something names them.
	Fleet bool
}

// Mount adds the routes of members at all scopes; older is put into the names of their operations.
func (h *Handler) Mount(ws *restful.WebService, older string) {
	for _, l := range []*binding.Scope{&binding.Cluster, &binding.Workspace, &binding.Namespace} {
		h.mountAs(ws, l, l.PathPrefix+"/"+l.MemberResource, older+l.RoleKind+"Members")
	}
	if older != "" {
		h.mountAs(ws, &binding.Namespace, binding.Namespace.PathPrefix+"/"+authz.LegacyMembers, "Members")
	}
}

func (h *Handler) mountAs(ws *restful.WebService, l *binding.Scope, path, id string) {
	list := ws.GET(path).To(web.Handle(h.listMembers(l))).Operation("list" + id).
		Doc("The users who have a role here, each with the annotation that tells which; filtered, sorted, one page").
		Param(ws.QueryParameter(l.RoleParam, "only those who have this role"))
	for _, p := range resource.Parameters() {
		list.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
	}
	add := ws.POST(path).To(web.Handle(h.addMembers(l))).Operation("add" + id).
		Doc("Give each of some users a role here, in place of those that they have here; nothing is done if one of them can't be")
	one := path + "/{member}"
	get := ws.GET(one).To(web.Handle(h.getMember(l))).Operation("get" + id).Doc("A member")
	put := ws.PUT(one).To(web.Handle(h.changeMember(l))).Operation("replace" + id).Doc("Give a member another role")
	remove := ws.DELETE(one).To(web.Handle(h.removeMember(l))).Operation("delete" + id).Doc("Take all roles here from a user")
	for _, b := range []*restful.RouteBuilder{list, add, get, put, remove} {
		if l.PathPrefix != "" {
			b.Param(ws.PathParameter(l.NameParam, "name of the "+l.NameParam))
		}
	}
	for _, b := range []*restful.RouteBuilder{get, put, remove} {
		b.Param(ws.PathParameter("member", "name of the user"))
	}
	for _, b := range []*restful.RouteBuilder{list, add, get, put, remove} {
		ws.Route(b)
	}
}

// listMembers lists Users with the parameters of the list of users. It counts members: a binding to a deleted user counts no one, and
// one who is bound twice is listed once.
func (h *Handler) listMembers(l *binding.Scope) web.Handler {
	return func(r *restful.Request) (any, error) {
		at, err := h.scopeOf(r, l)
		if err != nil {
			return nil, err
		}
		values := r.Request.URL.Query()
		// Which roles members have at other scopes is a question about users, which needs the right to list them.
		for _, other := range []*binding.Scope{&binding.Platform, &binding.Cluster, &binding.Workspace, &binding.Namespace} {
			if other != l {
				values.Del(other.RoleParam)
			}
			values.Del(other.NameParam)
		}
		values.Del("managedFields")
		values.Set(l.NameParam, l.Value(at))
		q, err := query.Parse(values)
		if err != nil {
			return nil, err
		}
		ctx := r.Request.Context()
		kind, err := h.Resources.Catalog().Resolve(ctx, wire.Resource("users"))
		if err != nil {
			return nil, err
		}
		page, err := h.Resources.List(ctx, kind, plan.Scope{}, q)
		if err != nil {
			return nil, err
		}
		asked := values.Get(l.RoleParam)
		return page.Annotated(l.Annotation, func(name string) string { return h.Bindings.RoleAt(name, at, asked) }).Items(), nil
	}
}

func (h *Handler) getMember(l *binding.Scope) web.Handler {
	return func(r *restful.Request) (any, error) {
		name := r.PathParameter("member")
		at := scopeNamed(r, l)
		ctx, role := r.Request.Context(), h.Bindings.RoleAt(name, at, "")
		if by := request.UserFrom(ctx); role == "" && by != nil && by.GetName() == name {
			return nil, removal.NotMember(name, at.String()) // everyone may ask this about themselves: it must not show which scopes exist
		}
		if err := h.Bindings.Exists(ctx, at); err != nil {
			return nil, err
		}
		if role == "" {
			return nil, removal.NotMember(name, at.String())
		}
		kind, err := h.Resources.Catalog().Resolve(ctx, wire.Resource("users"))
		if err != nil {
			return nil, err
		}
		o, err := h.Resources.Get(ctx, kind, plan.Scope{}, name)
		if apierrors.IsNotFound(err) {
			return nil, removal.NotMember(name, at.String())
		}
		if err != nil {
			return nil, err
		}
		return wire.Private{Value: o.Annotated(l.Annotation, role)}, nil
	}
}

// scopeOf returns the scope that the path names. It is a 404 if the scope does not exist.
func (h *Handler) scopeOf(r *restful.Request, l *binding.Scope) (authz.BindingScope, error) {
	at := scopeNamed(r, l)
	return at, h.Bindings.Exists(r.Request.Context(), at)
}

// scopeNamed is scopeOf for scopes that need not exist.
func scopeNamed(r *restful.Request, l *binding.Scope) authz.BindingScope {
	return authz.BindingScope{Scope: l.Kind, Workspace: r.PathParameter("workspace"), Namespace: r.PathParameter("namespace")}
}
