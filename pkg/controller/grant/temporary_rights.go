// Package grant is how controllers give rights for the time of an operation: by roles and bindings that take the place of older ones, with
// the wait until kube-apiserver knows them.
package grant

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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// longest is how long kube-apiserver may take to know of a right.
	longest = 10 * time.Second
	every   = 50 * time.Millisecond
	// revokeWithin bounds what takes rights back.
	revokeWithin = 20 * time.Second
)

// May reports whether kube-apiserver lets a user in some groups do something.
type May func(ctx context.Context, user string, groups []string, what *authorizationv1.ResourceAttributes) (bool, error)

// Reviewed asks kube-apiserver by a SubjectAccessReview.
func Reviewed(c client.Client) May {
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

// Await waits until kube-apiserver lets a user in some groups do what the last of some rules allows in a namespace, empty for the cluster:
// its authorizer learns of roles a moment after they are written. Without a rule for resources there is nothing to wait for.
func (m May) Await(ctx context.Context, user string, groups []string, namespace string, rules []rbacv1.PolicyRule) error {
	what := attributesOf(namespace, rules)
	if what == nil {
		return nil
	}
	return wait.PollUntilContextTimeout(ctx, every, longest, true, func(ctx context.Context) (bool, error) {
		return m(ctx, user, groups, what)
	})
}

// attributesOf returns what the last of some rules allows; nil where none is for resources.
func attributesOf(namespace string, rules []rbacv1.PolicyRule) *authorizationv1.ResourceAttributes {
	for _, r := range slices.Backward(rules) {
		if len(r.Verbs) == 0 || len(r.APIGroups) == 0 || len(r.Resources) == 0 {
			continue
		}
		resource, subresource, _ := strings.Cut(r.Resources[0], "/")
		out := &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: r.Verbs[0], Group: r.APIGroups[0], Resource: resource, Subresource: subresource,
		}
		if len(r.ResourceNames) > 0 {
			out.Name = r.ResourceNames[0]
		}
		return out
	}
	return nil
}

// Give gives somebody what rules allow, by a role and a binding of the name and the labels of meta: in its namespace or, where that is
// empty, in the cluster. It reports false where there is no such namespace, or not for long.
func Give(ctx context.Context, c client.Client, meta metav1.ObjectMeta, rules []rbacv1.PolicyRule, to rbacv1.Subject) (bool, error) {
	subjects, ref := []rbacv1.Subject{to}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}
	var role, binding client.Object
	if meta.Namespace == "" {
		ref.Kind = "ClusterRole"
		role = &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
		binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	} else {
		role = &rbacv1.Role{ObjectMeta: meta, Rules: rules}
		binding = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}
	}
	err := errors.Join(replace(ctx, c, role), replace(ctx, c, binding))
	if meta.Namespace != "" && (apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)) {
		return false, nil
	}
	return err == nil, err
}

// TakeBack calls revoke, within a time, even if ctx has ended: that is no reason to leave rights behind.
func TakeBack(ctx context.Context, revoke func(context.Context) error) error {
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeWithin)
	defer cancel()
	return revoke(undo)
}

// replace creates an object, in the place of one of its name: that is an older operation's, whose rights are not what this one needs, and
// a binding can't be changed.
func replace(ctx context.Context, c client.Client, o client.Object) error {
	err := c.Create(ctx, o)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := c.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		return err
	}
	o.SetResourceVersion("")
	o.SetUID("")
	return c.Create(ctx, o)
}
