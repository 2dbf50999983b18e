// Package metrics counts what a caller sees of the platform and of a workspace.
package metrics

import (
	"context"
	"net/url"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/overview"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/web"
)

// count is a number of objects: as many as the caller's own list of them has (U52).
type count struct {
	name string
	// group and version are those by which the caller would list them, gvr is the kind.
	group, version string
	gvr            schema.GroupVersionResource
	// always includes the count also where it is 0, or the caller may not list the objects.
	always bool
}

// Handler serves the counts.
type Handler struct {
	Resources *resource.Service
	// Authorizer decides what the caller may list.
	Authorizer authz.Authorizer
	// Listed returns what the list of a kind shows of the objects that the caller may see.
	Listed func(ctx context.Context, gvr schema.GroupVersionResource, seen *authz.PartialList) (*authz.PartialList, error)
	// Now returns the time of counts.
	Now func() time.Time
}

// Mount adds the routes.
func (h *Handler) Mount(ws *restful.WebService) {
	ws.Route(ws.GET("/metrics").To(web.Handle(h.platform)).Metadata(web.MetadataPartialList, true).
		Operation("getPlatformMetrics").Doc("Numbers of what the caller sees of the platform").Writes(overview.Metrics{}))
	ws.Route(ws.GET("/workspaces/{workspace}/metrics").To(web.Handle(h.workspace)).
		Operation("getWorkspaceMetrics").Doc("Numbers of what the caller sees of a workspace").Writes(overview.Metrics{}).
		Param(ws.PathParameter("workspace", "name of the workspace")))
}

func platformCounts() []count {
	return []count{
		{"platform_user_count", iamv1beta1.GroupName, "v1beta1", iamv1beta1.SchemeGroupVersion.WithResource("users"), true},
		{"platform_workspace_count", tenantv1beta1.GroupName, "v1beta1", tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates"), false},
		{"platform_cluster_count", tenantv1beta1.GroupName, "v1beta1", clusterv1alpha1.SchemeGroupVersion.WithResource("clusters"), false},
		{"platform_installplan_count", "kubesphere.io", "v1alpha1", schema.GroupVersionResource{Group: "kubesphere.io", Version: "v1alpha1",
			Resource: "installplans"}, false},
	}
}

func workspaceCounts() []count {
	return []count{
		{"workspace_namespace_count", tenantv1beta1.GroupName, "v1beta1", schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, true},
		{"workspace_workspacerole_count", iamv1beta1.GroupName, "v1beta1", iamv1beta1.SchemeGroupVersion.WithResource("workspaceroles"), true},
		{"workspace_workspacerolebinding_count", iamv1beta1.GroupName, "v1beta1",
			iamv1beta1.SchemeGroupVersion.WithResource("workspacerolebindings"), true},
	}
}

func (h *Handler) platform(r *restful.Request) (any, error) {
	return h.metrics(r, platformCounts())
}

func (h *Handler) workspace(r *restful.Request) (any, error) {
	return h.metrics(r, workspaceCounts())
}

func (h *Handler) metrics(r *restful.Request, counts []count) (any, error) {
	ctx, workspace := r.Request.Context(), r.PathParameter("workspace")
	out, now := &overview.Metrics{Results: make([]overview.Metric, 0, len(counts))}, h.Now().Unix()
	for _, c := range counts {
		n, err := h.count(ctx, c, workspace)
		if err != nil {
			return nil, err
		}
		if n > 0 || c.always {
			out.Results = append(out.Results, overview.Metric{Name: c.name, Data: overview.Data{
				Type: "vector", Result: []overview.Result{{Value: overview.Sample{Time: now, Count: n}}},
			}})
		}
	}
	return out, nil
}

// count returns how many objects there are for the caller: 0 where they may not list them, and where the cluster has no such kind.
func (h *Handler) count(ctx context.Context, c count, workspace string) (int, error) {
	list := request.ListOf(c.group, c.version, c.gvr.Resource, workspace)
	d, err := h.Authorizer.Authorize(ctx, request.UserFrom(ctx), list)
	if err != nil || !d.Permits(true) {
		return 0, err
	}
	listed, err := h.Listed(ctx, c.gvr, d.PartialList())
	if err != nil {
		return 0, err
	}
	scope := plan.Scope{Workspace: workspace, PartialList: listed}
	kind, err := h.Resources.Catalog().Resolve(ctx, c.gvr)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	none, err := query.Parse(url.Values{"limit": {"0"}})
	if err != nil {
		return 0, err
	}
	page, err := h.Resources.List(ctx, kind, scope, none)
	switch {
	case apierrors.IsForbidden(err): // nothing that the caller may see is of this kind
		return 0, nil
	case err != nil:
		return 0, err
	}
	return page.Total, nil
}
