// Package factor keeps second factors: authenticator apps (RFC 6238) with recovery codes, and passkeys (WebAuthn).
package factor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/crdclient"
	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// factorConflicts bounds the attempts of one change.
	factorConflicts = 8
	// beginLife is the time within which an enrolment, or a login by passkey, has to be finished.
	beginLife = 5 * time.Minute
	// resealAfter is the age at which a secret is sealed again. Keys that no longer seal can open for years (token.KeySet.OpenStored).
	resealAfter = 30 * 24 * time.Hour
	resealEvery = 6 * time.Hour
	// resealAtOnce bounds the writes of one Reseal.
	resealAtOnce = 200
	// goneSize is how many deleted objects are remembered, for the writes that are under way.
	goneSize = 1024
)

// Store has the second factors of all users in memory, and changes them. It is a store.Sink of factors.session.kapis.dev/v1alpha1. Fill in
// its fields before its feed starts.
//
// Codes, recovery codes and answers to challenges may be used once: an update with optimistic concurrency uses them up, so that all
// replicas together accept each at most once.
type Store struct {
	API   crdclient.API[*v1alpha1.Factor]
	Users *iam.UserIndex
	Keys  token.KeySource
	// Name is the name of this platform in authenticator apps.
	Name string
	// Passkeys verifies WebAuthn credentials; nil for none. See NewPasskeys.
	Passkeys *webauthn.WebAuthn
	// Known returns why the cluster may have factors that are not here, nil while it has none; nil itself for never.
	Known func() error
	Now   func() time.Time

	mu     sync.RWMutex
	byUser map[string]*v1alpha1.Factor // UID of the user
	gone   *recent.Map[types.UID, struct{}]
}

// Enrolled describes which factors a user has.
type Enrolled struct {
	TOTP         bool
	RecoveryLeft int
	Passkeys     []Passkey
}

// Passkey is one WebAuthn credential.
type Passkey struct {
	ID, Name      string
	Created, Used time.Time
}

var _ store.Sink = (*Store)(nil)

// errGone says that a user has no factor to change.
var errGone = fmt.Errorf("%w: the user has no such second factor", iam.ErrCredentials)

// Any reports whether the user has a second factor. Recovery codes alone are none.
func (e Enrolled) Any() bool { return e.TOTP || len(e.Passkeys) > 0 }

// Set stores a user's factors. If they can't be decoded, the former ones stay: a user must not lose a factor unnoticed.
func (f *Store) Set(o *store.Object) {
	in := &v1alpha1.Factor{}
	if err := json.Unmarshal(o.Raw, in); err != nil {
		klog.ErrorS(err, "A Factor can't be read; what was known of it before goes on", "factor", o.Name)
		return
	}
	f.put(in)
}

// Delete removes a user's factors from memory.
func (f *Store) Delete(_, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o := f.byUser[name]; o != nil {
		f.forgo(o)
	}
	delete(f.byUser, name)
}

func (f *Store) put(in *v1alpha1.Factor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(in)
}

// set stores a user's factors. The lock is held.
func (f *Store) set(in *v1alpha1.Factor) {
	if f.byUser == nil {
		f.byUser = map[string]*v1alpha1.Factor{}
	}
	if before := f.byUser[in.Name]; before != nil && before.UID != in.UID {
		f.forgo(before)
	}
	f.byUser[in.Name] = in
}

// forgo remembers that an object is gone. The lock is held.
func (f *Store) forgo(o *v1alpha1.Factor) {
	if f.gone == nil {
		f.gone = recent.NewMap[types.UID, struct{}](goneSize)
	}
	f.gone.Set(o.UID, struct{}{})
}

// wrote stores what was written, unless the feed has brought its deletion since: it would come back otherwise.
func (f *Store) wrote(made *v1alpha1.Factor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone == nil || !f.gone.Has(made.UID) {
		f.set(made)
	}
}

func (f *Store) stored(uid string) *v1alpha1.Factor {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.byUser[uid]
}

