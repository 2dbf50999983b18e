// Package login logs users in on pages: the login page, its steps, second factors, new passwords and registration.
package login

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// ErrNotFresh says that a provider did not prove that the user has just authenticated.
var ErrNotFresh = errors.New("the identity provider does not prove a fresh login")

// Fault returns the status code and the message of a failed login; false for an error that is not shown to users. Unknown, wrong
// and disabled are one message and one code (S50), unless the password was right.
func Fault(err error, provider string) (code int, say page.Message, ok bool) {
	switch {
	case errors.Is(err, iam.ErrCredentials), errors.Is(err, idp.ErrCredentials):
		return http.StatusBadRequest, page.Say("error.wrong"), true
	case errors.Is(err, iam.ErrLimited):
		return http.StatusTooManyRequests, page.Say("error.limited"), true
	case errors.Is(err, iam.ErrBusy):
		return http.StatusServiceUnavailable, page.Say("error.busy"), true
	case errors.Is(err, iam.ErrSuspended):
		return http.StatusForbidden, page.Say("error.suspended"), true
	case errors.Is(err, iam.ErrNotLinked):
		return http.StatusForbidden, page.Say("error.unlinked"), true
	case errors.Is(err, iam.ErrUnknownProvider):
		return http.StatusBadRequest, page.Say("error.provider"), true
	case errors.Is(err, idp.ErrUnavailable):
		return http.StatusServiceUnavailable, page.Say("error.upstream", provider), true
	case errors.Is(err, ErrNotFresh):
		return http.StatusForbidden, page.Say("error.fresh", provider), true
	case errors.Is(err, idp.ErrRefused), errors.Is(err, idp.ErrGone):
		return http.StatusBadRequest, page.Say("error.refused", provider), true
	case errors.Is(err, iam.ErrUnavailable):
		return http.StatusServiceUnavailable, page.Say("error.later"), true
	}
	return 0, nil, false
}

// Offered returns an error for what this server does not offer.
func Offered(is bool) error {
	if !is {
		return protocol.Problem(http.StatusNotFound, page.Say("error.missing"), nil)
	}
	return nil
}
