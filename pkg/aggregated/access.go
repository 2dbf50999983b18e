package aggregated

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
)

const (
	// mostNamespaces is how many namespaces a partial list may have: each of them costs a review.
	mostNamespaces = 200
	// reviewsAtOnce is how many of them are asked for at the same time.
	reviewsAtOnce = 16
)

// access is what a user wants to read.
type access struct {
	user            user.Info
	verb            string
	kind            *store.Kind
	namespace, name string
	// partial is what the user may see of a list of the cluster, nil for all of it.
	partial *authz.PartialList
}

func (a *access) attributes() authorizationv1.ResourceAttributes {
	gvr := a.kind.GVR
	what := authorizationv1.ResourceAttributes{
		Verb: a.verb, Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Namespace: a.namespace, Name: a.name,
	}
	if gvr.Group == "" && gvr.Resource == "namespaces" {
		what.Namespace = a.name // as kube-apiserver asks for a namespace: roles in it count
	}
	return what
}

// authorize asks for the right to the real kind, and sets partial where the user has it in some namespaces only. The error is a 403 for a
// user who has it nowhere.
func (h *Handler) authorize(ctx context.Context, a *access) error {
	a.partial = nil
	if a.namespace != "" && !a.kind.Namespaced {
		return plan.CheckScope(a.kind, plan.Scope{Namespace: a.namespace})
	}
	ok, err := h.Reviewer.Allowed(ctx, a.user, a.attributes())
	if err != nil || ok {
		return err
	}
	if a.namespace == "" && a.name == "" && a.kind.Namespaced && h.Namespaces != nil {
		if a.partial, err = h.partial(ctx, a); err != nil || a.partial != nil {
			return err
		}
	}
	return refused(a, "kube-apiserver does not allow it")
}

func refused(a *access, reason string) error {
	gr, where := a.kind.GVR.GroupResource(), "at the cluster scope"
	if a.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.namespace)
	}
	message := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s: %s", a.user.GetName(), a.verb, gr.Resource, gr.Group, where, reason)
	return apierrors.NewForbidden(gr, a.name, errors.New(message))
}

// partial returns the namespaces in which kube-apiserver allows the same, of those that our index names; nil for none.
func (h *Handler) partial(ctx context.Context, a *access) (*authz.PartialList, error) {
	names, err := h.Namespaces(ctx, a.user, a.verb, a.kind)
	if err != nil {
		return nil, err
	}
	if len(names) > mostNamespaces {
		return nil, refused(a, fmt.Sprintf("and of more than %d namespaces no partial list is made: name one", mostNamespaces))
	}
	allowed := make([]bool, len(names))
	var all errgroup.Group
	all.SetLimit(reviewsAtOnce)
	for i, name := range names {
		all.Go(func() (err error) {
			one := *a
			one.namespace = name
			allowed[i], err = h.Reviewer.Allowed(ctx, a.user, one.attributes())
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	var out []string
	for i, name := range names {
		if allowed[i] {
			out = append(out, name)
		}
	}
	return authz.NewPartialList(slices.Clip(out), nil), nil
}

// scope returns what of the kind the user may see.
func (h *Handler) scope(a *access) plan.Scope {
	return plan.Scope{
		Namespace: a.namespace, PartialList: a.partial,
		Data: a.namespace != "" && h.Resources.HasData(a.kind), // the review was about this very kind and namespace
		MayList: func(ctx context.Context, gvr schema.GroupVersionResource) bool {
			ok, err := h.Reviewer.Allowed(ctx, a.user, authorizationv1.ResourceAttributes{
				Verb: "list", Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource,
			})
			return ok && err == nil
		},
	}
}

type accessKey struct{}

// contextual is an answer that goes on after the request was answered, and the request with what it is checked by again.
type contextual struct {
	answer  any
	request *http.Request
}

// recheck ends a watch whose peer is no longer the front proxy, or whose user has lost the right; a changed partial list ends it with 410.
func (h *Handler) recheck(ctx context.Context, r *http.Request) error {
	was, ok := r.Context().Value(accessKey{}).(*access)
	if !ok {
		return errors.New("check a watch again: it was not authorized here")
	}
	if err := h.FrontProxy.Verify(r); err != nil {
		return fmt.Errorf("authenticate again: %w", err)
	}
	now := *was
	if err := h.authorize(ctx, &now); err != nil {
		return fmt.Errorf("authorize again: %w", err)
	}
	if (was.partial == nil) != (now.partial == nil) || was.partial != nil && was.partial.Key != now.partial.Key {
		return apierrors.NewResourceExpired("what of the list you may see has changed: list again")
	}
	return nil
}
