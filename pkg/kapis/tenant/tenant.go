// Package tenant serves the routes of tenant.kubesphere.io: workspaces and what is in them, as far as the caller may see it.
//
// Reads are answered from the caches. The partial list of a caller who may not see everything was computed by the filters
// (authz.PartialList, of package tenant), and restricts every list before anything is filtered, counted or sorted. Writes run as the
// caller: they are checked against the object as it is at kube-apiserver, and are written with the version that was checked.
package tenant

import (
	"context"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/tenant/metrics"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/tenant"
	"kapis.dev/ks-apiserver/pkg/web"
)

// The versions of the group. In the older two, a workspace is its template.
const (
	V1beta1  = "v1beta1"
	V1alpha3 = "v1alpha3"
	V1alpha2 = "v1alpha2"
)

// The kinds of the routes.
var (
	namespacesKind = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	workspacesKind = tenantv1beta1.SchemeGroupVersion.WithResource("workspaces")
	templatesKind  = tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates")
	clustersKind   = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")
	quotasKind     = schema.GroupVersionResource{Group: "quota.kubesphere.io", Version: "v1alpha2", Resource: "resourcequotas"}
)

// Handler serves tenant.kubesphere.io.
type Handler struct {
	Resources *resource.Service
	// Streams limits watches and live pages.
	Streams *stream.Guard
	// AsCaller writes, and reads what a write depends on; its May decides what else the caller may do.
	AsCaller caller.Client
	Fleet    *tenant.Clusters
	// Granted returns the clusters in which a user has a role of the cluster. Lists of clusters show no others unless they are asked to; nil
	// shows all that the caller may see.
	Granted func(ctx context.Context, u user.Info) ([]string, error)
	// Labelled reports what carries the label of a workspace, which a new workspace of that name would take over.
	Labelled Labelled
	// UserOf returns a user as an authorizer sees it, nil where there is no such user.
	UserOf func(name string) user.Info
	// Now returns the time of counts.
	Now func() time.Time
}

// Labelled reports whether namespaces, or bindings, carry the label of a workspace. rbac.Index is one.
type Labelled interface {
	Leftovers(workspace string) (namespaces, bindings bool)
}

// WebService returns the routes of a version. The routes of kinds are mounted next to them.
func (h *Handler) WebService(version string) *restful.WebService {
	ws := new(restful.WebService)
	ws.Path("/kapis/" + tenant.Group + "/" + version).Produces(restful.MIME_JSON).
		Doc("Workspaces and what is in them, as far as the caller sees it")
	const workspaces, templates = "/workspaces", "/workspacetemplates"
	switch version {
	case V1beta1:
		h.mountReads(ws, workspacesKind, "")
		h.mountMembers(ws, "")
		mountAll(ws, "", []route{{ws.POST("/workspaces/{workspace}/" + tenant.Assignments), "/workspaces/{workspace}", "assignNamespaces",
			"Move namespaces into a workspace, as the caller: each by itself", h.assign}})
		(&metrics.Handler{Resources: h.Resources, Authorizer: h.AsCaller.May, Listed: h.listed, Now: h.Now}).Mount(ws)
		h.mountTemplateWrites(ws, workspaces, "Workspace")
		h.mountTemplateWrites(ws, templates, "WorkspaceTemplate")
	case V1alpha3:
		h.mountReads(ws, templatesKind, "V1alpha3")
		h.mountTemplateWrites(ws, templates, "WorkspaceTemplateV1alpha3")
	case V1alpha2:
		h.mountReads(ws, templatesKind, "V1alpha2")
		h.mountMembers(ws, "V1alpha2")
		h.mountTemplateWrites(ws, workspaces, "WorkspaceV1alpha2")
		mountEmpty(ws)
	}
	return ws
}

// mountReads adds the routes that all versions have. version is appended to the names of operations.
func (h *Handler) mountReads(ws *restful.WebService, workspaces schema.GroupVersionResource, version string) {
	for _, r := range []struct {
		path, id, doc string
		gvr           schema.GroupVersionResource
		one           bool
	}{
		{"/clusters", "listVisibleClusters", "The clusters that the caller sees", clustersKind, false},
		{"/workspaces", "listVisibleWorkspaces", "The workspaces that the caller sees", workspaces, false},
		{"/workspaces/{workspace}", "getVisibleWorkspace", "A workspace", workspaces, true},
		{"/workspacetemplates", "listVisibleWorkspaceTemplates", "The templates of the workspaces that the caller sees", templatesKind, false},
		{"/workspacetemplates/{workspace}", "getVisibleWorkspaceTemplate", "The template of a workspace", templatesKind, true},
		{"/namespaces", "listVisibleNamespaces", "The namespaces that the caller sees", namespacesKind, false},
		{"/workspaces/{workspace}/namespaces", "listVisibleWorkspaceNamespaces", "The namespaces of a workspace that the caller sees",
			namespacesKind, false},
		{"/workspaces/{workspace}/namespaces/{namespace}", "getWorkspaceNamespace", "A namespace of a workspace", namespacesKind, true},
	} {
		route := ws.GET(r.path).Operation(r.id + version).Doc(r.doc)
		if r.one {
			ws.Route(describe(ws, route.To(web.Handle(h.get(r.gvr))), r.path))
			continue
		}
		route.To(web.Handle(h.list(r.gvr))).Metadata(web.MetadataPartialList, true).Metadata(web.MetadataWatch, true).
			Produces(restful.MIME_JSON, stream.EventStream)
		ws.Route(describe(ws, withQuery(ws, route), r.path))
	}
	const placed = "/workspaces/{workspace}/clusters"
	ws.Route(describe(ws, withQuery(ws, ws.GET(placed).To(web.Handle(h.placed)).Operation("listWorkspaceClusters"+version).
		Doc("The clusters that a workspace is placed in")), placed))
}

