package tenant

import (
	"context"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// quota is a quota of a workspace: a cluster-scoped object that carries its label, and selects its namespaces by it.
func (h *Handler) quota(workspace, name string) *target {
	t := &target{Handler: h, gvr: quotasKind, name: name, implied: true}
	t.check = func(_ context.Context, old, next *unstructured.Unstructured) error {
		if old != nil && old.GetLabels()[tenantv1beta1.LabelWorkspace] != workspace {
			return apierrors.NewNotFound(quotasKind.GroupResource(), name)
		}
		if next == nil {
			return nil
		}
		if err := stamp(next, workspace); err != nil {
			return err
		}
		selector := map[string]any{tenantv1beta1.LabelWorkspace: workspace}
		if err := unstructured.SetNestedMap(next.Object, selector, "spec", "selector"); err != nil {
			return status.BadRequestf("spec in the body must be an object: %v", err)
		}
		return nil
	}
	return t
}

// stamp sets the label of a workspace. A body with another one is refused: nothing is moved by its label (S7).
func stamp(o *unstructured.Unstructured, workspace string) error {
	labels := o.GetLabels()
	if said, set := labels[tenantv1beta1.LabelWorkspace]; set && said != workspace {
		return status.BadRequestf("the label %s in the body is %.100q, in the path the workspace is %q: they must be the same",
			tenantv1beta1.LabelWorkspace, said, workspace)
	}
	if labels == nil {
		labels = map[string]string{}
	}
	labels[tenantv1beta1.LabelWorkspace] = workspace
	o.SetLabels(labels)
	return nil
}

func (h *Handler) createQuota(r *restful.Request) (any, error) {
	workspace := r.PathParameter("workspace")
	o, err := readObject(r.Request, quotasKind.GroupVersion().String(), "ResourceQuota")
	if err != nil {
		return nil, err
	}
	if err := h.open(r.Request.Context(), workspace); err != nil {
		return nil, err
	}
	return h.quota(workspace, o.GetName()).create(r, o)
}

func (h *Handler) getQuota(r *restful.Request) (any, error) {
	ctx, workspace, name := r.Request.Context(), r.PathParameter("workspace"), r.PathParameter("resourcequota")
	kind, err := h.Resources.Catalog().Resolve(ctx, quotasKind)
	if err != nil {
		return nil, err
	}
	return h.Resources.Get(ctx, kind, plan.Scope{Workspace: workspace}, name)
}

func (h *Handler) updateQuota(r *restful.Request) (any, error) {
	workspace, name := r.PathParameter("workspace"), r.PathParameter("resourcequota")
	o, err := readObject(r.Request, quotasKind.GroupVersion().String(), "ResourceQuota")
	if err != nil {
		return nil, err
	}
	if err := named(o, name); err != nil {
		return nil, err
	}
	return h.quota(workspace, name).replace(r, o)
}

func (h *Handler) deleteQuota(r *restful.Request) (any, error) {
	workspace, name := r.PathParameter("workspace"), r.PathParameter("resourcequota")
	d, err := web.ReadDeleteOptions(r.Request)
	if err != nil {
		return nil, err
	}
	return h.quota(workspace, name).remove(r, d, nil)
}
