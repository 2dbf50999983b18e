package apprelease

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
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
	defer func() {
		err := grant.TakeBack(ctx, func(ctx context.Context) error {
			binding, role := &rbacv1.RoleBinding{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta}
			return errors.Join(client.IgnoreNotFound(r.Client.Delete(ctx, binding)), client.IgnoreNotFound(r.Client.Delete(ctx, role)))
		})
		if err != nil {
			klog.ErrorS(err, "rights of a removal are left, which nobody has", "release", u.release.Name)
		}
	}()
	given, err := grant.Give(ctx, r.Client, meta, rules, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
	if err != nil {
		return fmt.Errorf("give the right to remove the objects of the release %s: %w", u.release.Name, err)
	}
	if !given { // the namespace goes, and everything in it
		return do(u.as)
	}
	as := &author{user: u.as.user, groups: append(slices.Clone(u.as.groups), group)}
	err = r.May.Await(ctx, reader.user, []string{group}, namespace, rules)
	if err != nil {
		return fmt.Errorf("wait until kube-apiserver knows the rights to remove the release %s: %w", u.release.Name, err)
	}
	return do(as)
}
