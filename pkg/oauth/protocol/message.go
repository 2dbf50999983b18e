// Package protocol has what the endpoints' messages consist of: parameters, errors, redirects, and the parameters of an
// authorization request.
package protocol

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/web"
)

// MaxBody bounds the body of a request, in bytes.
const MaxBody = 64 << 10

// Form holds the parameters of a request by name. None is empty, and none was repeated.
type Form map[string]string

// secretParameters returns the names that are refused in a URL, since logs and browser histories keep URLs (RFC 6749, 2.3.1).
func secretParameters() []string {
	return []string{"client_secret", "password", "encrypt", "refresh_token", "code", "code_verifier", "client_assertion", "username",
		"device_code", "token", "subject_token", "otp"}
}

// ReadForm reads the form in a request's body (RFC 6749, 3.2). Empty parameters count as left out; repeated ones are refused.
func ReadForm(r *http.Request) (Form, error) {
	values, err := ReadValues(r)
	if err != nil {
		return nil, err
	}
	return Once(values)
}

// ReadValues reads the form in a request's body, where a parameter may be repeated.
func ReadValues(r *http.Request) (url.Values, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" || r.Header.Get("Content-Encoding") != "" {
		return nil, &Error{Code: http.StatusUnsupportedMediaType, Name: InvalidRequest,
			Description: "The body has to be of type application/x-www-form-urlencoded."}
	}
	query := r.URL.Query()
	for _, name := range secretParameters() {
		if query.Has(name) {
			return nil, Refuse(InvalidRequest, "The parameter "+name+" belongs in the body, never in the URL.")
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, MaxBody))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, &Error{Code: http.StatusRequestEntityTooLarge, Name: InvalidRequest, Description: "The body is too long."}
	}
	if err != nil {
		return nil, Refuse(InvalidRequest, "The body could not be read.").Because(err)
	}
	values, err := url.ParseQuery(string(body))
	if err != nil { // the error quotes the body
		return nil, Refuse(InvalidRequest, "The body is not a well-formed form.")
	}
	return values, nil
}

// Once returns the values as a Form, and refuses repeated parameters (RFC 6749, 3.1).
func Once(values url.Values) (Form, error) {
	f := make(Form, len(values))
	for name, v := range values {
		if len(v) > 1 {
			return nil, Refuse(InvalidRequest, "A parameter is given more than once.")
		}
		if v[0] != "" {
			f[name] = v[0]
		}
	}
	return f, nil
}

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
