// Package dynamic serves every kind that kube-apiserver serves, custom resources too, under /kapis/{group}/{version} and
// /kapi/{version}: reads from the cache (package read), writes as the caller.
package dynamic

import (
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
)

// Handler serves the kinds of any group.
type Handler struct {
	// Handler answers reads; writes find kinds and the objects of a workspace in its Resources.
	*read.Handler
	// Kube answers what no cache can: writes, and sub-resources. Without it, there are no routes for them.
	Kube Kube
	// Guard makes the escalation check of writes of roles, bindings and the like; nil checks none.
	Guard Guard
}

// WebServices returns the routes of the core group and those of any group that has no WebService of its own. A router takes the most
// exact root, so groups that have one mount these routes there too.
func WebServices(h *Handler) []*restful.WebService {
	core := new(restful.WebService)
	core.Path("/kapi/{version}").Produces(restful.MIME_JSON).Doc("Kinds of the core group").
		Param(core.PathParameter("version", "version of the API, such as v1"))
	groups := new(restful.WebService)
	groups.Path("/kapis/{group}/{version}").Produces(restful.MIME_JSON).Doc("Kinds of any group").
		Param(groups.PathParameter("group", "API group, such as apps")).
		Param(groups.PathParameter("version", "version of the group, such as v1"))
	h.mount(core, "Core")
	h.mount(groups, "Group")
	return []*restful.WebService{core, groups}
}

// Mount adds the routes to the WebService of one group and version. Routes there with more fixed segments take precedence.
func (h *Handler) Mount(ws *restful.WebService) { h.mount(ws, "Dynamic") }

func (h *Handler) mount(ws *restful.WebService, id string) {
	h.Handler.Mount(ws, id)
	h.mountWrites(ws, id)
}

// mountWrites adds the routes that write, and those of sub-resources. They read the kind, object and scope from what was authorized.
func (h *Handler) mountWrites(ws *restful.WebService, id string) {
	if h.Kube == nil {
		return
	}
	for _, at := range read.Scopes() {
		id := id + at.ID
		all, one := at.Path+"/{resources}", at.Path+"/{resources}/{name}"
		sub := one + "/{subresource}"
		for _, route := range []struct {
			*restful.RouteBuilder
			id, doc string
		}{
			{ws.POST(all), "create" + id + "Object", "Create an object, as the caller"},
			{ws.DELETE(all), "deleteCollectionOf" + id + "Objects", "Delete the objects that the selectors match, as the caller"},
			{ws.PUT(one), "replace" + id + "Object", "Replace an object, as the caller"},
			{ws.PATCH(one), "patch" + id + "Object",
				"Change an object by a JSON patch, a merge patch, a strategic merge patch or an applied configuration, as the caller"},
			{ws.DELETE(one), "delete" + id + "Object", "Delete an object, as the caller"},
			{ws.POST(sub), "create" + id + "Subresource", "Create what a sub-resource stands for, such as an eviction, as the caller"},
			{ws.PUT(sub), "replace" + id + "Subresource", "Replace a sub-resource, such as status or scale, as the caller"},
			{ws.PATCH(sub), "patch" + id + "Subresource", "Change a sub-resource, such as status or scale, as the caller"},
		} {
			ws.Route(describe(ws, route.To(web.Handle(h.write)), at.Params).Operation(route.id).Doc(route.doc))
		}
		get := ws.GET(sub).To(web.Handle(h.subresource)).Produces("*/*")
		ws.Route(describe(ws, get, at.Params).Operation("get" + id + "Subresource").
			Doc("A sub-resource, such as scale or log, live and as the caller"))
	}
	if id != "Core" {
		return
	}
	// To a router, these two are lists of a kind called status.
	for _, at := range [...]struct {
		path, id string
		params   []string
	}{{"", "", nil}, {"/workspaces/{workspace}", "Workspace", []string{"workspace"}}} {
		get := ws.GET(at.path + "/namespaces/{name}/status").To(web.Handle(h.subresource)).Produces("*/*")
		ws.Route(describe(ws, get, at.params).Operation("get" + at.id + "NamespaceStatus").
			Doc("A namespace with its status, live and as the caller"))
	}
}

// describe documents the parameters that the path of a route may have.
func describe(ws *restful.WebService, b *restful.RouteBuilder, scope []string) *restful.RouteBuilder {
	b.Param(ws.PathParameter("resources", "plural name of the kind")).
		Param(ws.PathParameter("name", "name of the object")).
		Param(ws.PathParameter("subresource", "name of the sub-resource, such as status"))
	for _, p := range scope {
		b.Param(ws.PathParameter(p, "name of the "+p))
	}
	return b
}
