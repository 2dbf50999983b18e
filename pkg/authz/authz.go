// Package authz decides what callers may do: what a decision is, and in which order authorizers are asked for one.
package authz

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Verdict is the result of a decision. The zero value refuses.
type Verdict uint8

const (
	// Refused is the verdict on a request that nothing allows, or that something denies.
	Refused Verdict = iota
	// Partial is the verdict on a list of which the caller may see some: only a handler that restricts its answer to the partial list
	// may serve it.
	Partial
	// Allowed is the verdict on a request that may be served as it is.
	Allowed
)

// Decision is the answer to "may u do this?". The zero value refuses. Allow, AllowPartial and Deny make the others.
type Decision struct {
	verdict Verdict      // Partial is never without the list
	denied  bool         // only where verdict is Refused
	partial *PartialList // nil where verdict is not Partial
	// Reason says, for people and audit, what allowed the request, or why nothing did.
	Reason string
	// Group is the synthetic group of the role that allowed the request, which kube-apiserver
	// knows through the mirror of roles; empty where no role allowed it.
	Group string
}

// Allow returns a decision that allows the request, by the role that group is the synthetic group of; "" for none.
func Allow(reason, group string) Decision {
	return Decision{verdict: Allowed, Reason: reason, Group: group}
}

// AllowPartial returns a decision that allows the items of a list, and a refusal where list is nil. The reason says why it is not the
// whole list.
func AllowPartial(list *PartialList, reason string) Decision {
	if list == nil {
		return Decision{Reason: reason}
	}
	return Decision{verdict: Partial, partial: list, Reason: reason}
}

// Deny returns a final refusal: no later authorizer is asked, and nothing else allows the request or a partial list.
func Deny(reason string) Decision {
	return Decision{denied: true, Reason: reason}
}

// Verdict returns the verdict of the decision.
func (d Decision) Verdict() Verdict { return d.verdict }

// Allowed reports whether the request may be served as it is. A partial list is not allowed.
func (d Decision) Allowed() bool { return d.verdict == Allowed }

// Permits reports whether a handler may serve the request; restricts means that the handler restricts lists to PartialList.
func (d Decision) Permits(restricts bool) bool {
	return d.verdict == Allowed || restricts && d.verdict == Partial
}

// Denied reports whether the decision is a final refusal. See Deny.
func (d Decision) Denied() bool { return d.denied }

// PartialList returns what the caller may see of a list, or nil if the verdict is not Partial.
func (d Decision) PartialList() *PartialList { return d.partial }

// Authorizer decides. An error means that no decision was possible; the request is then refused.
type Authorizer interface {
	Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error)
}

// Func is an Authorizer made of a function.
type Func func(ctx context.Context, u user.Info, r *request.Info) (Decision, error)

// Authorize calls f.
func (f Func) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	return f(ctx, u, r)
}

// DecisionKey is the context key of the *Decision that let a request pass.
type DecisionKey struct{}

// WithDecision returns a context that carries the decision that let the request pass.
func WithDecision(ctx context.Context, d Decision) context.Context {
	return context.WithValue(ctx, DecisionKey{}, &d)
}

// DecisionFrom returns the decision that let the request of ctx pass.
func DecisionFrom(ctx context.Context) Decision {
	if d, ok := ctx.Value(DecisionKey{}).(*Decision); ok {
		return *d
	}
	return Decision{}
}
