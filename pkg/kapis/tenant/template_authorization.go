package tenant

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/admission"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
)

var managerPath = []string{"spec", "template", "spec", "manager"}

// checkTemplate refuses changes that the right to write one template does not cover: a manager other than the caller or the former
// one, fields that only controllers and managers of workspaces change, and what kube-apiserver's admission refuses too.
func (h *Handler) checkTemplate(ctx context.Context, old, next *unstructured.Unstructured) error {
	if next == nil {
		return protectedTemplate(old)
	}
	var before *tenantv1beta1.WorkspaceTemplate
	if old != nil {
		before = &tenantv1beta1.WorkspaceTemplate{}
		if err := convert(old, before); err != nil {
			return err
		}
	}
	after := &tenantv1beta1.WorkspaceTemplate{}
	if err := convert(next, after); err != nil {
		return status.BadRequestf("the body is no WorkspaceTemplate: %v", err)
	}
	rights := writerRights{h}
	if what := guarded(ctx, before, after); what != "" {
		manages, err := rights.May(ctx, "delete", templatesKind)
		if err != nil {
			return err
		}
		if !manages {
			return forbidden(next.GetName(), "%s is set by those who may delete any workspace template", what)
		}
	}
	return admission.CheckTemplate(ctx, rights, before, after)
}

func convert(from *unstructured.Unstructured, into *tenantv1beta1.WorkspaceTemplate) error {
	raw, err := json.Marshal(map[string]any{"metadata": from.Object["metadata"], "spec": from.Object["spec"]})
	if err != nil {
		return fmt.Errorf("encode a workspace template: %w", err)
	}
	return json.Unmarshal(raw, into)
}

func protectedTemplate(o *unstructured.Unstructured) error {
	if _, ok := o.GetLabels()[tenantv1beta1.LabelProtectedResource]; !ok {
		return nil
	}
	return forbidden(o.GetName(), "it is protected by the label %s: who may change that removes it first",
		tenantv1beta1.LabelProtectedResource)
}

// guarded names a changed field that not every writer of the template may change, besides those of admission.CheckTemplate; empty for
// none. Controllers write it too, so it is checked only here.
func guarded(ctx context.Context, before, after *tenantv1beta1.WorkspaceTemplate) string {
	manager, was := after.Spec.Template.Spec.Manager, request.UserFrom(ctx).GetName()
	if before != nil {
		was = before.Spec.Template.Spec.Manager
	}
	switch {
	case manager != was:
		return "spec.template.spec.manager"
	case before == nil:
		return ""
	case !slices.Equal(before.Finalizers, after.Finalizers):
		return "metadata.finalizers"
	case !equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences):
		return "metadata.ownerReferences"
	}
	return ""
}

// writerRights are those of the caller of a request.
type writerRights struct{ *Handler }

// MayIn implements admission.WriterRights.
func (p writerRights) MayIn(ctx context.Context, verb string, gvr schema.GroupVersionResource, workspace string) (bool, error) {
	i := right(verb, gvr, workspace, request.Workspace)
	i.Workspace = workspace
	return p.may(ctx, i)
}

// MayInNamespaces implements admission.WriterRights. It is the right that moving one out of the workspace takes.
func (p writerRights) MayInNamespaces(ctx context.Context, verb, workspace string) (bool, error) {
	i := right(verb, tenantNamespaces, "", request.Workspace)
	i.Workspace = workspace
	if ok, err := p.may(ctx, i); err != nil || ok {
		return ok, err
	}
	return p.may(ctx, right(verb, namespacesKind, "", request.Cluster))
}

// Exists implements admission.WriterRights.
func (p writerRights) Exists(ctx context.Context, gvr schema.GroupVersionResource, name string) (bool, error) {
	kind, err := p.Resources.Catalog().Resolve(ctx, gvr)
	if err != nil {
		return false, err
	}
	_, err = p.Resources.Get(ctx, kind, plan.Scope{}, name)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Leftovers implements admission.WriterRights. Of the application store the webhook of kube-apiserver asks, which sees the same
// write.
func (p writerRights) Leftovers(_ context.Context, workspace string) (left admission.Leftovers, err error) {
	left.Namespaces, left.Bindings = p.Labelled.Leftovers(workspace)
	return left, nil
}

// May implements admission.WriterRights.
func (p writerRights) May(ctx context.Context, verb string, gvr schema.GroupVersionResource) (bool, error) {
	return p.may(ctx, right(verb, gvr, "", request.Global))
}

// Administers implements admission.WriterRights. What is bound in other clusters than this one is not known here.
func (p writerRights) Administers(ctx context.Context, cluster string) (bool, error) {
	if cluster != p.Fleet.Host {
		return false, nil
	}
	return p.may(ctx, everything(request.Cluster))
}

// IsPublic implements admission.WriterRights.
func (p writerRights) IsPublic(ctx context.Context, cluster string) (bool, error) {
	return p.Fleet.IsPublic(ctx, cluster)
}

func forbidden(template, format string, args ...any) error {
	return apierrors.NewForbidden(templatesKind.GroupResource(), template, fmt.Errorf(format, args...))
}
