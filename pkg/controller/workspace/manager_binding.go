package workspace

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// adminSuffix ends the name of a workspace's role for its manager, and of the manager's binding.
const adminSuffix = "-admin"

// manager reconciles the binding by which the manager manages the workspace: its subject is the current manager, so that a
// former one loses that right, but none that they were given otherwise. A name without a user gets nothing: a user recreated
// under an old name must not inherit the right.
func (r *Reconciler) manager(ctx context.Context, w *tenantv1beta1.Workspace) (wrong, err error) {
	name, manager := w.Name+adminSuffix, w.Spec.Manager
	b := &iamv1beta1.WorkspaceRoleBinding{}
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, b)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the binding of the manager of workspace %q: %w", w.Name, err)
	}
	exists := err == nil
	// The annotation alone can be written by others: a binding of another workspace with this annotation is not this one's.
	ours := exists && b.Annotations[AnnotationManager] == w.Name && b.Labels[tenantv1beta1.LabelWorkspace] == w.Name
	if manager != "" {
		u := &iamv1beta1.User{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: manager}, u)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read user %q: %w", manager, err)
		}
		if apierrors.IsNotFound(err) || !u.DeletionTimestamp.IsZero() {
			wrong, manager = fmt.Errorf("the manager %q is no user", manager), ""
		}
	}
	switch {
	case manager == "":
		if !ours || !b.DeletionTimestamp.IsZero() {
			return wrong, nil
		}
		if err := r.Client.Delete(ctx, b, client.Preconditions{UID: &b.UID}); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("take the workspace %q from its former manager: %w", w.Name, err)
		}
		return wrong, nil
	case exists && !ours && !older(b, w.Name, manager):
		return fmt.Errorf("the manager %q has no right by it: the name of the binding, %q, is that of another one", manager, name), nil
	case exists && !b.DeletionTimestamp.IsZero():
		return nil, nil // its deletion will be an event
	}
	return nil, r.bind(ctx, w, b, exists, manager)
}

// older reports whether a binding is the manager's, as an older installation left it.
func older(b *iamv1beta1.WorkspaceRoleBinding, workspace, manager string) bool {
	return b.Labels[tenantv1beta1.LabelWorkspace] == workspace && len(b.Subjects) == 1 &&
		b.Subjects[0].Kind == rbacv1.UserKind && b.Subjects[0].Name == manager
}

func (r *Reconciler) bind(ctx context.Context, w *tenantv1beta1.Workspace, b *iamv1beta1.WorkspaceRoleBinding, exists bool,
	manager string) error {
	role := w.Name + adminSuffix
	before := b.DeepCopy()
	b.Name = role
	if b.Labels == nil {
		b.Labels = map[string]string{}
	}
	b.Labels[tenantv1beta1.LabelWorkspace] = w.Name
	iamv1beta1.SetReference(b, iamv1beta1.LabelUserReference, manager)
	iamv1beta1.SetReference(b, iamv1beta1.LabelRoleReference, role)
	if b.Annotations == nil {
		b.Annotations = map[string]string{}
	}
	b.Annotations[AnnotationManager] = w.Name
	b.RoleRef = rbacv1.RoleRef{APIGroup: iamv1beta1.GroupName, Kind: iamv1beta1.KindWorkspaceRole, Name: role}
	b.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: manager}}
	if !exists {
		if err := r.Client.Create(ctx, b); err != nil {
			return fmt.Errorf("give workspace %q to its manager: %w", w.Name, err)
		}
		return nil
	}
	if equality.Semantic.DeepEqual(before, b) {
		return nil
	}
	if err := r.Client.Patch(ctx, b, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("give workspace %q to its manager: %w", w.Name, err)
	}
	return nil
}
