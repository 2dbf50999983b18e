package controllermanager

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
)

// native asks kube-apiserver about the rights of callers that are no Users, such as service accounts.
type native struct {
	// client creates reviews, and reads users from the cache.
	client client.Client
}

// noVerb is a verb that no rule names. Only a subject with all verbs has it.
const noVerb = "kapis.dev-any"

// may reports whether a user may do everything in the cluster, or has a rule with the verb by its name. All verbs on these resources give
// no right to escalate, since roles for editors of roles, and their mirrors, have them; they give the right to delete. Users have rights
// by this project's roles only.
func (n *native) may(ctx context.Context, u user.Info, verb string, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
	if !slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		err := n.client.Get(ctx, client.ObjectKey{Name: u.GetName()}, &iamv1beta1.User{})
		if err == nil {
			return false, nil
		}
		if !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("see whether %q is a user: %w", u.GetName(), err)
		}
	}
	if ok, err := n.ask(ctx, u, authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}); ok || err != nil {
		return ok, err
	}
	what := authorizationv1.ResourceAttributes{
		Verb: verb, Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: namespace, Name: name,
	}
	if ok, err := n.ask(ctx, u, what); !ok || err != nil || slices.Contains(authz.OrdinaryVerbs(), verb) {
		return ok && err == nil, err
	}
	what.Verb = noVerb
	all, err := n.ask(ctx, u, what)
	return !all && err == nil, err
}

func (n *native) ask(ctx context.Context, u user.Info, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(u.GetExtra()))
	for k, v := range u.GetExtra() {
		extra[k] = v
	}
	review := &authorizationv1.SubjectAccessReview{ObjectMeta: metav1.ObjectMeta{}, Spec: authorizationv1.SubjectAccessReviewSpec{
		User: u.GetName(), UID: u.GetUID(), Groups: own(u.GetGroups()), Extra: extra, ResourceAttributes: &what,
	}}
	if err := n.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	return review.Status.Allowed, nil
}

// mayAs reports whether the writer of an object may do something by the rights at kube-apiserver.
func (n *native) mayAs(ctx context.Context, u authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := make(map[string][]string, len(u.Extra))
	for k, v := range u.Extra {
		extra[k] = v
	}
	return n.ask(ctx, &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra}, what)
}
