package oauth

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
	accessDenied      = "access_denied"
	invalidRequest    = "invalid_request"
	invalidClient     = "invalid_client"
	invalidGrant      = "invalid_grant"
	invalidScope      = "invalid_scope"
	invalidTarget     = "invalid_target"
	invalidToken      = "invalid_token"
	insufficientScope = "insufficient_scope"
	loginRequired     = "login_required"
	serverError       = "server_error"
	slowDown          = "slow_down"
	unauthorized      = "unauthorized_client"
	unavailable       = "temporarily_unavailable"
	unsupportedGrant  = "unsupported_grant_type"
)

// Error is an answer of an OAuth endpoint that is not a success.
type Error struct {
	// Code is the HTTP status.
	Code int `json:"-"`
	// Name is one of the registered names of errors, and Description says more to people.
	Name        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	// MFAToken is what a second factor is to be sent with (grant_type=otp).
	MFAToken string `json:"mfa_token,omitempty"`
	// Challenge is the WWW-Authenticate header; "" for none.
	Challenge string `json:"-"`
	// RetryAfter says when to try again; 0 for nothing.
	RetryAfter time.Duration `json:"-"`

	cause error // for the log, and never for the client
	// say is what a person is told, and html the page that says it; nil for JSON.
	say  page.Message
	html *htmlResponse
}

func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Name, e.Description, e.cause)
	}
	return e.Name + ": " + e.Description
}

// Unwrap returns what the client is not told.
func (e *Error) Unwrap() error { return e.cause }

func (e *Error) write(w http.ResponseWriter, r *http.Request) {
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

func refuse(name, description string) *Error {
	return &Error{Code: http.StatusBadRequest, Name: name, Description: description}
}

func (e *Error) because(err error) *Error {
	e.cause = err
	return e
}

// failure is the answer to an error that is not the client's doing.
func failure(err error) *Error {
	switch {
	case errors.Is(err, iam.ErrBusy):
		return &Error{Code: http.StatusServiceUnavailable, Name: unavailable, RetryAfter: iam.RetryAfter, cause: err,
			Description: "Too many logins at once; try again in a moment."}
	case errors.Is(err, idp.ErrUnavailable):
		return &Error{Code: http.StatusServiceUnavailable, Name: unavailable, RetryAfter: iam.RetryAfter, cause: err,
			Description: "The identity provider can't be reached at the moment; try again."}
	case errors.Is(err, iam.ErrUnavailable):
		return &Error{Code: http.StatusServiceUnavailable, Name: unavailable, RetryAfter: iam.RetryAfter, cause: err,
			Description: "Sessions can't be stored at the moment; try again."}
	}
	return &Error{Code: http.StatusInternalServerError, Name: serverError, cause: err,
		Description: "The server met an error; its log tells more."}
}
