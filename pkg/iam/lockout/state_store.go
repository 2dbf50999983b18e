package lockout

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// lockoutConflicts bounds the attempts of one change.
	lockoutConflicts = 16
	// lockoutSweep is the interval at which Lockouts that count nothing are deleted.
	lockoutSweep = 5 * time.Minute
	// sweepLockouts bounds the deletions of one Sweep.
	sweepLockouts = 200
)

// pendingWrite is a write that no caller waits for: after a success, with a network to remember if n is 1; after a canceled attempt,
// with n below 0.
type pendingWrite struct {
	a *Attempt
	n int
}

// settle has Run write. If too many writes wait, the count stays until its window ends.
func (l *Limiter) settle(s pendingWrite) {
	select {
	case l.settles <- s:
	default:
		l.writes.WithLabelValues("dropped").Inc()
	}
}

// Run does the writes that no caller waits for, and deletes Lockouts that count nothing, until ctx ends.
func (l *Limiter) Run(ctx context.Context) {
	tick := time.NewTicker(lockoutSweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-l.settles:
			l.write(ctx, s)
		case <-tick.C:
			l.Sweep(ctx)
		}
	}
}

// Flush does the writes that logins have queued, as Run does continuously.
func (l *Limiter) Flush(ctx context.Context) {
	for {
		select {
		case s := <-l.settles:
			l.write(ctx, s)
		default:
			return
		}
	}
}

func (l *Limiter) write(ctx context.Context, s pendingWrite) {
	a := s.a
	err := l.change(ctx, a.User.UID, a.User.Name, func(led *state, now time.Time) (*state, error) {
		if s.n < 0 {
			return a.failed(led, -1, now), nil
		}
		return a.cleared(led, s.n, now), nil
	})
	if err != nil {
		klog.V(2).InfoS("A Lockout could not be changed after a login; it changes by itself when its time is over", "user", a.User.Name,
			"reason", err.Error())
	}
}

// change writes a user's state after edit. It returns edit's error unchanged; any other error says that nothing was written. A client that
// disconnects does not undo a count. Unlike retry.RetryOnConflict, it first edits the state in memory, which costs one call, and reads the
// object only after a conflict.
func (l *Limiter) change(ctx context.Context, uid, user string, edit func(*state, time.Time) (*state, error)) error {
	if now := l.Now(); l.isDown(now) {
		return fmt.Errorf("%w: count logins: kube-apiserver did not answer a moment ago", iam.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	turn := l.stripe[recent.KeyOf(uid)%stripes]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return fmt.Errorf("%w: count logins: %w", iam.ErrUnavailable, ctx.Err())
	}
	l.mu.Lock()
	led := l.byUser[uid]
	l.mu.Unlock()
	for range lockoutConflicts {
		if led == nil {
			led = &state{user: user}
		}
		next, err := edit(led, l.Now())
		if err != nil {
			return err
		}
		stored, err := l.store(ctx, uid, next)
		switch {
		case err == nil:
			l.put(uid, stored)
			l.writes.WithLabelValues("ok").Inc()
			return nil
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || next.version != "" && apierrors.IsNotFound(err):
			led, err = l.load(ctx, uid)
		}
		if err != nil {
			l.failed(err)
			return fmt.Errorf("%w: count logins: %w", iam.ErrUnavailable, err)
		}
	}
	l.writes.WithLabelValues("failed").Inc()
	return fmt.Errorf("%w: count logins: others changed the count at the same time, again and again", iam.ErrUnavailable)
}

func (l *Limiter) store(ctx context.Context, uid string, next *state) (*state, error) {
	o := next.object(uid)
	if next.version == "" {
		if next.empty() {
			return next, nil
		}
		made, err := l.API.Create(ctx, o)
		if err != nil {
			return nil, err
		}
		return newState(made), nil
	}
	made, err := l.API.Update(ctx, o)
	if err != nil {
		return nil, err
	}
	return newState(made), nil
}

// load reads the stored state; nil for none.
func (l *Limiter) load(ctx context.Context, uid string) (*state, error) {
	o, err := l.API.Get(ctx, uid)
	if apierrors.IsNotFound(err) {
		l.Delete("", uid)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return newState(o), nil
}

func (l *Limiter) isDown(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.down)
}

func (l *Limiter) failed(err error) {
	l.writes.WithLabelValues("failed").Inc()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = l.Now().Add(writePause)
	klog.ErrorS(err, "Counting a failed login failed; it is counted in the memory of this replica only")
}

// put stores a state unless a newer one is known. Resource versions of kube-apiserver can be compared as numbers.
func (l *Limiter) put(uid string, next *state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.byUser[uid]
	if old != nil && old.uid == next.uid && versionOf(next) <= versionOf(old) { // an equal version may lack what a login changed here
		return
	}
	if next.version == "" {
		return
	}
	l.byUser[uid] = next
}

func versionOf(l *state) uint64 {
	n, err := strconv.ParseUint(l.version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Sweep deletes Lockouts that count nothing, up to a limit.
func (l *Limiter) Sweep(ctx context.Context) {
	for uid, led := range l.idle() {
		o := led.object(uid)
		err := l.API.Delete(ctx, uid, metav1.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			klog.ErrorS(err, "Deleting a Lockout that counts nothing failed; it is tried again", "user", led.user)
			return
		}
	}
}

func (l *Limiter) idle() map[string]*state {
	now, out := l.Now(), map[string]*state{}
	synced := (l.Synced == nil || l.Synced()) && l.Users.Complete() == nil
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, led := range l.byUser {
		u := l.Users.ByName(led.user)
		gone := synced && (u == nil || u.UID != uid)
		if !gone && !led.pruned(now, l.Window).empty() {
			continue
		}
		if out[uid] = led; len(out) == sweepLockouts {
			break
		}
	}
	return out
}
