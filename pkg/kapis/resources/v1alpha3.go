// Package resources serves the routes of resources.kubesphere.io: lists and objects of any kind by its
// plural name alone.
package resources

import (
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
)

// Root is the path of the group in version v1alpha3.
const Root = "/kapis/resources.kubesphere.io/v1alpha3"

// V1alpha3 serves resources.kubesphere.io/v1alpha3.
type V1alpha3 struct {
	Resources *resource.Service
	Inventory *Inventory
	Remotes   *Remotes
}

// WebService returns the routes of the group.
func (h *V1alpha3) WebService() *restful.WebService {
	ws := new(restful.WebService)
	ws.Path(Root).Produces(restful.MIME_JSON).Doc("Objects of any kind, by its plural name")
	h.Mount(ws)
	h.Inventory.mountV1alpha3(ws)
	h.Remotes.mountV1alpha3(ws)
	return ws
}

// Mount adds the routes to a WebService whose root is Root.
func (h *V1alpha3) Mount(ws *restful.WebService) {
	for _, at := range [...]struct{ path, id string }{{"", ""}, {"/namespaces/{namespace}", "Namespaced"}} {
		list := ws.GET(at.path + "/{resources}").To(web.Handle(h.list)).
			Operation("list" + at.id + "Resources").Doc("List the objects of a kind: filtered, sorted, one page").
			Param(ws.PathParameter("resources", "plural name of the kind, such as pods"))
		get := ws.GET(at.path + "/{resources}/{name}").To(web.Handle(h.get)).
			Operation("get" + at.id + "Resource").Doc("One object").
			Param(ws.PathParameter("resources", "plural name of the kind, such as pods")).
			Param(ws.PathParameter("name", "name of the object"))
		for _, p := range listParams {
			list.Param(ws.QueryParameter(p.name, p.doc).DataType(p.kind))
		}
		if at.path != "" {
			list.Param(ws.PathParameter("namespace", "name of the namespace"))
			get.Param(ws.PathParameter("namespace", "name of the namespace"))
		}
		ws.Route(list)
		ws.Route(get)
	}
}

// listParams are the parameters of every list, for the documentation of the API.
var listParams = [...]struct{ name, kind, doc string }{
	{"limit", "integer", "items on a page; all where it is absent or -1"},
	{"page", "integer", "which page, from 1"},
	{"sortBy", "string", "sort keys joined by commas: creationTimestamp, name, namespace, a key of the kind, or a path such as .spec.replicas"},
	{"ascending", "boolean", "the smallest first; default false"},
	{"name", "string", "part of the name or of the alias"},
	{"names", "string", "names joined by commas"},
	{"uid", "string", "UID of the object"},
	{"namespace", "string", "namespace of the objects"},
	{"ownerReference", "string", "UID of an owner"},
	{"ownerKind", "string", "kind of an owner"},
	{"annotation", "string", "key, key=value or key!=value"},
	{"label", "string", "key, key=value or key!=value"},
	{"labelSelector", "string", "label selector; | between alternatives"},
	{"fieldSelector", "string", "path=value, path!=value or path=~value, joined by commas"},
}

func (h *V1alpha3) list(r *restful.Request) (any, error) {
	ctx, plural := r.Request.Context(), r.PathParameter("resources")
	scope := resource.Scope{Namespace: r.PathParameter("namespace")}
	if err := resource.Agree(request.InfoFrom(ctx), plural, scope, ""); err != nil {
		return nil, err
	}
	q, err := query.Parse(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	kind, err := h.Resources.Catalog().ByName(ctx, plural)
	if err != nil {
		return nil, err
	}
	page, err := h.Resources.List(ctx, kind, scope, q)
	if err != nil {
		return nil, err
	}
	return page.Items(), nil
}

func (h *V1alpha3) get(r *restful.Request) (any, error) {
	ctx, plural, name := r.Request.Context(), r.PathParameter("resources"), r.PathParameter("name")
	scope := resource.Scope{Namespace: r.PathParameter("namespace")}
	if err := resource.Agree(request.InfoFrom(ctx), plural, scope, name); err != nil {
		return nil, err
	}
	kind, err := h.Resources.Catalog().ByName(ctx, plural)
	if err != nil {
		return nil, err
	}
	return h.Resources.Get(ctx, kind, scope, name)
}
