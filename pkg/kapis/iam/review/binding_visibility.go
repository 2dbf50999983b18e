package review

import (
	"context"
	"strings"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
)

// visibility decides which bindings the requester may see. It asks once per scope for the right to all bindings there.
type visibility struct {
	*requester
	all map[authz.BindingScope]bool
}

func (a *requester) visibility() *visibility {
	return &visibility{requester: a, all: map[authz.BindingScope]bool{}}
}

// canSee reports whether the requester may get a binding.
func (s *visibility) canSee(ctx context.Context, g *authz.Grant) (bool, error) {
	all, found := s.all[g.Scope]
	if !found {
		d, err := s.mayGet(ctx, g.Scope, "")
		if err != nil {
			return false, err
		}
		// A right by a condition, or by another authorizer, may hold for this name only.
		all = d.Allowed() && strings.HasPrefix(d.Group, iamv1beta1.SyntheticGroupPrefix) &&
			!strings.HasPrefix(d.Group, iamv1beta1.SyntheticGroupPrefix+"conditional:")
		s.all[g.Scope] = all
	}
	if all {
		return true, nil
	}
	d, err := s.mayGet(ctx, g.Scope, g.Binding)
	return d.Allowed(), err
}

// hideReason removes the deciding binding from a reason if the requester may not see it.
func (s *visibility) hideReason(ctx context.Context, status *reviewStatus, grants []authz.Grant) error {
	if !status.Allowed || !decides(grants) || status.Reason != grants[0].Why {
		return nil
	}
	ok, err := s.canSee(ctx, &grants[0])
	if err == nil && !ok {
		status.Reason = "allowed by a binding that you may not see"
	}
	return err
}

func (s *visibility) mayGet(ctx context.Context, place authz.BindingScope, name string) (authz.Decision, error) {
	return s.may(ctx, &resourceAttributes{
		Verb: "get", Group: wire.Group, Version: wire.Version, Resource: bindingResource(place.Scope), Name: name,
		Workspace: place.Workspace, Namespace: place.Namespace,
	})
}
