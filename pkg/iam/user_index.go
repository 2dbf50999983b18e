package iam

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/store"
)

// UserIndex finds users by name, e-mail and linked identity. It is a store.Sink of users.iam.kubesphere.io/v1beta1.
type UserIndex struct {
	mu      sync.RWMutex
	byName  map[string]*User
	byEmail map[string][]string // lower case e-mail -> names
	byLink  map[Link][]string   // identity -> names
	awaited map[string]chan struct{}
	// changed is called with each change; next is nil for a deleted user. Set it before the feed starts.
	changed func(old, next *User)
	// complete returns why the cluster may have users that are not here, nil while it has none; nil itself for never.
	complete func() error
}

// NewUserIndex returns an empty index.
func NewUserIndex() *UserIndex {
	return &UserIndex{
		byName: map[string]*User{}, byEmail: map[string][]string{}, byLink: map[Link][]string{}, awaited: map[string]chan struct{}{},
		changed: func(_, _ *User) {},
	}
}

var _ store.Sink = (*UserIndex)(nil)

// OnChange has f called with each change of a known user; next is nil for a deleted one. Call it before the feed starts.
func (u *UserIndex) OnChange(f func(old, next *User)) { u.changed = f }

// CompleteBy has complete tell why the cluster may have users that the index was not told of, with nil while it has none; without it the
// index is always complete. Call it before the feed starts.
func (u *UserIndex) CompleteBy(complete func() error) { u.complete = complete }

// Complete returns an ErrUnavailable while the cluster may have users that are not here, or others than are here.
func (u *UserIndex) Complete() error {
	if u.complete == nil {
		return nil
	}
	if err := u.complete(); err != nil {
		return fmt.Errorf("%w: not all users are known: %w", ErrUnavailable, err)
	}
	return nil
}

// Lookup returns the user of a name and a UID, "" for any UID; nil if there is none. It fails with ErrUnavailable where the cluster may
// have one that is not here: nobody is told that a user is gone who is only not known yet.
func (u *UserIndex) Lookup(name, uid string) (*User, error) {
	is := func(of *User) bool { return of != nil && (uid == "" || of.UID == uid) }
	if of := u.ByName(name); is(of) {
		return of, nil
	}
	if err := u.Complete(); err != nil {
		return nil, err
	}
	if of := u.ByName(name); is(of) { // it came before the last of them
		return of, nil
	}
	return nil, nil
}

// Active returns an active user as a caller, and since when the name and the password are theirs, zero if that is not known: what was
// issued to the name before that was issued to another user, or for another password. Its errors are ErrSuspended, also if there is no
// such user, and ErrUnavailable.
func (u *UserIndex) Active(name string) (user.Info, time.Time, error) {
	of, err := u.Lookup(name, "")
	if err != nil {
		return nil, time.Time{}, err
	}
	if of == nil || of.Deleting || of.State != v1beta1.UserActive {
		return nil, time.Time{}, ErrSuspended
	}
	since := of.Created
	if of.PasswordChanged.After(since) {
		since = of.PasswordChanged
	}
	return of.Info(), since, nil
}

// Set stores a new or changed User. One that can't be decoded is removed, so that no one can log in as it.
func (u *UserIndex) Set(o *store.Object) {
	next, err := ParseUser(o.Raw)
	if err != nil {
		klog.ErrorS(err, "A User is left out, and can't log in", "user", o.Name)
		u.Delete("", o.Name)
		return
	}
	u.mu.Lock()
	old := u.byName[next.Name]
	if old != nil {
		u.dropEmail(old)
		u.unlink(old)
	}
	u.byName[next.Name] = next
	u.link(next)
	u.seen(next.Name)
	if key := EmailKey(next.Email); key != "" {
		u.byEmail[key] = append(u.byEmail[key], next.Name)
	}
	u.mu.Unlock()
	if old != nil {
		u.changed(old, next)
	}
}

// Delete removes a User.
func (u *UserIndex) Delete(_, name string) {
	u.mu.Lock()
	old := u.byName[name]
	if old != nil {
		u.dropEmail(old)
		u.unlink(old)
		delete(u.byName, name)
		u.seen(name)
	}
	u.mu.Unlock()
	if old != nil {
		u.changed(old, nil)
	}
}

// FleetUIDOf returns the UID that the user of a name has on the hub of the fleet, or else here; "" for none. Its error is that of Lookup.
func (u *UserIndex) FleetUIDOf(name string) (string, error) {
	found, err := u.Lookup(name, "")
	if found == nil || err != nil {
		return "", err
	}
	return cmp.Or(found.FleetUID, found.UID), nil
}

// ByName returns the user of that name, or nil.
func (u *UserIndex) ByName(name string) *User {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.byName[name]
}

// ByEmail returns the user of an e-mail in any case; nil if there is none, or more than one.
func (u *UserIndex) ByEmail(email string) *User {
	key := EmailKey(email)
	u.mu.RLock()
	defer u.mu.RUnlock()
	if names := u.byEmail[key]; key != "" && len(names) == 1 {
		return u.byName[names[0]]
	}
	return nil
}

// ByLogin returns the user of a name or an e-mail as typed at a login. No name contains an "@".
func (u *UserIndex) ByLogin(login string) *User {
	if strings.Contains(login, "@") {
		return u.ByEmail(login)
	}
	return u.ByName(login)
}

func (u *UserIndex) dropEmail(old *User) {
	key := EmailKey(old.Email)
	if key == "" {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(u.byEmail[key]), func(n string) bool { return n == old.Name })
	if len(rest) == 0 {
		delete(u.byEmail, key)
		return
	}
	u.byEmail[key] = rest
}

// EmailKey returns a key that is equal for e-mail addresses that a login takes for the same: case, and blanks around, are ignored.
func EmailKey(s string) string { return strings.ToLower(strings.TrimSpace(s)) }

// EmailTaken reports whether a user has the e-mail, in any case.
func (u *UserIndex) EmailTaken(email string) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return len(u.byEmail[EmailKey(email)]) > 0
}

// seen wakes the callers of Await that wait for a change of the user. The lock is held.
func (u *UserIndex) seen(name string) {
	if ch, ok := u.awaited[name]; ok {
		close(ch)
		delete(u.awaited, name)
	}
}

// Await waits until told returns true for the user's state as the feed brings it (nil for no user), but no longer than most.
func (u *UserIndex) Await(ctx context.Context, name string, most time.Duration, told func(*User) bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		u.mu.Lock()
		if told(u.byName[name]) {
			u.mu.Unlock()
			return
		}
		ch := u.awaited[name]
		if ch == nil {
			ch = make(chan struct{})
			u.awaited[name] = ch
		}
		u.mu.Unlock()
		select {
		case <-ch:
		case <-ctx.Done():
			u.mu.Lock()
			if u.awaited[name] == ch {
				delete(u.awaited, name) // other callers go on when their own time is up
			}
			u.mu.Unlock()
			return
		}
	}
}
