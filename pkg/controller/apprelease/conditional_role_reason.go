package apprelease

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// onlyHere says why a right of the author does not count for a release: kube-apiserver decides, and knows neither conditions nor policies
// of roles. It names the role of the author, where there is one that has such a thing.
func (r *Reconciler) onlyHere(ctx context.Context, rel *v2.ApplicationRelease) string {
	const always = "Only rights that kube-apiserver knows count, and none that a policy or a condition gives"
	as, err := r.author(ctx, rel)
	if err != nil {
		return always
	}
	role, err := r.conditional(ctx, rel, as)
	if err != nil {
		klog.ErrorS(err, "find the conditional roles of the author of a release", "release", rel.Name)
	}
	if role == "" {
		return always
	}
	return fmt.Sprintf("%s: what %s gives %s depends on one, and counts for requests of theirs, but not for a release. It takes a role "+
		"that gives the right without it", always, role, as.user)
}

// conditional returns a role with a condition or a policy that a user has where a release is; "" for none.
func (r *Reconciler) conditional(ctx context.Context, rel *v2.ApplicationRelease, as *author) (string, error) {
	named := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.UserKind && s.Name == as.user || s.Kind == rbacv1.GroupKind && slices.Contains(as.groups, s.Name)
		})
	}
	depends := func(role client.Object, namespace, name string) (bool, error) {
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, role)
		a := role.GetAnnotations()
		return err == nil && a[iamv1beta1.AnnotationCELCondition]+a[iamv1beta1.AnnotationRegoOverride] != "", client.IgnoreNotFound(err)
	}
	namespace := rel.Labels[v2.LabelNamespace]
	bindings := &iamv1beta1.RoleBindingList{}
	if err := r.Client.List(ctx, bindings, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; named(b.Subjects) {
			if is, err := depends(&iamv1beta1.Role{}, namespace, b.RoleRef.Name); is || err != nil {
				return fmt.Sprintf("the Role %q of the namespace", b.RoleRef.Name), err
			}
		}
	}
	ofWorkspace := &iamv1beta1.WorkspaceRoleBindingList{}
	if err := r.Client.List(ctx, ofWorkspace, client.MatchingLabels{v2.LabelWorkspace: rel.Labels[v2.LabelWorkspace]}); err != nil {
		return "", err
	}
	for i := range ofWorkspace.Items {
		if b := &ofWorkspace.Items[i]; named(b.Subjects) {
			if is, err := depends(&iamv1beta1.WorkspaceRole{}, "", b.RoleRef.Name); is || err != nil {
				return fmt.Sprintf("the WorkspaceRole %q", b.RoleRef.Name), err
			}
		}
	}
	global := &iamv1beta1.GlobalRoleBindingList{}
	if err := r.Client.List(ctx, global); err != nil {
		return "", err
	}
	for i := range global.Items {
		if b := &global.Items[i]; named(b.Subjects) {
			if is, err := depends(&iamv1beta1.GlobalRole{}, "", b.RoleRef.Name); is || err != nil {
				return fmt.Sprintf("the GlobalRole %q", b.RoleRef.Name), err
			}
		}
	}
	return "", nil
}
