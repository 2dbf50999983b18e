package tenant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	namespaces = "namespaces"
	// podSecurity is the prefix of the labels that say what pods of a namespace may do.
	podSecurity = "pod-security.kubernetes.io/"
)

// namespace is a namespace of a workspace, which it neither leaves nor enters by a write here (S7).
func (h *Handler) namespace(workspace, name string) *target {
	t := &target{Handler: h, gvr: namespacesKind, name: name, implied: true}
	t.check = func(ctx context.Context, old, next *unstructured.Unstructured) error {
		if old != nil && old.GetLabels()[tenantv1beta1.LabelWorkspace] != workspace {
			return apierrors.NewNotFound(namespacesKind.GroupResource(), name)
		}
		if next == nil {
			return protected(old)
		}
		_, said := next.GetLabels()[tenantv1beta1.LabelWorkspace]
		if isObserved(next) && !said { // a patch removed it
			return status.BadRequestf("the label %s can't be removed: move the namespace to another workspace instead", tenantv1beta1.LabelWorkspace)
		}
		if err := stamp(next, workspace); err != nil {
			return err
		}
		return h.checkLabels(ctx, old, next)
	}
	return t
}

// isObserved reports whether an object comes from kube-apiserver, and not from a request.
func isObserved(o *unstructured.Unstructured) bool { return o.GetUID() != "" }

// checkLabels refuses to change what pods of a namespace may do (S8), and its protection against deletion, for callers who may not
// update all namespaces.
func (h *Handler) checkLabels(ctx context.Context, old, next *unstructured.Unstructured) error {
	before := map[string]string{}
	if old != nil {
		before = guardedLabels(old)
	}
	if maps.Equal(before, guardedLabels(next)) {
		return nil
	}
	all, err := h.may(ctx, right("update", namespacesKind, "", request.Cluster))
	if err != nil || all {
		return err
	}
	return apierrors.NewForbidden(namespacesKind.GroupResource(), next.GetName(),
		errors.New("the labels "+podSecurity+"* and "+tenantv1beta1.LabelProtectedResource+" are set by those who may update all namespaces"))
}

func guardedLabels(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for k, v := range o.GetLabels() {
		if strings.HasPrefix(k, podSecurity) || k == tenantv1beta1.LabelProtectedResource {
			out[k] = v
		}
	}
	return out
}

// protected refuses to delete a protected object.
func protected(o *unstructured.Unstructured) error {
	if _, ok := o.GetLabels()[tenantv1beta1.LabelProtectedResource]; !ok {
		return nil
	}
	return apierrors.NewForbidden(namespacesKind.GroupResource(), o.GetName(),
		fmt.Errorf("it is protected by the label %s: who may change that removes it first", tenantv1beta1.LabelProtectedResource))
}

// open refuses to put anything into a workspace that does not exist, or is being deleted.
func (h *Handler) open(ctx context.Context, workspace string) error {
	kind, err := h.Resources.Catalog().Resolve(ctx, workspacesKind)
	if err != nil {
		return err
	}
	o, err := h.Resources.Get(ctx, kind, plan.Scope{}, workspace)
	if err != nil {
		return err
	}
	if o.JSON.Get("metadata", "deletionTimestamp") != "" {
		return apierrors.NewConflict(workspacesKind.GroupResource(), workspace, errors.New("it is being deleted"))
	}
	return nil
}

func (h *Handler) createNamespace(r *restful.Request) (any, error) {
	ctx, workspace := r.Request.Context(), r.PathParameter("workspace")
	o, err := readObject(r.Request, "v1", "Namespace")
	if err != nil {
		return nil, err
	}
	if err := h.open(ctx, workspace); err != nil {
		return nil, err
	}
	if tenantv1beta1.IsReservedNamespace(o.GetName()) {
		if err := h.forAdministrators(ctx, o.GetName()); err != nil {
			return nil, err
		}
	}
	// The creator of a namespace becomes its administrator: a request can't name another (S6).
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[tenantv1beta1.AnnotationCreator] = request.UserFrom(ctx).GetName()
	o.SetAnnotations(annotations)
	return h.namespace(workspace, o.GetName()).create(r, o)
}

// forAdministrators refuses callers who may not do everything on the platform.
func (h *Handler) forAdministrators(ctx context.Context, namespace string) error {
	all, err := h.may(ctx, everything(request.Global))
	if err != nil || all {
		return err
	}
	return apierrors.NewForbidden(namespacesKind.GroupResource(), namespace,
		errors.New("it is a namespace of the system: ask an administrator of the platform"))
}

func (h *Handler) updateNamespace(r *restful.Request) (any, error) {
	workspace, name := r.PathParameter("workspace"), r.PathParameter("namespace")
	o, err := readObject(r.Request, "v1", "Namespace")
	if err != nil {
		return nil, err
	}
	if err := named(o, name); err != nil {
		return nil, err
	}
	o.SetUID("")
	return h.namespace(workspace, name).replace(r, o)
}

func (h *Handler) patchNamespace(r *restful.Request) (any, error) {
	workspace, name := r.PathParameter("workspace"), r.PathParameter("namespace")
	return h.namespace(workspace, name).patch(r)
}

func (h *Handler) deleteNamespace(r *restful.Request) (any, error) {
	workspace, name := r.PathParameter("workspace"), r.PathParameter("namespace")
	d, err := web.ReadDeleteOptions(r.Request)
	if err != nil {
		return nil, err
	}
	return h.namespace(workspace, name).remove(r, d, nil)
}
