// Package dynamic serves every kind that kube-apiserver serves, custom resources too, under /kapis/{group}/{version} and
// /kapi/{version}: reads from the cache (package read), writes as the caller.
package dynamic

import (
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"

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
