package iam

import (
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/status"
)

// The errors with which logins, sessions and credentials fail. Only a caller with the right password learns that an account is
// suspended or limited.
var (
	// ErrCredentials says that the name or the password is wrong, but never which.
	ErrCredentials = errors.New("the name or the password is wrong")
	// ErrSuspended says that the user may not log in: disabled, or not active yet.
	ErrSuspended = errors.New("the account is suspended")
	// ErrLimited says that the user may not log in for a while, after too many wrong passwords.
	ErrLimited = errors.New("the account is locked after too many wrong passwords")
	// ErrBusy says that too many logins are waiting. Try again after RetryAfter.
	ErrBusy = errors.New("too many logins at once")

	// ErrUnknownProvider says that there is no provider of that name, or that it is disabled.
	ErrUnknownProvider = errors.New("there is no such identity provider")
	// ErrNotLinked says that the identity is valid, but no User is linked to it, nor may one be created.
	ErrNotLinked = errors.New("no user is linked to the identity")

	// ErrOver says that a session does not exist, or no longer.
	ErrOver = errors.New("the session is over")
	// ErrUnavailable says that kube-apiserver did not answer, or that not all is loaded, or not up to date. It is a Status: where a token
	// can't be verified by it the answer is 503, and good tokens are kept.
	ErrUnavailable error = status.RetryAfter(int32(RetryAfter/time.Second),
		status.Errorf(http.StatusServiceUnavailable, "who you are can't be told now: try again"))
	// ErrRefresh says that a refresh token is not valid: unknown, used, of an ended session, or of another client.
	ErrRefresh = errors.New("the refresh token is not good")

	// ErrUsed says that a code was used before; the session that it opened is ended (RFC 6749, 4.1.2).
	ErrUsed = errors.New("the code was used before")
	// ErrWaiting says that the device is not approved yet.
	ErrWaiting = errors.New("nobody has approved the device yet")
	// ErrDenied says that a user denied the device.
	ErrDenied = errors.New("the device was denied")

	// ErrKey says that an API key is not valid: unknown, expired, revoked, or its user is deleted or disabled.
	ErrKey = errors.New("the API key is not good")
	// ErrTooMany says that a user has reached the limit of something.
	ErrTooMany = errors.New("there are too many already")
	// ErrExpiry says that an API key would expire in the past, or too late.
	ErrExpiry = errors.New("the end of the API key is in the past, or too far away")
	// ErrScope says that the scope of a new API key is unknown.
	ErrScope = errors.New("the scope of the API key is unknown")
	// ErrPolicy says that a new password is not allowed; its text gives the reason.
	ErrPolicy = errors.New("the new password can't be used")
)

// RetryAfter is how long clients should wait before they try again after ErrBusy or ErrUnavailable.
const RetryAfter = 2 * time.Second

// ThrottledError is an ErrLimited that ends after some seconds.
type ThrottledError struct {
	// After is how long to wait before the next attempt.
	After time.Duration
}

func (*ThrottledError) Error() string { return ErrLimited.Error() }

// Unwrap makes it an ErrLimited.
func (*ThrottledError) Unwrap() error { return ErrLimited }
