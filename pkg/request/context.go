package request

import (
	"context"
	"net/netip"

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

// NetworkOf returns what counts as one source: an IPv4 address, or the 64-bit prefix of an IPv6 address that one customer gets; "" for
// what is no address.
func NetworkOf(source string) string {
	a, err := netip.ParseAddr(source)
	if err != nil {
		return ""
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}

// BearerTokenKey is the context key of the bearer token that the request came with, as a string.
type BearerTokenKey struct{}

// BearerTokenFrom returns the bearer token that the request of ctx came with in Authorization; "" where it had none, or was not
// authenticated. It is passed on to nobody but who may be the caller.
func BearerTokenFrom(ctx context.Context) string {
	s, _ := ctx.Value(BearerTokenKey{}).(string)
	return s
}
