package iam

import (
	"context"
	"fmt"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Login is who logs in, and through what.
type Login struct {
	Proof
	Origin
	// Name is the name of the session, where it has to be one that follows from a code, so that the code opens one
	// session only; "" for a new one.
	Name string
	// Client is the OAuth client; "" for a person's own browser, in which he logs in to clients.
	Client string
	// Parent is the session of the browser in which the session was opened; "" for none. It ends with it, unless it
	// has the scope offline_access.
	Parent string
	// Scopes are what was granted.
	Scopes []string
	// NoRefresh opens a session that lives as long as one access token.
	NoRefresh bool
}

// Open opens a session, and returns it with its refresh token.
func (s *Sessions) Open(ctx context.Context, l Login) (*Session, string, error) {
	now := s.Now()
	name := s.nextName(l.User.UID, now)
	refresh, err := s.Keys.KeySet().NewRefresh(name, 1, now)
	if err != nil {
		return nil, "", fmt.Errorf("open a session: %w", err)
	}
	made, err := s.API.Create(ctx, l.object(name, token.HashRefresh(refresh), now, s.Lifetime(l.Client)))
	if err != nil {
		return nil, "", fmt.Errorf("%w: open a session: %w", ErrUnavailable, err)
	}
	r := newRecord(made)
	r.until = now.Add(unconfirmed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.put(r); r == nil { // ended already, by another login of the same user
		return nil, "", fmt.Errorf("%w: the session was ended as soon as it was open", ErrUnavailable)
	}
	if s.Single {
		s.trim(r.UserUID, 1, "other login")
	} else {
		s.trim(r.UserUID, s.PerUser, "too many")
	}
	return &r.Session, refresh, nil
}

// nextName makes a name that sorts behind those of the user's other sessions, also where the replica
// that opened them has a clock that is ahead: the newest login has to be the last to go.
func (s *Sessions) nextName(uid string, now time.Time) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if list := s.byUser[uid]; len(list) > 0 {
		if last := nameTime(list[len(list)-1]).Add(time.Millisecond); last.After(now) && last.Before(now.Add(time.Hour)) {
			now = last
		}
	}
	return newName(now)
}

// trim ends the oldest sessions of a user until there are no more than n. The lock is held.
func (s *Sessions) trim(uid string, n int, reason string) {
	list := s.byUser[uid]
	if len(list) <= n {
		return
	}
	for _, name := range append([]string(nil), list[:len(list)-n]...) {
		s.condemn(name, reason)
	}
}

// condemn refuses a session from now on, and has its object deleted. The lock is held.
func (s *Sessions) condemn(name, reason string) {
	if r := s.drop(name); r != nil {
		s.doomed[name] = doom{record: r, reason: reason}
		s.wake()
	}
}

// userChanged ends the sessions that a change of a user ends. It is called by the users' feed.
func (s *Sessions) userChanged(old, next *User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range append([]string(nil), s.byUser[old.UID]...) {
		switch {
		case next == nil || next.UID != old.UID || next.Deleting:
			s.condemn(name, "user deleted")
		case next.State == v1beta1.UserDisabled:
			s.condemn(name, "user disabled")
		case next.credential != old.credential && s.byName[name].credential == old.credential:
			// Only those of the old password: one of the new password may be here
			// already, since its feed is another.
			s.condemn(name, "password changed")
		}
	}
}
