package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

var (
	templatesKind = tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates")
	clustersKind  = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")
)

// PlacementRights are further rights of the writer of a WorkspaceTemplate.
type PlacementRights interface {
	// MayIn reports whether the writer may do a verb on the object of a kind that has the name of a workspace, on the platform or in that
	// workspace.
	MayIn(ctx context.Context, verb string, gvr schema.GroupVersionResource, workspace string) (bool, error)
	// MayInNamespaces reports whether the writer may do a verb on all namespaces of a workspace, in the cluster or in that workspace.
	MayInNamespaces(ctx context.Context, verb, workspace string) (bool, error)
	// Exists reports whether there is a workspace, or a template of one, of a name.
	Exists(ctx context.Context, gvr schema.GroupVersionResource, name string) (bool, error)
	// Leftovers returns what has the label of a workspace that is not there.
	Leftovers(ctx context.Context, workspace string) (Leftovers, error)
	// May reports whether the writer may do a verb on all objects of a kind, on the platform.
	May(ctx context.Context, verb string, gvr schema.GroupVersionResource) (bool, error)
	// Administers reports whether the writer may do everything in a cluster.
	Administers(ctx context.Context, cluster string) (bool, error)
	// IsPublic reports whether every workspace may be placed in a cluster.
	IsPublic(ctx context.Context, cluster string) (bool, error)
}

// Leftovers are what has the label of a workspace that is not there: a new workspace of that name would have it.
type Leftovers struct {
	Namespaces, Bindings bool
	// InStore is the plural of a kind of the application store of which an object has it, "" for none.
	InStore string
}

