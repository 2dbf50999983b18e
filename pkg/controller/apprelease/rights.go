package apprelease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/controller/grant"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// groupPrefix begins the groups that the rights of removals are bound to. Nobody is in one but for a removal.
const groupPrefix = "kapis:application-release:"

// withRights does something as the author, or as reader, with the right to remove those objects that are in the release's own namespace. It
// is a role that is there for that time.
func (r *Reconciler) withRights(ctx context.Context, u *removal, objects []release.Object, do func(as *author) error) error {
	namespace := u.release.Labels[v2.LabelNamespace]
	var own []permission.Object
	for _, o := range objects {
		if o.Namespace == namespace && namespace != "" {
			own = append(own, permission.Object{Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name})
		}
	}
	rules := permission.ForRemoval(own)[namespace]
	if len(rules) == 0 {
		return do(u.as)
	}
	group := groupPrefix + string(u.release.UID)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: groupPrefix + u.release.Name}
	role := &rbacv1.Role{ObjectMeta: meta, Rules: rules}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}}}
	defer func() { // rights do not stay where ctx has ended
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		err := errors.Join(client.IgnoreNotFound(r.Client.Delete(undo, binding)), client.IgnoreNotFound(r.Client.Delete(undo, role)))
		if err != nil {
			klog.ErrorS(err, "rights of a removal are left, which nobody has", "release", u.release.Name)
		}
	}()
	err := errors.Join(grant.Replace(ctx, r.Client, role.DeepCopy()), grant.Replace(ctx, r.Client, binding.DeepCopy()))
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return do(u.as) // the namespace goes, and everything in it
	}
	if err != nil {
		return fmt.Errorf("give the right to remove the objects of the release %s: %w", u.release.Name, err)
	}
	as := &author{user: u.as.user, groups: append(slices.Clone(u.as.groups), group)}
	err = r.May.Await(ctx, reader.user, []string{group}, namespace, rules)
	if err != nil {
		return fmt.Errorf("wait until kube-apiserver knows the rights to remove the release %s: %w", u.release.Name, err)
	}
	return do(as)
}
