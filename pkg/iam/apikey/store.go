// Package apikey keeps the API keys of all users in memory, and creates and revokes them.
package apikey

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/crdclient"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// keysPerUser bounds the keys of one user.
	keysPerUser = 50
	// maxDescription is the longest description, in characters, as in the CRD.
	maxDescription = 256
	// keyUsedEvery is the precision of the time of the last use.
	keyUsedEvery = time.Hour
	// keySweep is the interval of Run, and keyShown how long an expired key is still listed.
	keySweep = 10 * time.Minute
	keyShown = 24 * time.Hour
	// keysAtOnce bounds the writes of one Sweep, and keyOrphanAge is the age from which a key of a missing user is deleted: a
	// younger one may be ahead of the feed of users.
	keysAtOnce   = 200
	keyOrphanAge = 5 * time.Minute
)

// Key is a long-lived credential of one user, for automation. Its secret is stored as a hash.
type Key struct {
	Name, User, UserUID, Description string
	// Scope is what the key is for: authz.ScopeRead, or "" for all that the user may. See authz.RestrictAPIKeys.
	Scope            string
	Created, Expires time.Time
	// Used is roughly when the key was last used; zero for never.
	Used time.Time
}

// Store has the API keys of all users in memory: a request's key is checked without a call. It is a store.Sink of
// apikeys.session.kapis.dev/v1alpha1. Fill in its fields before its feed starts.
//
// A key survives a change of the password, so that automation does not notice it; it ends with its user, or when it is revoked.
type Store struct {
	API   crdclient.API[*v1alpha1.APIKey]
	Users *iam.UserIndex
	// MaxAge is the longest life of a key.
	MaxAge time.Duration
	// Complete returns why the cluster may have keys that the store was not told of, and nil while it has none; nil itself for never.
	Complete func() error
	// Synced reports whether all users are loaded; nil for always.
	Synced func() bool
	Now    func() time.Time

	mu     sync.RWMutex
	byName map[string]*keyRecord
	byUser map[string][]*keyRecord // UID of the user
}

// keyRecord is a key in memory. Only used and who change.
type keyRecord struct {
	Key
	uid  types.UID
	hash []byte
	used atomic.Int64 // Unix time of the last use seen here
	who  atomic.Pointer[keyUser]
}

// keyUser is the caller that a key stands for, made once per state of the user.
type keyUser struct {
	of   *iam.User
	info *user.DefaultInfo
}

var _ store.Sink = (*Store)(nil)

// Set stores a key.
func (k *Store) Set(o *store.Object) {
	var in v1alpha1.APIKey
	if err := json.Unmarshal(o.Raw, &in); err != nil {
		klog.ErrorS(err, "An APIKey is left out, and refused", "apikey", o.Name)
		k.Delete("", o.Name)
		return
	}
	k.put(&in)
}

// Delete removes a revoked key from memory.
func (k *Store) Delete(_, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(name)
}

func (k *Store) put(in *v1alpha1.APIKey) *keyRecord {
	r := newRecord(in)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set(r)
	return r
}

// update stores what was read or written of a key, unless the feed has brought its deletion since: it would come back otherwise.
func (k *Store) update(in *v1alpha1.APIKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if old := k.byName[in.Name]; old != nil && old.uid == in.UID {
		k.set(newRecord(in))
	}
}

func newRecord(in *v1alpha1.APIKey) *keyRecord {
	r := &keyRecord{Key: Key{
		Name: in.Name, User: in.Spec.User, UserUID: string(in.Spec.UserUID), Description: in.Spec.Description, Scope: in.Spec.Scope,
		Created: in.Spec.CreatedAt.Time, Expires: in.Spec.ExpiresAt.Time, Used: in.LastUsedAt.Time,
	}, uid: in.UID}
	r.hash, _ = hex.DecodeString(in.Spec.Hash) // a hash that can't be decoded matches nothing
	return r
}

// set stores a key in the index. The lock is held.
func (k *Store) set(r *keyRecord) {
	if old := k.drop(r.Name); old != nil && old.uid == r.uid {
		r.used.Store(old.used.Load())
	}
	if k.byName == nil {
		k.byName, k.byUser = map[string]*keyRecord{}, map[string][]*keyRecord{}
	}
	k.byName[r.Name] = r
	k.byUser[r.UserUID] = append(k.byUser[r.UserUID], r)
}

// drop removes a key from the index. The lock is held.
func (k *Store) drop(name string) *keyRecord {
	r := k.byName[name]
	if r == nil {
		return nil
	}
	delete(k.byName, name)
	list := slices.DeleteFunc(slices.Clone(k.byUser[r.UserUID]), func(o *keyRecord) bool { return o == r })
	if len(list) == 0 {
		delete(k.byUser, r.UserUID)
	} else {
		k.byUser[r.UserUID] = list
	}
	return r
}

