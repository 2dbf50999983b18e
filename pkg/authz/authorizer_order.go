package authz

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Order authorizes every request. It asks its authorizers, in their order, about each reading of the request; Members may complete what
// none of them allows or denies.
type Order struct {
	// Authorizers are the restriction of API keys, the open paths, and the configured modes.
	Authorizers Union
	// Vetoing is how many of the authorizers, from the first on, are also asked about the alias of what another reading allowed, and about
	// each item of a partial list. It is 0 if no webhook precedes another mode.
	Vetoing int
	// Aliases knows the kinds of resources.kubesphere.io.
	Aliases Aliases
	// OwnShell returns the one reading of a request for the caller's own kubectl shell, whatever its address is, and nil for any other
	// request; nil where there are none. Shells are opened with the verb get, and it is asked about no other.
	OwnShell func(u user.Info, r *request.Info) *request.Info
	// Members is nil where the modes lack RBAC: only RBAC has memberships.
	Members Members
}

// Members lets callers see what they are members of, where no role allows it. tenant.Members is one.
type Members interface {
	// Readings returns further readings of r, a right to one of which is a right to r, in the order in which they are asked about.
	Readings(u user.Info, r *request.Info) []*request.Info
	// Complete returns the decision on r if the authorizers refused each of its readings; d is their refusal, or the partial list that they
	// allow.
	Complete(ctx context.Context, u user.Info, r *request.Info, d Decision) (Decision, error)
}

// Authorize returns the decision on the first reading that is allowed or denied, or else the combined decision of all readings. An error
// is final, as a denial is.
func (o *Order) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	var refusal Decision
	first := true
	for reading := range o.readings(u, r) {
		d, err := o.Authorizers.Authorize(ctx, u, reading)
		switch {
		case err != nil || d.denied:
			return d, err
		case d.Allowed() && first && o.Vetoing > 0:
			return o.vetoAlias(ctx, u, r, d)
		case d.Allowed():
			return d, nil
		}
		refusal, first = refusal.or(d), false
	}
	if refusal.partial != nil && !o.Aliases.hasItems(r) {
		refusal = AllowPartial(nil, refusal.Reason)
	}
	if o.Members != nil {
		d, err := o.Members.Complete(ctx, u, r, refusal)
		if err != nil || d.Allowed() {
			return d, err
		}
		refusal = d
	}
	return o.vetoPartialList(ctx, u, r, refusal)
}

// Union asks each authorizer in turn; the first that allows or denies decides, and so does an error that comes with a denial. Otherwise
// the request is refused with the last reason given, all partial lists, and all errors.
type Union []Authorizer

// Authorize implements Authorizer.
func (a Union) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	var refusal Decision
	var errs []error
	for _, next := range a {
		d, err := next.Authorize(ctx, u, r)
		switch {
		case err != nil && d.denied:
			return Deny(d.Reason), errors.Join(append(errs, err)...)
		case err != nil:
			errs = append(errs, err)
		case d.Allowed():
			return d, nil
		case d.denied:
			return Deny(d.Reason), nil
		default:
			refusal = refusal.or(d)
		}
	}
	if errs != nil { // the rest of the partial list is unknown
		return Decision{Reason: refusal.Reason}, errors.Join(errs...)
	}
	return refusal, nil
}

// or returns the refusal of a request that d and e refuse, with the partial lists of both and the last reason.
func (d Decision) or(e Decision) Decision {
	if e.Reason == "" {
		e.Reason = d.Reason
	}
	return AllowPartial(d.partial.Or(e.partial), e.Reason)
}

// Loaded distinguishes "you may not" from "roles and bindings are not known yet": a refusal by an index that is still loading would send
// a client to its login page for nothing.
type Loaded struct {
	Authorizer
	// Known returns nil once all roles and bindings are known.
	Known func() error
}

// Authorize asks the index; what it allows is allowed, even while the index is loading.
func (l Loaded) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	d, err := l.Authorizer.Authorize(ctx, u, r)
	if err != nil || d.Allowed() {
		return d, err
	}
	if missing := l.Known(); missing != nil {
		e := apierrors.NewServiceUnavailable(fmt.Sprintf("roles and bindings are not loaded yet: %v", missing))
		e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return Decision{}, e
	}
	return d, nil
}
