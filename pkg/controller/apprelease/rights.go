package apprelease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

const (
	// groupPrefix begins the groups that the rights of removals are bound to. Nobody is in one but for a removal.
	groupPrefix = "kapis:application-release:"
	// grantedWait is how long kube-apiserver may take to know of a right.
	grantedWait  = 10 * time.Second
	grantedEvery = 50 * time.Millisecond
)

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
	err := errors.Join(r.replace(ctx, role.DeepCopy()), r.replace(ctx, binding.DeepCopy()))
	if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return do(u.as) // the namespace goes, and everything in it
	}
	if err != nil {
		return fmt.Errorf("give the right to remove the objects of the release %s: %w", u.release.Name, err)
	}
	as := &author{user: u.as.user, groups: append(slices.Clone(u.as.groups), group)}
	what := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: rules[0].Verbs[0], Group: rules[0].APIGroups[0],
		Name: rules[0].ResourceNames[0]}
	what.Resource, what.Subresource, _ = strings.Cut(rules[0].Resources[0], "/")
	err = wait.PollUntilContextTimeout(ctx, grantedEvery, grantedWait, true, func(ctx context.Context) (bool, error) {
		return r.May(ctx, reader.user, as.groups[len(as.groups)-1:], what)
	})
	if err != nil {
		return fmt.Errorf("wait until kube-apiserver knows the rights to remove the release %s: %w", u.release.Name, err)
	}
	return do(as)
}

// replace creates an object, in the place of one of its name.
func (r *Reconciler) replace(ctx context.Context, o client.Object) error {
	err := r.Client.Create(ctx, o)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		return err
	}
	o.SetResourceVersion("")
	o.SetUID("")
	return r.Client.Create(ctx, o)
}

// reviewed asks kube-apiserver what a user in some groups may do.
func reviewed(c client.Client) May {
	return func(ctx context.Context, user string, groups []string, what *authorizationv1.ResourceAttributes) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, Groups: groups, ResourceAttributes: what},
		}
		if err := c.Create(ctx, review); err != nil {
			return false, fmt.Errorf("review access: %w", err)
		}
		return review.Status.Allowed, nil
	}
}
