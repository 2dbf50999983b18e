// Package authz has the words of permission: what a decision is, and how decisions are combined.
package authz

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// Decision is the answer to "may u do this?". The zero value refuses.
type Decision struct {
	// Allowed is false where nothing allowed the request.
	Allowed bool
	// Denied forbids: no later authorizer is asked, and nothing else allows it, nor a part. It is false where Allowed is true.
	Denied bool
	// Reason says, for people and audit, what allowed it, or why nothing did.
	Reason string
	// Group is the synthetic group of the role that allowed the request, which kube-apiserver
	// knows through the mirror of roles; empty where no role allowed it.
	Group string
	// PartialList is set only where Allowed is false, and the request is for a list of which its caller may
	// see some. It may then go on to a handler that restricts its answer to the part; whoever does
	// not know of parts sees a refusal.
	Part *PartialList
}

// Authorizer decides. An error means that it could not tell; the request is then refused.
type Authorizer interface {
	Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error)
}

// Func is an Authorizer made of a function.
type Func func(ctx context.Context, u user.Info, r *request.Info) (Decision, error)

// Authorize calls f.
func (f Func) Authorize(ctx context.Context, u user.Info, r *request.Info) (Decision, error) {
	return f(ctx, u, r)
}

// DecisionKey is the key under which a context has the *Decision that let its request pass.
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