// CheckTemplate refuses what the right to write one WorkspaceTemplate does not cover. old is nil for a creation.
//
//	a creation over an existing object of the name    to update and delete that
//	owners, finalizers, what becomes of namespaces    to delete any workspace template; the last, to delete this one
//	any change                                        to update or delete the template: others may only patch all of them
//	protection, overrides, labels of the workspaces   to delete any workspace template
//	a placement                                       on creation, a right to each cluster; a change also needs to update any template
func CheckTemplate(ctx context.Context, rights PlacementRights, old, next *tenantv1beta1.WorkspaceTemplate) error {
	before := &tenantv1beta1.WorkspaceTemplate{}
	if old != nil {
		before = old
		if ok, err := edits(ctx, rights, next.Name); err != nil || !ok {
			return denied(next.Name, err, "the template of a workspace is changed by those who may update it, on the platform or in the workspace")
		}
		if what := restricted(before, next); what != "" {
			if ok, err := rights.May(ctx, "delete", templatesKind); err != nil || !ok {
				return denied(next.Name, err, "%s is set by those who may delete any workspace template", what)
			}
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
func edits(ctx context.Context, rights PlacementRights, workspace string) (bool, error) {
	if ok, err := rights.MayIn(ctx, "update", templatesKind, workspace); err != nil || ok {
		return ok, err
	}
	return rights.MayIn(ctx, "delete", templatesKind, workspace)
}

// restricted names a change that not every writer of the template may make; empty for none.
func restricted(before, after *tenantv1beta1.WorkspaceTemplate) string {
	const label = tenantv1beta1.LabelProtectedResource
	was, is := &before.Spec.Template.ObjectMeta, &after.Spec.Template.ObjectMeta
	switch {
	case before.Labels[label] != after.Labels[label]:
		return "the label " + label
	case !equality.Semantic.DeepEqual(was.Labels, is.Labels), !slices.Equal(was.Finalizers, is.Finalizers),
		!equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences):
		return "spec.template.metadata, but for its annotations,"
	case !equality.Semantic.DeepEqual(before.Spec.Overrides, after.Spec.Overrides):
		return "spec.overrides"
	}
	return ""
}

// checkPlacement refuses to place a workspace in a cluster, or to remove it from one, without a right to the cluster.
func checkPlacement(ctx context.Context, rights PlacementRights, exists bool, name string, before, after *tenantv1beta1.Placement) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	if exists {
		if ok, err := rights.May(ctx, "update", templatesKind); err != nil || !ok {
			return denied(name, err, "spec.placement is changed by those who may update any workspace template")
		}
	}
	if all, err := rights.May(ctx, "delete", clustersKind); err != nil || all {
		return err
	}
	if !equality.Semantic.DeepEqual(before.ClusterSelector, after.ClusterSelector) {
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

// held are the PlacementRights by what the writer holds.
type held struct{ *escalationCheck }

// MayIn implements PlacementRights.
func (h held) MayIn(ctx context.Context, verb string, gvr schema.GroupVersionResource, workspace string) (bool, error) {
	at := authz.BindingScope{Scope: request.Workspace, Workspace: workspace}
	rule := []rbacv1.PolicyRule{{
		Verbs: []string{verb}, APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}, ResourceNames: []string{workspace},
	}}
	return h.holds(ctx, at, rule, verb, gvr, workspace)
}

// MayInNamespaces implements PlacementRights. Roles of a workspace name its namespaces in either group.
func (h held) MayInNamespaces(ctx context.Context, verb, workspace string) (bool, error) {
	at := authz.BindingScope{Scope: request.Workspace, Workspace: workspace}
	for _, gvr := range []schema.GroupVersionResource{{Version: "v1", Resource: "namespaces"},
		tenantv1beta1.SchemeGroupVersion.WithResource("namespaces")} {
		rule := []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}}}
		if ok, err := h.holds(ctx, at, rule, verb, gvr, ""); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

// Exists implements PlacementRights.
func (h held) Exists(_ context.Context, gvr schema.GroupVersionResource, name string) (bool, error) {
	if h.guard.Known == nil {
		return false, errors.New("see whether there is a workspace of the name: workspaces are not known here")
	}
	return h.guard.Known.exists(gvr, name), nil
}

// Leftovers implements PlacementRights.
func (h held) Leftovers(ctx context.Context, workspace string) (left Leftovers, err error) {
	left.Namespaces, left.Bindings = h.guard.Holdings.Leftovers(workspace)
	if h.guard.InStore != nil {
		left.InStore, err = h.guard.InStore(ctx, workspace)
	}
	return left, err
}

// May implements PlacementRights.
func (h held) May(ctx context.Context, verb string, gvr schema.GroupVersionResource) (bool, error) {
	rule := []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{gvr.Group}, Resources: []string{gvr.Resource}}}
	return h.holds(ctx, authz.BindingScope{}, rule, verb, gvr, "")
}

// Administers implements PlacementRights. Bindings in other clusters are not known here.
func (h held) Administers(ctx context.Context, cluster string) (bool, error) {
	if h.guard.Host == "" || cluster != h.guard.Host {
		return false, nil
	}
	all := []string{"*"}
	rule := []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}}
	return h.holds(ctx, authz.BindingScope{Scope: request.Cluster}, rule, "*",
		schema.GroupVersionResource{Group: "*", Version: "*", Resource: "*"}, "")
}

// IsPublic implements PlacementRights.
func (h held) IsPublic(_ context.Context, cluster string) (bool, error) {
	if h.guard.Known == nil {
		return false, errors.New("see whether a cluster is public: clusters are not known here")
	}
	return h.guard.Known.isPublic(cluster), nil
}

// holds reports whether the writer holds a rule at a scope, or, for a writer who is no user of ours, whether kube-apiserver allows it.
func (h held) holds(ctx context.Context, at authz.BindingScope, rule []rbacv1.PolicyRule, verb string, gvr schema.GroupVersionResource,
	name string) (bool, error) {
	if len(h.guard.Holdings.Missing(h.By, at, rule)) == 0 {
		return true, nil
	}
	if h.guard.Native == nil {
		return false, nil
	}
	ok, err := h.guard.Native(ctx, h.By, verb, gvr, "", name)
	if err != nil {
		return false, fmt.Errorf("ask kube-apiserver whether %s may %s %s: %w", h.By.GetName(), verb, gvr.Resource, err)
	}
	return ok, nil
}
