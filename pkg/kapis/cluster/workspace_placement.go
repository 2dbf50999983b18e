package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// templatesPath is where WorkspaceTemplates are written.
	templatesPath = "/apis/tenant.kubesphere.io/v1beta1/workspacetemplates"
	// mostGrants bounds the workspaces of one request.
	mostGrants = 500
)

var templatesResource = tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates")

// grant places a workspace in a cluster, or takes it out of it.
type grant struct {
	Op        string `json:"op"`
	Workspace string `json:"workspace"`
}

// grantRoutes adds the route that places several workspaces at once.
func (h *V1alpha1) grantRoutes(ws *restful.WebService) {
	ws.Route(ws.POST("/clusters/{cluster}/grantrequests").To(web.Handle(web.RefuseDryRun(h.grant))).
		Operation("patchWorkspaceTemplatesClusters").
		Doc("Place workspaces in a cluster, or take them out of it, as the caller: an array of op (add or remove) and workspace. All are judged" +
			" before the first is written").
		Param(ws.PathParameter("cluster", "name of the Cluster")))
}

// grant answers a grant request: one write for each workspace, in the order of their names.
func (h *V1alpha1) grant(r *restful.Request) (any, error) {
	ctx, name := r.Request.Context(), r.PathParameter("cluster")
	var in []grant
	if err := read(r.Request, &in); err != nil {
		return nil, err
	}
	ops, err := opsOf(in)
	if err != nil {
		return nil, err
	}
	if _, err := h.existing(ctx, name); err != nil {
		return nil, err
	}
	templates, err := h.Caches.Snapshot(ctx, templatesResource)
	if err != nil {
		return nil, err
	}
	known := make([]*tenantv1beta1.WorkspaceTemplate, len(ops))
	for i, g := range ops {
		record, found := templates.Get("", g.Workspace)
		if !found {
			return nil, apierrors.NewNotFound(templatesResource.GroupResource(), g.Workspace)
		}
		known[i] = &tenantv1beta1.WorkspaceTemplate{}
		if err := json.Unmarshal([]byte(record.JSON.String()), known[i]); err != nil {
			return nil, fmt.Errorf("read the workspace %q: %w", g.Workspace, err)
		}
		if _, err := placing(name, g, known[i]); err != nil {
			return nil, err
		}
		if err := h.permitPlacing(r.Request, g.Workspace); err != nil {
			return nil, err
		}
	}
	for i, g := range ops {
		if err := h.place(ctx, name, g, known[i]); err != nil {
			return nil, after(err, "the workspace %q was not written, the %d before it were", g.Workspace, i)
		}
	}
	return struct{}{}, nil
}

// place writes a template that is known from the cache, or, where that is not the newest, as it is read. What seems to be done already is
// read too: a write that the cache does not have yet may have undone it.
func (h *V1alpha1) place(ctx context.Context, cluster string, g grant, known *tenantv1beta1.WorkspaceTemplate) error {
	gr := templatesResource.GroupResource()
	_, err := caller.Change(ctx, caller.Seen{Resource: gr, Name: g.Workspace},
		func(ctx context.Context) (*tenantv1beta1.WorkspaceTemplate, error) {
			if now := known; now != nil {
				known = nil
				if order, err := placing(cluster, g, now); err != nil || order != nil {
					return now, err
				}
			}
			now := &tenantv1beta1.WorkspaceTemplate{}
			return now, h.AsCaller.Into(ctx, caller.Order{Method: http.MethodGet, Path: templatesPath + "/" + g.Workspace}, gr, now)
		},
		func(ctx context.Context, now *tenantv1beta1.WorkspaceTemplate) (any, error) {
			order, err := placing(cluster, g, now)
			if err != nil || order == nil {
				return nil, err
			}
			_, err = h.AsCaller.Do(ctx, *order)
			return nil, err
		})
	return err
}

// opsOf returns the operations, one for each workspace, in the order of their names.
func opsOf(in []grant) ([]grant, error) {
	if len(in) == 0 || len(in) > mostGrants {
		return nil, status.BadRequestf("the body has %d operations, and not 1 to %d", len(in), mostGrants)
	}
	out := slices.SortedFunc(slices.Values(in), func(a, b grant) int { return strings.Compare(a.Workspace, b.Workspace) })
	for i, g := range out {
		switch {
		case g.Op != "add" && g.Op != "remove":
			return nil, status.BadRequestf("op is %.40q, and not add or remove", g.Op)
		case g.Workspace == "":
			return nil, status.BadRequestf("an operation names no workspace")
		case i > 0 && out[i-1].Workspace == g.Workspace:
			return nil, status.BadRequestf("the workspace %.100q is named twice", g.Workspace)
		}
	}
	return out, nil
}

// permitPlacing returns an error unless the caller may change the placement of a workspace.
func (h *V1alpha1) permitPlacing(in *http.Request, workspace string) error {
	r, err := http.NewRequestWithContext(in.Context(), http.MethodPatch, "/", http.NoBody)
	if err != nil {
		return err
	}
	r.URL = &url.URL{Path: templatesPath + "/" + workspace}
	_, err = authz.Permit(h.AsCaller.May, r)
	return err
}

// placing returns the write of an operation, nil where the workspace is as it is to be.
func placing(cluster string, g grant, t *tenantv1beta1.WorkspaceTemplate) (*caller.Order, error) {
	if t.Name == tenantv1beta1.SystemWorkspace && g.Op == "remove" {
		return nil, status.Forbiddenf("the workspace %s is in every cluster", t.Name)
	}
	clusters := slices.Clone(t.Spec.Placement.Clusters)
	i := slices.IndexFunc(clusters, func(c tenantv1beta1.PlacementCluster) bool { return c.Name == cluster })
	switch {
	case g.Op == "add" && i < 0:
		clusters = append(clusters, tenantv1beta1.PlacementCluster{Name: cluster})
	case g.Op == "remove" && i >= 0:
		clusters = slices.Delete(clusters, i, i+1)
	default:
		return nil, nil
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": t.UID, "resourceVersion": t.ResourceVersion}, // what was judged is what is written
		"spec":     map[string]any{"placement": map[string]any{"clusters": clusters}},
	})
	if err != nil {
		return nil, err
	}
	path := templatesPath + "/" + g.Workspace
	return &caller.Order{Method: http.MethodPatch, Path: path, Type: "application/merge-patch+json", Body: body}, nil
}
