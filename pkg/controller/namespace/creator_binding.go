package namespace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/builtinrole"
)

// admin is the built-in role that the creator of a namespace gets.
const admin = "admin"

// settle records that the creator of the namespace is not due a role (any more).
func (r *Reconciler) settle(ctx context.Context, ns *metav1.PartialObjectMetadata) error {
	if ns.Annotations[AnnotationInitialized] != "" {
		return nil
	}
	before := ns.DeepCopy()
	if ns.Annotations == nil {
		ns.Annotations = map[string]string{}
	}
	ns.Annotations[AnnotationInitialized] = "true"
	return r.patch(ctx, ns, before)
}

// creator binds the creator of the namespace to its role admin. If the namespace has that role already, an older
// installation has initialized it, or this program stopped after the binding was made. A namespace with a name of the system is nobody's
// by its annotation: what the platform installs there later would be theirs.
func (r *Reconciler) creator(ctx context.Context, ns *metav1.PartialObjectMetadata, patterns []*builtinrole.Pattern) error {
	name := ns.Annotations[tenantv1beta1.AnnotationCreator]
	if name == "" || tenantv1beta1.IsReservedNamespace(ns.Name) ||
		strings.HasPrefix(name, "system:") || strings.HasPrefix(name, iamv1beta1.SyntheticGroupPrefix) ||
		!slices.ContainsFunc(patterns, func(p *builtinrole.Pattern) bool { return p.Name == admin }) {
		return nil
	}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: ns.Name, Name: admin}, &iamv1beta1.Role{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	u := &iamv1beta1.User{}
	err = r.Client.Get(ctx, types.NamespacedName{Name: name}, u)
	if apierrors.IsNotFound(err) || err == nil && !u.DeletionTimestamp.IsZero() {
		r.Events.Eventf(ns, nil, corev1.EventTypeWarning, "CreatorUnknown", "BindCreator", "The creator %q is no user: nobody gets the role %s.",
			name, admin)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read user %q: %w", name, err)
	}
	b := &iamv1beta1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name + "-" + admin},
		RoleRef:    rbacv1.RoleRef{APIGroup: iamv1beta1.GroupName, Kind: iamv1beta1.KindRole, Name: admin},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	iamv1beta1.SetReference(b, iamv1beta1.LabelRoleReference, admin)
	iamv1beta1.SetReference(b, iamv1beta1.LabelUserReference, name)
	if err := r.Client.Create(ctx, b); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give namespace %q to its creator: %w", ns.Name, err)
	}
	return nil
}
