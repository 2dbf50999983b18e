package authz

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Union asks each authorizer in turn, and the first that allows or forbids decides; an error with a decision that forbids does too. Where
// none does, the request is refused with the last reason that was given, with all parts that were, and with the errors of those that
// could not tell.
func Union(authorizers ...Authorizer) Authorizer {
	return union(authorizers)
}

type union []Authorizer

func (a union) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	var refusal Decision
	var errs []error
	for _, next := range a {
		d, err := next.Authorize(ctx, u, r)
		switch {
		case err != nil && d.Denied():
			return Deny(d.Reason), errors.Join(append(errs, err)...)
		case err != nil:
			errs = append(errs, err)
		case d.Allowed():
			return d, nil
		case d.Denied():
			return Deny(d.Reason), nil // of which not even a part is seen
		default:
			if d.Reason != "" {
				refusal.Reason = d.Reason
			}
			refusal = AllowPartial(refusal.partial.Or(d.partial), refusal.Reason)
		}
	}
	if errs != nil {
		return Decision{Reason: refusal.Reason}, errors.Join(errs...) // of what part is unknown
	}
	return refusal, nil
}

// AlwaysAllow allows everything to everyone who is logged in, as the mode of that name in the configuration asks.
// kube-apiserver still decides by the caller's own rights there.
func AlwaysAllow() Authorizer {
	return Func(func(_ context.Context, u user.Info, _ *request.Info) (Decision, error) {
		if !isAuthenticated(u) {
			return Decision{Reason: "log in first"}, nil
		}
		return Allow("the authorization mode is AlwaysAllow", ""), nil
	})
}

// AlwaysDeny forbids everything to everybody, as the mode of that name in the configuration asks.
func AlwaysDeny() Authorizer {
	return Func(func(context.Context, user.Info, *request.Info) (Decision, error) {
		return Deny("the authorization mode is AlwaysDeny"), nil
	})
}
