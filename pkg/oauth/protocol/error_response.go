// Package protocol has what the endpoints' messages consist of: parameters, errors, redirects, and the parameters of an
// authorization request.
package protocol

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/web"
)

// The names of errors (RFC 6749, 5.2; RFC 6750, 3.1; OpenID Connect Core 1.0, 3.1.2.6).
const (
	AccessDenied       = "access_denied"
	InvalidRequest     = "invalid_request"
	InvalidClient      = "invalid_client"
	InvalidGrant       = "invalid_grant"
	InvalidScope       = "invalid_scope"
	InvalidTarget      = "invalid_target"
	InvalidToken       = "invalid_token"
	InsufficientScope  = "insufficient_scope"
	LoginRequired      = "login_required"
	ServerError        = "server_error"
	SlowDown           = "slow_down"
	UnauthorizedClient = "unauthorized_client"
	Unavailable        = "temporarily_unavailable"
	UnsupportedGrant   = "unsupported_grant_type"
)

// Error is the error response of an endpoint (RFC 6749, 5.2), as JSON or as a page.
type Error struct {
	// Code is the HTTP status.
	Code int `json:"-"`
	// Name is a registered name of an error, and Description explains it.
	Name        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	// MFAToken is the token that has to be sent with the second factor (grant_type=otp).
	MFAToken string `json:"mfa_token,omitempty"`
	// Challenge is the WWW-Authenticate header; "" for none.
	Challenge string `json:"-"`
	// RetryAfter is when to try again; 0 for no header.
	RetryAfter time.Duration `json:"-"`

	// Cause is for the log, and is never sent.
	Cause error `json:"-"`
	// Say is what a page tells the user; nil for a text that follows from the code.
	Say page.Message `json:"-"`

	html *page.Response // nil for JSON
}

// Error describes the error for the log, cause included.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Name, e.Description, e.Cause)
	}
	return e.Name + ": " + e.Description
}

// Unwrap returns the cause, which the client does not see.
func (e *Error) Unwrap() error { return e.Cause }

// Write sends the error as JSON, or as its page.
func (e *Error) Write(w http.ResponseWriter, r *http.Request) {
	if e.Challenge != "" {
		w.Header().Set("WWW-Authenticate", e.Challenge)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.RetryAfter.Round(time.Second)/time.Second)))
	}
	if e.html != nil {
		e.html.Respond(w, r)
		return
	}
	web.WriteJSON(w, r, e.Code, e)
}

// Refuse returns an error with status 400.
func Refuse(name, description string) *Error {
	return &Error{Code: http.StatusBadRequest, Name: name, Description: description}
}

// Because sets the cause, and returns the error.
func (e *Error) Because(err error) *Error {
	e.Cause = err
	return e
}

// Failure returns the error response for an error that the client did not cause: 500, or 503 if the client may try again.
func Failure(err error) *Error {
	switch {
	case errors.Is(err, iam.ErrBusy):
		return &Error{Code: http.StatusServiceUnavailable, Name: Unavailable, RetryAfter: iam.RetryAfter, Cause: err,
			Description: "Too many logins at once; try again in a moment."}
	case errors.Is(err, idp.ErrUnavailable):
		return &Error{Code: http.StatusServiceUnavailable, Name: Unavailable, RetryAfter: iam.RetryAfter, Cause: err,
			Description: "The identity provider can't be reached at the moment; try again."}
	case errors.Is(err, iam.ErrUnavailable):
		return &Error{Code: http.StatusServiceUnavailable, Name: Unavailable, RetryAfter: iam.RetryAfter, Cause: err,
			Description: "Sessions can't be read or written at the moment; try again."}
	}
	return &Error{Code: http.StatusInternalServerError, Name: ServerError, Cause: err,
		Description: "The server met an error; its log tells more."}
}
