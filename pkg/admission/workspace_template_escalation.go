package admission

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

var (
	templatesKind = tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates")
	clustersKind  = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")
)

// CheckTemplate refuses what the right to write one WorkspaceTemplate does not cover. old is nil for a creation.
//
//	a creation over an existing object of the name    to update and delete that
//	owners, finalizers, what becomes of namespaces    to delete any workspace template; the last, to delete this one
//	any change                                        to update or delete the template: others may only patch all of them
//	labels of the workspaces                          to delete any workspace template
//	a change of protection or overrides               the same
//	a placement                                       on creation, a right to each cluster; a change also needs to update any template
func CheckTemplate(ctx context.Context, rights WriterRights, old, next *tenantv1beta1.WorkspaceTemplate) error {
	before := &tenantv1beta1.WorkspaceTemplate{}
	if old != nil {
		before = old
		if ok, err := edits(ctx, rights, next.Name); err != nil || !ok {
			return denied(next.Name, err, "the template of a workspace is changed by those who may update it, on the platform or in the workspace")
		}
	}
	if what, always := restricted(before, next); what != "" && (old != nil || always) {
		if ok, err := rights.May(ctx, "delete", templatesKind); err != nil || !ok {
			return denied(next.Name, err, "%s is set by those who may delete any workspace template", what)
		}
	}
	if old == nil {
		if err := checkCreation(ctx, rights, templatesKind, next.Name); err != nil {
			return err
		}
	}
	if err := checkEnd(ctx, rights, templatesKind, next.Name, &before.ObjectMeta, &next.ObjectMeta); err != nil {
		return err
	}
	return checkPlacement(ctx, rights, old != nil, next.Name, &before.Spec.Placement, &next.Spec.Placement)
}

// edits reports whether the writer may update or delete the template of a workspace: a deletion first writes into it what happens to the
// namespaces.
func edits(ctx context.Context, rights WriterRights, workspace string) (bool, error) {
	if ok, err := rights.MayIn(ctx, "update", templatesKind, workspace); err != nil || ok {
		return ok, err
	}
	return rights.MayIn(ctx, "delete", templatesKind, workspace)
}

// restricted names a change that not every writer of the template may make; empty for none. always is true of what chooses the roles of
// the workspaces to be made, and when these go: not every creator may set that either.
func restricted(before, after *tenantv1beta1.WorkspaceTemplate) (what string, always bool) {
	const label = tenantv1beta1.LabelProtectedResource
	was, is := &before.Spec.Template.ObjectMeta, &after.Spec.Template.ObjectMeta
	switch {
	case !equality.Semantic.DeepEqual(was.Labels, is.Labels), !slices.Equal(was.Finalizers, is.Finalizers),
		!equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences):
		return "spec.template.metadata, but for its annotations,", true
	case before.Labels[label] != after.Labels[label]:
		return "the label " + label, false
	case !equality.Semantic.DeepEqual(before.Spec.Overrides, after.Spec.Overrides):
		return "spec.overrides", false
	}
	return "", false
}

// checkPlacement refuses to place a workspace in a cluster, or to remove it from one, without a right to the cluster.
func checkPlacement(ctx context.Context, rights WriterRights, exists bool, name string, before, after *tenantv1beta1.Placement) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	selects := !equality.Semantic.DeepEqual(before.ClusterSelector, after.ClusterSelector)
	if _, err := metav1.LabelSelectorAsSelector(after.ClusterSelector); err != nil && selects { // one that was stored before stays
		return apierrors.NewBadRequest(fmt.Sprintf("spec.placement.clusterSelector can't be read: %v", err))
	}
	if exists {
		if ok, err := rights.May(ctx, "update", templatesKind); err != nil || !ok {
			return denied(name, err, "spec.placement is changed by those who may update any workspace template")
		}
	}
	if all, err := rights.May(ctx, "delete", clustersKind); err != nil || all {
		return err
	}
	if selects {
		return denied(name, nil, "spec.placement.clusterSelector, which finds clusters whatever their visibility, is set by those who may"+
			" delete clusters")
	}
	came, went := difference(after.Clusters, before.Clusters), difference(before.Clusters, after.Clusters)
	for _, cluster := range came {
		if open, err := rights.IsPublic(ctx, cluster); err != nil {
			return err
		} else if open {
			continue
		}
		went = append(went, cluster)
	}
	for _, cluster := range went {
		if ok, err := rights.Administers(ctx, cluster); err != nil || !ok {
			return denied(name, err, "the cluster %q is not public, or the workspace is taken out of it: an administrator of the cluster does that",
				cluster)
		}
	}
	return nil
}

// difference returns the names in a that are not in b.
func difference(a, b []tenantv1beta1.PlacementCluster) []string {
	var out []string
	for _, c := range a {
		if !slices.Contains(b, c) {
			out = append(out, c.Name)
		}
	}
	return out
}

// denied returns err, or the refusal.
func denied(template string, err error, format string, args ...any) error {
	return deniedOf(templatesKind, template, err, format, args...)
}

// deniedOf is denied for an object of another kind.
func deniedOf(kind schema.GroupVersionResource, name string, err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return apierrors.NewForbidden(kind.GroupResource(), name, fmt.Errorf(format, args...))
}

// template checks the template of a workspace: its manager, and everything that CheckTemplate checks.
func (q *escalationCheck) template() error {
	if q.Verb == "delete" {
		return nil
	}
	if err := q.workspace(); err != nil {
		return err
	}
	next := &tenantv1beta1.WorkspaceTemplate{}
	if err := decodeInto(q.Object, next); err != nil {
		return q.refuse("the object can't be read: " + err.Error())
	}
	next.Name = q.Name
	var old *tenantv1beta1.WorkspaceTemplate
	if q.updates() {
		old = &tenantv1beta1.WorkspaceTemplate{}
		if err := decodeInto(q.Old, old); err != nil {
			return q.refuse("the object as it is can't be read: " + err.Error())
		}
	}
	return CheckTemplate(q.ctx, held{q}, old, next)
}