// Authenticate returns the user of a key. Its errors are ErrKey, and ErrUnavailable where the key or its user may only not be known yet. A
// key that another replica has just created may be unknown for a moment.
func (k *Store) Authenticate(key token.APIKey) (user.Info, error) {
	r, err := k.find(key.Name)
	if err != nil {
		return nil, err
	}
	if r == nil || subtle.ConstantTimeCompare(r.hash, key.Hash[:]) != 1 {
		return nil, iam.ErrKey
	}
	now := k.Now()
	if !now.Before(r.Expires) {
		return nil, fmt.Errorf("%w: it has expired", iam.ErrKey)
	}
	u, err := k.Users.Lookup(r.User, r.UserUID)
	switch {
	case err != nil:
		return nil, err
	case u == nil:
		return nil, fmt.Errorf("%w: its user is gone", iam.ErrKey)
	}
	if why := u.RefusalReason(); why != "" {
		return nil, fmt.Errorf("%w: %s", iam.ErrKey, why)
	}
	if t := now.Unix(); t-r.used.Load() >= int64(time.Minute/time.Second) {
		r.used.Store(t)
	}
	return r.info(u), nil
}

// find returns the key of a name, nil if there is none.
func (k *Store) find(name string) (*keyRecord, error) {
	known := func() *keyRecord {
		k.mu.RLock()
		defer k.mu.RUnlock()
		return k.byName[name]
	}
	r := known()
	if r != nil {
		return r, nil
	}
	if err := k.complete(); err != nil {
		return nil, err
	}
	return known(), nil // it may have come before the last of them
}

// complete returns an ErrUnavailable while the cluster may have keys that are not here.
func (k *Store) complete() error {
	if k.Complete == nil {
		return nil
	}
	if err := k.Complete(); err != nil {
		return fmt.Errorf("%w: not all API keys are known: %w", iam.ErrUnavailable, err)
	}
	return nil
}

// info returns the key's user, marked as one with an API key.
func (r *keyRecord) info(u *iam.User) user.Info {
	if w := r.who.Load(); w != nil && w.of == u {
		return w.info
	}
	extra := map[string][]string{iam.ExtraCredential: {iam.CredentialAPIKey}, iam.ExtraCredentialID: {"APIKEY=" + r.Name}}
	if r.Scope != "" {
		extra[authz.ExtraScope] = []string{r.Scope}
	}
	w := &keyUser{of: u, info: &user.DefaultInfo{Name: u.Info().GetName(), UID: u.Info().GetUID(), Groups: u.Info().GetGroups(), Extra: extra}}
	r.who.Store(w)
	return w.info
}

// Request says what a new API key is for, its Scope, and when it expires.
type Request struct {
	Description, Scope string
	Expires            time.Time
}

// Create creates a key, and returns it with its token, which is shown once. Its errors are ErrTooMany, ErrExpiry, ErrScope and
// ErrUnavailable.
func (k *Store) Create(ctx context.Context, u *iam.User, in Request) (*Key, string, error) {
	if k.API == nil {
		return nil, "", fmt.Errorf("make an API key: %w", iam.ErrUnavailable)
	}
	now := k.Now()
	if !in.Expires.After(now) || in.Expires.After(now.Add(k.MaxAge)) {
		return nil, "", fmt.Errorf("%w: it has to end within %v", iam.ErrExpiry, k.MaxAge)
	}
	if in.Scope != "" && in.Scope != authz.ScopeRead {
		return nil, "", fmt.Errorf("make an API key: %w: want %q, or none for all that the user may", iam.ErrScope, authz.ScopeRead)
	}
	if len([]rune(in.Description)) > maxDescription {
		return nil, "", fmt.Errorf("make an API key: %w", errLongDescription)
	}
	if len(k.List(u)) >= keysPerUser {
		return nil, "", fmt.Errorf("make an API key: %w: %d", iam.ErrTooMany, keysPerUser)
	}
	t, key := token.NewAPIKey()
	made, err := k.API.Create(ctx, &v1alpha1.APIKey{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "APIKey"},
		ObjectMeta: metav1.ObjectMeta{Name: key.Name},
		Spec: v1alpha1.APIKeySpec{
			User: u.Name, UserUID: types.UID(u.UID), Description: in.Description, Scope: in.Scope, Hash: key.HexHash(),
			CreatedAt: metav1.NewTime(now), ExpiresAt: metav1.NewTime(in.Expires),
		},
	})
	if err != nil {
		return nil, "", fmt.Errorf("%w: make an API key: %w", iam.ErrUnavailable, err)
	}
	r := k.put(made)
	if r.Scope != in.Scope { // an older definition of the kind has no such field, and the key would have all rights
		if err := k.end(ctx, r); err != nil {
			return nil, "", err
		}
		return nil, "", fmt.Errorf("%w: make an API key: the definition of the kind APIKey in the cluster knows no scope: apply config/crd",
			iam.ErrUnavailable)
	}
	klog.InfoS("API key made", "user", u.Name, "key", key.Name, "scope", r.Scope, "expires", r.Expires.UTC().Format(time.RFC3339))
	return &r.Key, t, nil
}