// mountEmpty adds the lists of what no workspace has any more. They are empty, so that pages of older clients go on.
func mountEmpty(ws *restful.WebService) {
	const inWorkspace = "/workspaces/{workspace}/"
	for path, id := range map[string]string{
		"/" + tenant.FederatedNamespaces:                                    "listFederatedNamespaces",
		inWorkspace + tenant.FederatedNamespaces:                            "listWorkspaceFederatedNamespaces",
		inWorkspace + tenant.DevOps:                                         "listWorkspaceDevOps",
		inWorkspace + "workspacemembers/{workspacemember}/" + tenant.DevOps: "listWorkspaceMemberDevOps",
	} {
		ws.Route(describe(ws, ws.GET(path).To(web.Handle(empty)).Operation(id).
			Doc("Nothing: an empty list"), path))
	}
}

// empty answers an empty list.
func empty(*restful.Request) (any, error) {
	return struct {
		Items      []any `json:"items"`
		TotalItems int   `json:"totalItems"`
	}{Items: []any{}}, nil
}

// mountMembers adds the routes of what is in a workspace: namespaces and quotas. version is appended to the names of operations.
func (h *Handler) mountMembers(ws *restful.WebService, version string) {
	const path = "/workspaces/{workspace}/workspacemembers/{workspacemember}/namespaces"
	ws.Route(describe(ws, withQuery(ws, ws.GET(path).To(web.Handle(h.memberNamespaces)).Operation("listWorkspaceMemberNamespaces"+version).
		Doc("The namespaces of a workspace that a member of it sees")), path))
	const quotas, namespaces = "/workspaces/{workspace}/resourcequotas", "/workspaces/{workspace}/namespaces"
	mountAll(ws, version, []route{
		{ws.POST(namespaces), namespaces, "createWorkspaceNamespace", "Create a namespace in a workspace, as the caller", h.createNamespace},
		{ws.PUT(namespaces + "/{namespace}"), namespaces + "/{namespace}", "replaceWorkspaceNamespace",
			"Replace a namespace of a workspace, as the caller", h.updateNamespace},
		{ws.PATCH(namespaces + "/{namespace}"), namespaces + "/{namespace}", "patchWorkspaceNamespace",
			"Change a namespace of a workspace, as the caller", h.patchNamespace},
		{ws.DELETE(namespaces + "/{namespace}"), namespaces + "/{namespace}", "deleteWorkspaceNamespace",
			"Delete a namespace of a workspace, as the caller", h.deleteNamespace},
		{ws.POST(quotas), quotas, "createWorkspaceQuota", "Create a quota of a workspace, as the caller", h.createQuota},
		{ws.GET(quotas + "/{resourcequota}"), quotas + "/{resourcequota}", "getWorkspaceQuota", "A quota of a workspace", h.getQuota},
		{ws.PUT(quotas + "/{resourcequota}"), quotas + "/{resourcequota}", "replaceWorkspaceQuota",
			"Replace a quota of a workspace, as the caller", h.updateQuota},
		{ws.DELETE(quotas + "/{resourcequota}"), quotas + "/{resourcequota}", "deleteWorkspaceQuota",
			"Delete a quota of a workspace, as the caller", h.deleteQuota},
	})
}

// mountTemplateWrites adds the routes that write workspaces: every write of a workspace is a write of its template. name is appended to the
// names of operations.
func (h *Handler) mountTemplateWrites(ws *restful.WebService, path, name string) {
	one := path + "/{workspace}"
	mountAll(ws, name, []route{
		{ws.POST(path), path, "create", "Create a workspace, as the caller", h.createTemplate},
		{ws.PUT(one), one, "replace", "Replace the template of a workspace, as the caller", h.updateTemplate},
		{ws.PATCH(one), one, "patch", "Change the template of a workspace by a JSON patch or a merge patch, as the caller", h.patchTemplate},
		{ws.DELETE(one), one, "delete", "Delete a workspace, as the caller", h.deleteTemplate},
	})
}

// route is a route with the beginning of its operation's name.
type route struct {
	*restful.RouteBuilder
	path, id, doc string
	handle        web.Handler
}

func mountAll(ws *restful.WebService, name string, routes []route) {
	for _, r := range routes {
		ws.Route(describe(ws, r.To(web.Handle(r.handle)).Operation(r.id+name).Doc(r.doc), r.path))
	}
}

// withQuery documents the parameters of a list.
func withQuery(ws *restful.WebService, b *restful.RouteBuilder) *restful.RouteBuilder {
	for _, p := range resource.Parameters() {
		b.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
	}
	return b
}

// message is the answer that something was done, in the form that clients know.
type message struct {
	Message string `json:"message"`
}
