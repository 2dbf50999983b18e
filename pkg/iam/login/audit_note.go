package login

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
)

// methodSecondFactor is how a pending login is completed.
const methodSecondFactor = "second-factor"

// note says in the audit event of the request who logs in; the name of nobody is never told, since people type passwords there.
func note(ctx context.Context, u *iam.User, method, provider string) {
	event := audit.From(ctx)
	if event == nil {
		return
	}
	event.SetLogin(audit.VerbLogin, method, provider)
	if u == nil {
		event.SetUser("", "")
		return
	}
	event.SetUser(u.Name, u.UID)
}

// passwordMethod is how a password is checked: here, or by a provider.
func passwordMethod(provider string) string {
	if provider == "" {
		return "password"
	}
	return "provider"
}