var errLongDescription = fmt.Errorf("the description has more than %d characters", maxDescription)

// List returns the keys of a user, the newest first.
func (k *Store) List(u *iam.User) []Key {
	k.mu.RLock()
	list := k.byUser[u.UID]
	k.mu.RUnlock()
	out := make([]Key, 0, len(list))
	for _, r := range list {
		key := r.Key
		if used := r.used.Load(); used > key.Used.Unix() {
			key.Used = time.Unix(used, 0)
		}
		out = append(out, key)
	}
	slices.SortFunc(out, func(a, b Key) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Revoke deletes a key of a user; ErrOver if the user has none of that name.
func (k *Store) Revoke(ctx context.Context, u *iam.User, name string) error {
	k.mu.RLock()
	r := k.byName[name]
	k.mu.RUnlock()
	if r == nil || r.UserUID != u.UID {
		return fmt.Errorf("%w: there is no such API key", iam.ErrOver)
	}
	return k.end(ctx, r)
}

// RevokeAll deletes the keys of a user. It deletes those that are known here and returns an ErrUnavailable, where the user may have
// others: it has to be repeated then.
func (k *Store) RevokeAll(ctx context.Context, u *iam.User) error {
	incomplete := k.complete() // before the list is read: what comes in between is in it
	k.mu.RLock()
	list := k.byUser[u.UID]
	k.mu.RUnlock()
	for _, r := range list {
		if err := k.end(ctx, r); err != nil {
			return err
		}
	}
	return incomplete
}

func (k *Store) end(ctx context.Context, r *keyRecord) error {
	err := k.API.Delete(ctx, r.Name, metav1.Preconditions{UID: &r.uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("%w: revoke an API key: %w", iam.ErrUnavailable, err)
	}
	k.Delete("", r.Name)
	klog.InfoS("API key ended", "user", r.User, "key", r.Name)
	return nil
}

// Run writes when keys were used, and deletes expired ones, until ctx ends.
func (k *Store) Run(ctx context.Context) {
	tick := time.NewTicker(keySweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.Sweep(ctx)
		}
	}
}

// Sweep does once what Run does, up to a limit.
func (k *Store) Sweep(ctx context.Context) {
	over, used := k.due()
	for _, r := range over {
		if err := k.end(ctx, r); err != nil {
			klog.ErrorS(err, "Deleting an API key that is over failed; it stays refused, and is tried again", "key", r.Name)
			return
		}
	}
	for _, r := range used {
		if err := k.note(ctx, r); err != nil {
			klog.ErrorS(err, "Writing when an API key was used failed; it is tried again", "key", r.Name)
			return
		}
	}
}

func (k *Store) due() (over, used []*keyRecord) {
	now := k.Now()
	synced := (k.Synced == nil || k.Synced()) && k.Users.Complete() == nil
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, r := range k.byName {
		if len(over)+len(used) >= keysAtOnce {
			break
		}
		u := k.Users.ByName(r.User)
		gone := synced && (u == nil || u.UID != r.UserUID) && now.Sub(r.Created) > keyOrphanAge
		switch {
		case gone || now.After(r.Expires.Add(keyShown)):
			over = append(over, r)
		case r.used.Load() > 0 && time.Unix(r.used.Load(), 0).Sub(r.Used) >= keyUsedEvery:
			used = append(used, r)
		}
	}
	return over, used
}

// note writes when a key was used, unless another replica has just done so.
func (k *Store) note(ctx context.Context, r *keyRecord) error {
	o, err := k.API.Get(ctx, r.Name)
	if apierrors.IsNotFound(err) {
		k.Delete("", r.Name)
		return nil
	}
	if err != nil {
		return err
	}
	if at := time.Unix(r.used.Load(), 0); at.Sub(o.LastUsedAt.Time) >= keyUsedEvery {
		o.LastUsedAt = metav1.NewTime(at)
		if o, err = k.API.Update(ctx, o); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	k.update(o)
	return nil
}
