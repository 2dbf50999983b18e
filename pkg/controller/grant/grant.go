// Package grant is how controllers give rights for the time of an operation: roles and bindings that take the place of older ones, and
// the wait until kube-apiserver knows them.
package grant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// longest is how long kube-apiserver may take to know of a right.
	longest = 10 * time.Second
	every   = 50 * time.Millisecond
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

// Replace creates an object, in the place of one of its name: a binding can't be changed.
func Replace(ctx context.Context, c client.Client, o client.Object) error {
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
