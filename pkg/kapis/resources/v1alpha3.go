// Package resources serves the routes of resources.kubesphere.io: lists and objects of any kind by its
// plural name alone.
package resources

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
)

const (
	// Group is the API group.
	Group = "resources.kubesphere.io"
	// Root is the path of the group in version v1alpha3.
	Root = "/kapis/" + Group + "/v1alpha3"
)

// V1alpha3 serves resources.kubesphere.io/v1alpha3.
type V1alpha3 struct {
	Resources *resource.Service
	// Streams limits watches and live pages.
	Streams *stream.Guard
	// Authorizer decides whether a caller may read what a rule for this group alone does not allow: the data of Secrets and
	// ConfigMaps, and how many claims a storage class has.
	Authorizer authz.Authorizer
	// AsCaller reads for managedFields=true.
	AsCaller  resource.Reader
	Inventory *inventory.Handler
	Remotes   *remote.Handler
}

// WebService returns the routes of the group.
func (h *V1alpha3) WebService() *restful.WebService {
	ws := new(restful.WebService)
	ws.Path(Root).Produces(restful.MIME_JSON).Doc("Objects of any kind, by its plural name")
	h.Mount(ws)
	h.Inventory.MountV1alpha3(ws)
	h.Remotes.MountV1alpha3(ws)
	return ws
}

// Mount adds the routes to a WebService whose root is Root.
func (h *V1alpha3) Mount(ws *restful.WebService) {
	for _, at := range [...]struct{ path, id string }{{"", ""}, {"/namespaces/{namespace}", "Namespaced"}} {
		list := ws.GET(at.path+"/{resources}").To(web.Handle(h.list)).Produces(restful.MIME_JSON, stream.EventStream).
			Metadata(web.MetadataPartialList, true).Metadata(web.MetadataWatch, true).
			Operation("list" + at.id + "Resources").Doc("List the objects of a kind: filtered, sorted, one page; or watch them").
			Param(ws.PathParameter("resources", "plural name of the kind, such as pods"))
		get := ws.GET(at.path + "/{resources}/{name}").To(web.Handle(h.get)).
			Operation("get" + at.id + "Resource").Doc("One object").
			Param(ws.PathParameter("resources", "plural name of the kind, such as pods")).
			Param(ws.PathParameter("name", "name of the object"))
		for _, p := range resource.Parameters() {
			list.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
		}
		if at.path != "" {
			list.Param(ws.PathParameter("namespace", "name of the namespace"))
			get.Param(ws.PathParameter("namespace", "name of the namespace"))
		}
		ws.Route(list)
		ws.Route(get)
	}
}

// list answers requests for any number of objects: a page, a live page, or a watch.
func (h *V1alpha3) list(r *restful.Request) (any, error) {
	q, err := query.Parse(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	return h.answer(r, q, resource.Items)
}

// answer returns the answer to a request for the objects that q selects.
func (h *V1alpha3) answer(r *restful.Request, q *query.Query, form resource.Form) (any, error) {
	ctx := r.Request.Context()
	kind, err := h.Resources.Catalog().ByName(ctx, r.PathParameter("resources"))
	if err != nil {
		return nil, err
	}
	return h.Resources.Answer(r.Request, &resource.Listing{
		Kind: kind, Scope: h.scopeOf(ctx, r.PathParameter("namespace")), Query: q, Watch: request.InfoFrom(ctx).Verb == "watch",
		Streams: h.Streams, AsCaller: h.AsCaller, Form: form,
		// For a stream, only the right to this route is checked again and again: it never has data.
		BeforePage: func(l *resource.Listing) error {
			l.Scope.Data = h.mayReadData(ctx, kind, l.Scope)
			l.Scope.KeyCount = h.mayListAll(ctx, kind, l.Scope)
			return nil
		},
	})
}

// scopeOf returns what a list reads: the namespace of the path, and what the decision on the request leaves of all of them.
func (h *V1alpha3) scopeOf(ctx context.Context, namespace string) plan.Scope {
	return plan.Scope{Namespace: namespace, PartialList: authz.DecisionFrom(ctx).PartialList(), MayList: authz.MayList(h.Authorizer)}
}

func (h *V1alpha3) get(r *restful.Request) (any, error) {
	ctx, plural, name := r.Request.Context(), r.PathParameter("resources"), r.PathParameter("name")
	scope := plan.Scope{Namespace: r.PathParameter("namespace"), MayList: authz.MayList(h.Authorizer)}
	kind, err := h.Resources.Catalog().ByName(ctx, plural)
	if err != nil {
		return nil, err
	}
	scope.Data = h.mayReadData(ctx, kind, scope)
	o, err := h.Resources.Get(ctx, kind, scope, name)
	if err != nil {
		return nil, err
	}
	return h.Resources.Tables.Answer(r.Request, kind, scope, o)
}

// mayListAll reports whether the caller may list all objects of a kind that is without its data here, and so sees how many keys it has.
func (h *V1alpha3) mayListAll(ctx context.Context, kind *store.Kind, scope plan.Scope) bool {
	return scope.Namespace == "" && h.Resources.HasData(kind) && scope.MayList(ctx, kind.GVR)
}

// mayReadData reports whether the caller may do the same to the kind itself. A rule for this group opens its routes for every kind,
// and so never the data of Secrets and ConfigMaps.
func (h *V1alpha3) mayReadData(ctx context.Context, kind *store.Kind, scope plan.Scope) bool {
	if scope.Namespace == "" || !h.Resources.HasData(kind) || h.Authorizer == nil {
		return false
	}
	d, err := h.Authorizer.Authorize(ctx, request.UserFrom(ctx), request.InfoFrom(ctx).As(kind.GVR.GroupResource()))
	return err == nil && d.Allowed()
}
