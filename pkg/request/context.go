package request

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"
)

// InfoKey is the context key of the *Info.
type InfoKey struct{}

// WithInfo returns a context that carries i.
func WithInfo(ctx context.Context, i *Info) context.Context {
	return context.WithValue(ctx, InfoKey{}, i)
}

// InfoFrom returns the Info of the request of ctx, or nil outside of a request.
func InfoFrom(ctx context.Context) *Info {
	i, _ := ctx.Value(InfoKey{}).(*Info)
	return i
}

// UserKey is the context key of the user.Info.
type UserKey struct{}

// WithUser returns a context that carries the caller.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, UserKey{}, u)
}

// UserFrom returns the caller, or nil before authentication.
func UserFrom(ctx context.Context) user.Info {
	u, _ := ctx.Value(UserKey{}).(user.Info)
	return u
}

// SourceKey is the context key of the address that the request comes from, as a string.
type SourceKey struct{}

// SourceFrom returns the address that the request of ctx comes from, as trusted proxies report it, or "" if it is not known.
func SourceFrom(ctx context.Context) string {
	s, _ := ctx.Value(SourceKey{}).(string)
	return s
}

// BearerTokenKey is the context key of the bearer token that the request came with, as a string.
type BearerTokenKey struct{}

// BearerTokenFrom returns the bearer token that the request of ctx came with in Authorization; "" where it had none, or was not
// authenticated. It is passed on to nobody but who may be the caller.
func BearerTokenFrom(ctx context.Context) string {
	s, _ := ctx.Value(BearerTokenKey{}).(string)
	return s
}
