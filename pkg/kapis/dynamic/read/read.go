// Package read answers lists, watches and single objects of any kind from the caches.
package read

import (
	"context"
	"net/http"
	"net/url"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Handler reads the kinds of any group.
type Handler struct {
	Resources *resource.Service
	// Streams limits watches and live pages.
	Streams *stream.Guard
	// Authorizer decides whether a caller may see what another kind shows about an object; nil shows nothing of that.
	Authorizer authz.Authorizer
	// AsCaller reads for managedFields=true.
	AsCaller resource.Reader
	// ReducedQuery returns the query over all objects of a kind that a caller with a partial list may run in place of the requested one, or
	// nil. A nil ReducedQuery allows none.
	ReducedQuery func(ctx context.Context, gr schema.GroupResource, asked url.Values) (*query.Query, error)
}

// Scope is where in a path objects can be requested: its beginning, what it adds to the ids of operations, and its parameters.
type Scope struct {
	Path, ID string
	Params   []string
}

// Scopes returns the scopes at which objects can be requested.
func Scopes() []Scope {
	return []Scope{
		{"", "", nil},
		{"/namespaces/{namespace}", "Namespaced", []string{"namespace"}},
		{"/workspaces/{workspace}", "Workspace", []string{"workspace"}},
		{"/workspaces/{workspace}/namespaces/{namespace}", "WorkspaceNamespaced", []string{"workspace", "namespace"}},
	}
}

// Mount adds the routes; id is put into the names of their operations.
func (h *Handler) Mount(ws *restful.WebService, id string) {
	resources := ws.PathParameter("resources", "plural name of the kind")
	name := ws.PathParameter("name", "name of the object")
	for _, at := range Scopes() {
		list := ws.GET(at.Path+"/{resources}").To(web.Handle(h.List)).Produces(restful.MIME_JSON, stream.EventStream).
			Metadata(web.MetadataPartialList, true).Metadata(web.MetadataWatch, true).
			Operation("list" + id + at.ID + "Objects").Doc("List the objects of a kind: filtered, sorted, one page; or watch them")
		get := ws.GET(at.Path + "/{resources}/{name}").To(web.Handle(h.Get)).
			Operation("get" + id + at.ID + "Object").Doc("One object").Param(name)
		// The older form of a watch, which the console uses.
		watch := ws.GET("/watch"+at.Path+"/{resources}").To(web.Handle(h.List)).Produces(restful.MIME_JSON, stream.EventStream).
			Metadata(web.MetadataPartialList, true).
			Operation("watch" + id + at.ID + "Objects").Doc("Watch the objects of a kind")
		watchOne := ws.GET("/watch"+at.Path+"/{resources}/{name}").To(web.Handle(h.List)).Produces(restful.MIME_JSON, stream.EventStream).
			Operation("watch" + id + at.ID + "Object").Doc("Watch one object").Param(name)
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
			for _, p := range at.Params {
				route.Param(ws.PathParameter(p, "name of the "+p))
			}
			ws.Route(route)
		}
	}
}

// target is what a request asks for.
type target struct {
	kind  *store.Kind
	scope plan.Scope
	name  string
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
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if t.kind, err = h.Resources.Catalog().Resolve(ctx, gvr); err != nil {
		return nil, err
	}
	// The decision was about this very kind, so the right to read covers all of it.
	if authz.DecisionFrom(ctx).Allowed() && h.Resources.HasData(t.kind) {
		t.scope.Data, t.scope.KeyCount = t.scope.Namespace != "", t.scope.Namespace == ""
	}
	return t, h.Resources.Served(ctx, t.kind)
}

// List answers requests for any number of objects: a page, a live page, or a watch.
func (h *Handler) List(r *restful.Request) (any, error) { return h.listAs(r, list) }

// ListAnnotated returns List with an annotation in each object of a page: older clients read there what of returns for the object's JSON.
// Live pages and watches are those of today.
func (h *Handler) ListAnnotated(key string, of func(object string) string) web.Handler {
	return func(r *restful.Request) (any, error) {
		return h.listAs(r, func(p *page.Page, next string) *page.Answer {
			return list(p.AnnotatedAt([]string{key}, func(i int) []string { return []string{of(p.Object(i).String())} }), next)
		})
	}
}

func (h *Handler) listAs(r *restful.Request, form resource.Form) (any, error) {
	q, err := query.Parse(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	t, err := h.target(r)
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	return h.Resources.Answer(r.Request, &resource.Listing{
		Kind: t.kind, Scope: t.scope, Query: q, Watch: request.InfoFrom(ctx).Verb == "watch", Name: t.name,
		Streams: h.Streams, AsCaller: h.AsCaller, BeforePage: h.reduced(r.Request), Form: form,
	})
}

// list is the form of a list of Kubernetes.
func list(p *page.Page, _ string) *page.Answer { return p.List() }

// reduced returns what replaces the query of a page that a partial list is the answer to by the one of ReducedQuery.
func (h *Handler) reduced(r *http.Request) func(*resource.Listing) error {
	return func(l *resource.Listing) error {
		if l.Scope.PartialList == nil || h.ReducedQuery == nil {
			return nil
		}
		other, err := h.ReducedQuery(r.Context(), l.Kind.GVR.GroupResource(), r.URL.Query())
		if other != nil {
			l.Query, l.Scope.PartialList = other, nil
		}
		return err
	}
}

// Get answers one object.
func (h *Handler) Get(r *restful.Request) (any, error) { return h.get(r, nil) }

// GetAnnotated returns Get with an annotation in the object.
func (h *Handler) GetAnnotated(key string, of func(object string) string) web.Handler {
	return func(r *restful.Request) (any, error) {
		return h.get(r, func(o *page.Object) *page.Object { return o.WithAnnotation(key, of(o.JSON.String())) })
	}
}

func (h *Handler) get(r *restful.Request, shown func(*page.Object) *page.Object) (any, error) {
	t, err := h.target(r)
	if err != nil {
		return nil, err
	}
	o, err := h.Resources.Get(r.Request.Context(), t.kind, t.scope, t.name)
	if err != nil {
		return nil, err
	}
	if shown != nil {
		o = shown(o)
	}
	return h.Resources.Tables.Answer(r.Request, t.kind, t.scope, o)
}