// Of returns the factors of a user.
func (f *Store) Of(u *iam.User) Enrolled {
	o := f.stored(u.UID)
	if o == nil {
		return Enrolled{}
	}
	e := Enrolled{TOTP: o.Spec.TOTP != nil, RecoveryLeft: len(o.Spec.Recovery)}
	for _, p := range o.Spec.Passkeys {
		e.Passkeys = append(e.Passkeys, Passkey{ID: p.ID, Name: p.Name, Created: p.CreatedAt.Time, Used: p.UsedAt.Time})
	}
	return e
}

// Reset deletes all factors of a user who has lost them.
func (f *Store) Reset(ctx context.Context, u *iam.User) error {
	if f.API == nil {
		return iam.ErrUnavailable
	}
	if err := f.API.Delete(ctx, u.UID, metav1.Preconditions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: reset second factors: %w", iam.ErrUnavailable, err)
	}
	f.Delete("", u.UID)
	klog.InfoS("Second factors reset", "user", u.Name)
	return nil
}

// change writes a user's factors after edit, which gets an empty one if there are none. It returns edit's error unchanged; others
// are ErrUnavailable. Unlike retry.RetryOnConflict, it first edits the state in memory, which costs one call, and reads the object
// only after a conflict.
func (f *Store) change(ctx context.Context, uid, name string, edit func(*v1alpha1.FactorSpec) error) error {
	if f.API == nil {
		return fmt.Errorf("change second factors: %w", iam.ErrUnavailable)
	}
	now := f.stored(uid)
	for range factorConflicts {
		next := &v1alpha1.Factor{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Factor"},
			ObjectMeta: metav1.ObjectMeta{Name: uid}, Spec: v1alpha1.FactorSpec{User: name},
		}
		if now != nil {
			next = now.DeepCopy()
		}
		if err := edit(&next.Spec); err != nil {
			return err
		}
		made, err := f.write(ctx, now, next)
		if err == nil {
			if made == nil {
				f.Delete("", uid)
			} else {
				f.wrote(made)
			}
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: change second factors: %w", iam.ErrUnavailable, err)
		}
		if now == nil && apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: change second factors; are the CRDs of this version installed?: %w", iam.ErrUnavailable, err)
		}
		switch now, err = f.API.Get(ctx, uid); {
		case apierrors.IsNotFound(err):
			now = nil
		case err != nil:
			return fmt.Errorf("%w: read second factors: %w", iam.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: others changed the second factors at the same time, again and again", iam.ErrUnavailable)
}

// write replaces now by next, or deletes the object if next is empty.
func (f *Store) write(ctx context.Context, now, next *v1alpha1.Factor) (*v1alpha1.Factor, error) {
	empty := next.Spec.TOTP == nil && len(next.Spec.Passkeys) == 0
	switch {
	case now == nil && empty:
		return nil, nil
	case now == nil:
		return f.API.Create(ctx, next)
	case empty:
		return nil, f.API.Delete(ctx, now.Name, metav1.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion})
	}
	return f.API.Update(ctx, next)
}

// Run seals secrets again, long before their keys expire, until ctx ends.
func (f *Store) Run(ctx context.Context) {
	tick := time.NewTicker(resealEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.Reseal(ctx)
		}
	}
}

// Reseal does once what Run does, up to a limit.
func (f *Store) Reseal(ctx context.Context) {
	f.mu.RLock()
	all := slices.Collect(maps.Values(f.byUser))
	f.mu.RUnlock()
	n := 0
	for _, o := range all {
		if o.Spec.TOTP == nil || f.Now().Sub(o.Spec.TOTP.SealedAt.Time) < resealAfter {
			continue
		}
		if n++; n > resealAtOnce || ctx.Err() != nil {
			return
		}
		err := f.change(ctx, o.Name, o.Spec.User, func(s *v1alpha1.FactorSpec) error {
			secret, err := f.secret(o.Name, s)
			if err != nil {
				return err
			}
			return f.keep(o.Name, s, secret)
		})
		if errors.Is(err, iam.ErrUnavailable) {
			klog.ErrorS(err, "Sealing the secret of an authenticator app again failed; it is retried", "user", o.Spec.User)
			return
		}
	}
}
