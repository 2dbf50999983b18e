package iam

import (
	"errors"
	"time"
)

// The errors with which logins, sessions and credentials fail. Only a caller with the right password learns that an account is suspended or limited.
var (

	// ErrCredentials says that the name, or the password, is wrong; never which.
	ErrCredentials = errors.New("the name or the password is wrong")
	// ErrSuspended says that the user may not log in: disabled, or not active yet.
	ErrSuspended = errors.New("the account is suspended")
	// ErrLimited says that the user may not log in for a while, after too many wrong passwords.
	ErrLimited = errors.New("the account is locked after too many wrong passwords")
	// ErrBusy says that too many logins wait already. Try again after RetryAfter.
	ErrBusy = errors.New("too many logins at once")

	// ErrUnknownProvider says that no provider has the name that a login gives, or that it is disabled.
	ErrUnknownProvider = errors.New("there is no such identity provider")
	// ErrNotLinked says that the identity is good, and that no User is linked to it, nor may be made.
	ErrNotLinked = errors.New("no user is linked to the identity")

	// ErrOver says that a session is not, or no longer, there.
	ErrOver = errors.New("the session is over")
	// ErrUnavailable says that kube-apiserver, where sessions live, did not answer.
	ErrUnavailable = errors.New("sessions can't be reached")
	// ErrRefresh says that a refresh token is not good: made up, worn out, ended, or of another client.
	ErrRefresh = errors.New("the refresh token is not good")

	// ErrUsed says that a code was used before; the session that it opened is ended (RFC 6749, 4.1.2).
	ErrUsed = errors.New("the code was used before")
	// ErrWaiting says that nobody has approved the device yet.
	ErrWaiting = errors.New("nobody has approved the device yet")
	// ErrDenied says that somebody said no to the device.
	ErrDenied = errors.New("the device was denied")

	// ErrKey says that an API key is not good: made up, expired, revoked, or its user is gone or disabled.
	ErrKey = errors.New("the API key is not good")
	// ErrTooMany says that a user has as many of something as he may.
	ErrTooMany = errors.New("there are too many already")
	// ErrExpiry says that the end of an API key is not in the time that a key may be good.
	ErrExpiry = errors.New("the end of the API key is in the past, or too far away")
	// ErrScope says that an API key is asked for that is for something unknown.
	ErrScope = errors.New("the scope of the API key is unknown")
	// ErrPolicy says that a new password may not be used; its text says why, to the person who chose it.
	ErrPolicy = errors.New("the new password can't be used")
)

// RetryAfter is what to tell a client that met ErrBusy or ErrUnavailable.
const RetryAfter = 2 * time.Second

// ThrottledError is an ErrLimited that is over in seconds.
type ThrottledError struct {
	// After is when the next attempt may be made.
	After time.Duration
}

func (*ThrottledError) Error() string { return ErrLimited.Error() }

// Unwrap makes it an ErrLimited.
func (*ThrottledError) Unwrap() error { return ErrLimited }
