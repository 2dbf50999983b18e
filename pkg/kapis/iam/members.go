package iam

import (
	"fmt"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Members are the users whom a binding in a place names by their own names. Who is in a group that is bound has the group's rights and is no
// member for that: he can't be taken out of the place one by one.

// mountMembers adds the routes of the members of every place.
func (h *V1beta1) mountMembers(ws *restful.WebService, older string) {
	for _, l := range []*level{&inCluster, &inWorkspace, &inNamespace} {
		h.mountMembersAs(ws, l, l.at+"/"+l.members, older+l.role+"Members")
	}
	if older != "" {
		h.mountMembersAs(ws, &inNamespace, inNamespace.at+"/"+authz.OlderMembers, "Members")
	}
}

func (h *V1beta1) mountMembersAs(ws *restful.WebService, l *level, path, id string) {
	list := ws.GET(path).To(web.Handle(h.listMembers(l))).Operation("list" + id).
		Doc("The users who have a role here, each with the annotation that tells which; filtered, sorted, one page").
		Param(ws.QueryParameter(l.param, "only those who have this role"))
	for _, p := range resource.Parameters() {
		list.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
	}
	add := ws.POST(path).To(web.Handle(h.addMembers(l))).Operation("add" + id).
		Doc("Give each of some users a role here, in the place of those that he has here; nothing is done if one of them can't be")
	one := path + "/{member}"
	get := ws.GET(one).To(web.Handle(h.getMember(l))).Operation("get" + id).Doc("A member")
	put := ws.PUT(one).To(web.Handle(h.changeMember(l))).Operation("replace" + id).Doc("Give a member another role")
	remove := ws.DELETE(one).To(web.Handle(h.removeMember(l))).Operation("delete" + id).Doc("Take all roles here from a user")
	for _, b := range []*restful.RouteBuilder{list, add, get, put, remove} {
		if l.at != "" {
			b.Param(ws.PathParameter(l.place, "name of the "+l.place))
		}
	}
	for _, b := range []*restful.RouteBuilder{get, put, remove} {
		b.Param(ws.PathParameter("member", "name of the user"))
	}
	for _, b := range []*restful.RouteBuilder{list, add, get, put, remove} {
		ws.Route(b)
	}
}

// mountMemberRoles adds the routes by which older clients ask what a member is.
func (h *V1beta1) mountMemberRoles(ws *restful.WebService) {
	for _, m := range []struct {
		*level
		members string
	}{
		{&inCluster, inCluster.members}, {&inWorkspace, inWorkspace.members}, {&inNamespace, inNamespace.members}, {&inNamespace, authz.OlderMembers},
	} {
		get := ws.GET(m.at + "/" + m.members + "/{member}/" + m.roles).To(web.Handle(h.memberRoles(m.level))).
			Operation("listOlder" + strings.ToUpper(m.members[:1]) + m.members[1:] + "Roles").Doc("The roles that a user has here, those of his groups too").
			Param(ws.PathParameter("member", "name of the user"))
		if m.at != "" {
			get.Param(ws.PathParameter(m.place, "name of the "+m.place))
		}
		ws.Route(get)
	}
}

// listMembers lists Users as the list of users does. What it counts are members: a binding to a user who is gone counts nobody, and one who is
// bound twice is there once (U52).
func (h *V1beta1) listMembers(l *level) web.Handler {
	return func(r *restful.Request) (any, error) {
		at, err := h.placeOf(r, l, "list", "")
		if err != nil {
			return nil, err
		}
		values := r.Request.URL.Query()
		// Who else is what elsewhere is a question about users, which needs the right to list them.
		for _, other := range []*level{&platform, &inCluster, &inWorkspace, &inNamespace} {
			if other != l {
				values.Del(other.param)
			}
			values.Del(other.place)
		}
		values.Del("managedFields")
		values.Set(l.place, l.value(at))
		q, err := query.Parse(values)
		if err != nil {
			return nil, err
		}
		ctx := r.Request.Context()
		kind, err := h.Resources.Catalog().Resolve(ctx, resourceOf("users"))
		if err != nil {
			return nil, err
		}
		page, err := h.Resources.List(ctx, kind, resource.Scope{}, q)
		if err != nil {
			return nil, err
		}
		asked := values.Get(l.param)
		return page.Annotated(l.annotation, func(name string) string { return h.roleAt(name, at, asked) }).Items(), nil
	}
}

func (h *V1beta1) getMember(l *level) web.Handler {
	return func(r *restful.Request) (any, error) {
		name := r.PathParameter("member")
		at, err := namedPlace(r, l, "get", name, "")
		if err != nil {
			return nil, err
		}
		ctx, role := r.Request.Context(), h.roleAt(name, at, "")
		if by := request.UserFrom(ctx); role == "" && by != nil && by.GetName() == name {
			return nil, notMember(name, at.String()) // everybody may ask this about himself: it does not tell which places there are
		}
		if err := h.exists(ctx, at); err != nil {
			return nil, err
		}
		if role == "" {
			return nil, notMember(name, at.String())
		}
		kind, err := h.Resources.Catalog().Resolve(ctx, resourceOf("users"))
		if err != nil {
			return nil, err
		}
		o, err := h.Resources.Get(ctx, kind, resource.Scope{}, name)
		if apierrors.IsNotFound(err) {
			return nil, notMember(name, at.String())
		}
		if err != nil {
			return nil, err
		}
		return private{o.Annotated(l.annotation, role)}, nil
	}
}

// memberRoles lists the roles that a user has at a place, his groups' too. Where there is no such place it is empty: everybody may ask about himself,
// anywhere, and is not to learn from it which places there are.
func (h *V1beta1) memberRoles(l *level) web.Handler {
	return func(r *restful.Request) (any, error) {
		name := r.PathParameter("member")
		at, err := namedPlace(r, l, "get", name, l.roles)
		if err != nil {
			return nil, err
		}
		u := h.Users.ByName(name)
		if u == nil || u.Deleting {
			return nil, notMember(name, at.String())
		}
		roles, err := h.Caches.Snapshot(r.Request.Context(), resourceOf(l.roles))
		if err != nil {
			return nil, err
		}
		return listOf(rolesOf(roles, h.Rights.Held(withOwnGroups(u), at), at)), nil
	}
}

// notMember is a 400, as clients know it.
func notMember(name, where string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the user %.100q is not a member %s", name, where))
}
