package authz

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

// AlwaysAllow allows everything to all users who are logged in: it is the mode of that name. kube-apiserver still decides by the caller's
// own rights there.
func AlwaysAllow() Authorizer {
	return Func(func(_ context.Context, u user.Info, _ *request.Info) (Decision, error) {
		if !isAuthenticated(u) {
			return Decision{Reason: "log in first"}, nil
		}
		return Allow("the authorization mode is AlwaysAllow", ""), nil
	})
}

// AlwaysDeny denies everything to everyone: it is the mode of that name.
func AlwaysDeny() Authorizer {
	return Func(func(context.Context, user.Info, *request.Info) (Decision, error) {
		return Deny("the authorization mode is AlwaysDeny"), nil
	})
}
