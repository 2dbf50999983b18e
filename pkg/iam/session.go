package iam

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
)

// Session is one login of one user, as others see it.
type Session struct {
	// Name is the sid of its tokens.
	Name string
	// User and UserUID say whose it is, Client for which OAuth client it was opened, and Provider
	// who vouched for the user; "" for a local password.
	User, UserUID, Client, Provider string
	// Scopes were granted at login; a refresh never gets more.
	Scopes []string
	// Created is when it was opened, and Expires the end that no refresh moves.
	Created, Expires time.Time
	// Authenticated is when the user proved himself, and Methods by what (RFC 8176).
	Authenticated time.Time
	Methods       []string
	// Groups are those that the provider gave; they count beside the user's own.
	Groups []string
	// Parent is the browser's session in which it was opened; "" for none.
	Parent string
	// Registration is whom the session waits for a User of; nil for none.
	Registration *Registration
	// Used is about when it was last used.
	Used time.Time
	Origin
}

// Lifetime is how long sessions and their tokens live.
type Lifetime struct {
	// MaxAge is the life of an access token; 0 means as long as its session.
	MaxAge time.Duration
	// Inactivity is how long after the end of an access token its session can still be refreshed.
	Inactivity time.Duration
	// Absolute is the life of a session that is refreshed all the time; 0 means DefaultAbsolute.
	Absolute time.Duration
}

// DefaultAbsolute is the life of a session where nothing else is said, and unlimitedAbsolute where
// access tokens shall live as long as the session.
const (
	DefaultAbsolute   = 30 * 24 * time.Hour
	unlimitedAbsolute = 365 * 24 * time.Hour
)

func (l Lifetime) absolute() time.Duration {
	switch {
	case l.Absolute > 0:
		return l.Absolute
	case l.MaxAge == 0:
		return unlimitedAbsolute
	}
	return DefaultAbsolute
}

// AccessExpiry returns the end of an access token issued now: never later than its session's.
func (l Lifetime) AccessExpiry(s *Session, now time.Time) time.Time {
	if l.MaxAge == 0 {
		return s.Expires
	}
	if end := now.Add(l.MaxAge); end.Before(s.Expires) {
		return end
	}
	return s.Expires
}

// record is a session as this replica knows it. It is never changed: a change makes a new one.
type record struct {
	Session
	uid        types.UID
	credential string
	// current and previous are the hashes of refresh tokens.
	current, previous string
	generation        int64
	rotated, used     time.Time
	// seen is when, by this replica's clock, it learned of the last rotation; zero where it knew
	// the session only after it.
	seen time.Time
	// until bounds the trust in a record that the feed has not confirmed; zero in one that it has.
	until time.Time
}

// idleEnd is when a session that nobody refreshes is over.
func (r *record) idleEnd(l Lifetime) time.Time {
	if l.MaxAge == 0 {
		return r.Expires
	}
	if end := r.used.Add(l.MaxAge + l.Inactivity); end.Before(r.Expires) {
		return end
	}
	return r.Expires
}

func newRecord(o *v1alpha1.Session) *record {
	return &record{
		Session: Session{
			Name: o.Name, User: o.Spec.User, UserUID: string(o.Spec.UserUID), Client: o.Spec.Client,
			Provider: o.Spec.Provider, Scopes: o.Spec.Scopes,
			Created: o.Spec.CreatedAt.Time, Expires: o.Spec.ExpiresAt.Time,
		},
		uid: o.UID, credential: o.Spec.Credential,
		current: o.Refresh.Current, previous: o.Refresh.Previous, generation: o.Refresh.Generation,
		rotated: o.Refresh.RotatedAt.Time, used: o.LastUsedAt.Time,
	}
}

// parseSession reads a Session's JSON.
func parseSession(raw []byte) (*record, error) {
	var o v1alpha1.Session
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("read a Session: %w", err)
	}
	if o.Name == "" || o.UID == "" {
		return nil, fmt.Errorf("read a Session: it has no name or no UID")
	}
	return newRecord(&o), nil
}

// object is the new Session of a login.
func (l Login) object(name, hash string, now time.Time, life Lifetime) *v1alpha1.Session {
	t := metav1.NewTime(now)
	return &v1alpha1.Session{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Session"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.SessionSpec{
			User: l.User.Name, UserUID: types.UID(l.User.UID), Client: l.Client, Provider: l.Provider, Scopes: l.Scopes,
			Credential: l.User.Credential(), CreatedAt: t, ExpiresAt: metav1.NewTime(now.Add(life.absolute())),
		},
		Refresh:    v1alpha1.Refresh{Current: hash, RotatedAt: t, Generation: 1},
		LastUsedAt: t,
	}
}

// newName makes the name of a session: it sorts by time of creation, and has 128 random bits.
func newName(now time.Time) string {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:8], uint64(max(0, now.UnixMilli())))
	_, _ = rand.Read(b[8:]) // never fails (crypto/rand)
	return strings.ToLower(nameEncoding().EncodeToString(b[2:]))
}

// nameTime returns the time in a name, and the zero time for a name that newName did not make.
func nameTime(name string) time.Time {
	b, err := nameEncoding().DecodeString(strings.ToUpper(name))
	if err != nil || len(b) < 6 {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(append([]byte{0, 0}, b[:6]...))))
}

// nameEncoding sorts as the bytes do, and has only characters that a name may have.
func nameEncoding() *base32.Encoding { return base32.HexEncoding.WithPadding(base32.NoPadding) }
