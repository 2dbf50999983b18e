// Package dynamic serves every kind that kube-apiserver serves, custom resources too, under /kapis/{group}/{version} and
// /kapi/{version}: reads from the cache, writes as the caller.
package dynamic

import (
	"context"
	"net/url"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Handler serves the kinds of any group.
type Handler struct {
	Resources *resource.Service
	// Streams limits watches and live pages.
	Streams *stream.Guard
	// Authorizer decides whether a caller may see what another kind shows about an object; nil shows nothing of that.
	Authorizer authz.Authorizer
	// AsCaller reads for managedFields=true.
	AsCaller resource.Reader
	// Kube answers what no cache can: writes, and sub-resources. Without it, there are no routes for them.
	Kube Kube
	// Guard makes the escalation check of writes of roles, bindings and the like; nil checks none.
	Guard Guard
	// ReducedQuery returns the query over all objects of a kind that a caller with a partial list may run in place of the requested one, or
	// nil. A nil ReducedQuery allows none.
	ReducedQuery func(ctx context.Context, gr schema.GroupResource, asked url.Values) (*query.Query, error)
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

// places are the scopes at which objects can be requested.
var places = [...]struct {
	path, id string
	params   []string
}{
	{"", "", nil},
	{"/namespaces/{namespace}", "Namespaced", []string{"namespace"}},
	{"/workspaces/{workspace}", "Workspace", []string{"workspace"}},
	{"/workspaces/{workspace}/namespaces/{namespace}", "WorkspaceNamespaced", []string{"workspace", "namespace"}},
}

func (h *Handler) mount(ws *restful.WebService, id string) {
	resources := ws.PathParameter("resources", "plural name of the kind")
	name := ws.PathParameter("name", "name of the object")
	for _, at := range places {
		list := ws.GET(at.path+"/{resources}").To(web.Handle(h.list)).Produces(restful.MIME_JSON, stream.EventStream).
			Metadata(web.MetadataPartialList, true).Metadata(web.MetadataWatch, true).
			Operation("list" + id + at.id + "Objects").Doc("List the objects of a kind: filtered, sorted, one page; or watch them")
		get := ws.GET(at.path + "/{resources}/{name}").To(web.Handle(h.get)).
			Operation("get" + id + at.id + "Object").Doc("One object").Param(name)
		// The older form of a watch, which the console uses.
		watch := ws.GET("/watch"+at.path+"/{resources}").To(web.Handle(h.list)).Produces(restful.MIME_JSON, stream.EventStream).
			Metadata(web.MetadataPartialList, true).
			Operation("watch" + id + at.id + "Objects").Doc("Watch the objects of a kind")
		watchOne := ws.GET("/watch"+at.path+"/{resources}/{name}").To(web.Handle(h.list)).Produces(restful.MIME_JSON, stream.EventStream).
			Operation("watch" + id + at.id + "Object").Doc("Watch one object").Param(name)
		for _, p := range resource.Parameters() {
			if p.Page {
				list.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
				continue
			}
			for _, route := range []*restful.RouteBuilder{list, watch} {
				route.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
			}
		}
		for _, route := range []*restful.RouteBuilder{list, get, watch, watchOne} {
			route.Param(resources)
			for _, p := range at.params {
				route.Param(ws.PathParameter(p, "name of the "+p))
			}
			ws.Route(route)
		}
	}
	h.mountWrites(ws, id)
}

// target is what a request asks for.
type target struct {
	kind  *store.Kind
	scope plan.Scope
	name  string
}

// groupVersion returns the group and version of a request.
func groupVersion(i *request.Info) schema.GroupVersion {
	return schema.GroupVersion{Group: i.APIGroup, Version: i.APIVersion}
}

func (h *Handler) target(r *restful.Request) (*target, error) {
	ctx := r.Request.Context()
	info := request.InfoFrom(ctx)
	t := &target{
		scope: plan.Scope{
			Namespace: r.PathParameter("namespace"), Workspace: r.PathParameter("workspace"), PartialList: authz.DecisionFrom(ctx).PartialList(),
			MayList: authz.MayList(h.Authorizer),
		},
		name: r.PathParameter("name"),
	}
	var err error
	if t.kind, err = h.Resources.Catalog().Resolve(ctx, groupVersion(info).WithResource(info.Resource)); err != nil {
		return nil, err
	}
	// The decision was about this very kind, so the right to read covers all of it.
	t.scope.Data = t.scope.Namespace != "" && authz.DecisionFrom(ctx).Allowed() && h.Resources.HasData(t.kind)
	return t, h.Resources.Served(ctx, t.kind)
}

// list answers requests for any number of objects: a page, a live page, or a watch.
func (h *Handler) list(r *restful.Request) (any, error) {
	q, err := query.Parse(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	t, err := h.target(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	src, err := h.Resources.Streams.Open(ctx, r.Request.Header, t.kind, t.scope, q, request.InfoFrom(ctx).Verb == "watch", t.name)
	if err != nil {
		return nil, err
	}
	if src != nil {
		return h.Streams.Answer(src), nil
	}
	if t.scope.PartialList != nil && h.ReducedQuery != nil {
		if other, err := h.ReducedQuery(ctx, t.kind.GVR.GroupResource(), r.Request.URL.Query()); err != nil {
			return nil, err
		} else if other != nil {
			q, t.scope.PartialList = other, nil
		}
	}
	page, err := h.Resources.List(ctx, t.kind, t.scope, q)
	if err == nil && q.ManagedFields {
		page, err = h.Resources.Complete(ctx, page, t.scope, h.AsCaller)
	}
	if err != nil {
		return nil, err
	}
	return page.List(), nil
}

func (h *Handler) get(r *restful.Request) (any, error) {
	t, err := h.target(r)
	if err != nil {
		return nil, err
	}
	return h.Resources.Get(r.Request.Context(), t.kind, t.scope, t.name)
}
