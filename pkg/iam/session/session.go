package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// Session is one login of one user.
type Session struct {
	// Name is the sid of the session's tokens.
	Name string
	// User and UserUID are the user, Client the OAuth client, and Provider the identity provider; "" for a local password.
	User, UserUID, Client, Provider string
	// Scopes were granted at the login; a refresh never gets more.
	Scopes []string
	// Created is when it was opened, and Expires the end that no refresh moves.
	Created, Expires time.Time
	// Authenticated is when the user proved who they are, and Methods are the methods (RFC 8176).
	Authenticated time.Time
	Methods       []string
	// Groups are those of the provider; they count in addition to the user's own.
	Groups []string
	// Parent is the browser's session in which it was opened; "" for none.
	Parent string
	// Registration is the identity whose User is still to be registered; nil for none.
	Registration *iam.Registration
	// Used is roughly when it was last used.
	Used time.Time
	iam.Origin
}

// Lifetime is how long sessions and their tokens live.
type Lifetime struct {
	// MaxAge is the life of an access token; 0 means as long as its session.
	MaxAge time.Duration
	// Inactivity is how long after the end of an access token its session can still be refreshed.
	Inactivity time.Duration
	// Absolute is the life of a session that is refreshed again and again; 0 means DefaultAbsolute.
	Absolute time.Duration
}

// DefaultAbsolute is the default life of a session, and unlimitedAbsolute that of one whose access tokens live as long as the session.
const (
	DefaultAbsolute   = 30 * 24 * time.Hour
	unlimitedAbsolute = 365 * 24 * time.Hour
)

// Longest returns the life of a session that is refreshed again and again.
func (l Lifetime) Longest() time.Duration {
	switch {
	case l.Absolute > 0:
		return l.Absolute
	case l.MaxAge == 0:
		return unlimitedAbsolute
	}
	return DefaultAbsolute
}

// AccessExpiry returns the end of an access token issued now: never after that of its session.
func (l Lifetime) AccessExpiry(s *Session, now time.Time) time.Time {
	if l.MaxAge == 0 {
		return s.Expires
	}
	if end := now.Add(l.MaxAge); end.Before(s.Expires) {
		return end
	}
	return s.Expires
}

// Fingerprint returns a text that identifies the session, and is no way to it: the User says by it in which session the password was
// set.
func (s *Session) Fingerprint() string {
	sum := sha256.Sum256([]byte("kapis.dev session 1\x00" + s.Name))
	return hex.EncodeToString(sum[:16])
}

// newName returns a name for a session: names sort by time of creation, and have 128 random bits.
func newName(now time.Time) string {
	var b [24]byte
	binary.BigEndian.PutUint64(b[:8], uint64(max(0, now.UnixMilli())))
	_, _ = rand.Read(b[8:]) // never fails (crypto/rand)
	return strings.ToLower(nameEncoding().EncodeToString(b[2:]))
}

// nameTime returns the time in a name; zero for one that newName did not make.
func nameTime(name string) time.Time {
	b, err := nameEncoding().DecodeString(strings.ToUpper(name))
	if err != nil || len(b) < 6 {
		return time.Time{}
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(append([]byte{0, 0}, b[:6]...))))
}

// nameEncoding returns an encoding that sorts as the bytes do, and has only characters that are valid in names.
func nameEncoding() *base32.Encoding { return base32.HexEncoding.WithPadding(base32.NoPadding) }

// requestUser is the caller of requests with a session. It is made once per state of the User, and shared by requests.
type requestUser struct{ last atomic.Pointer[userInfo] }

type userInfo struct {
	of   *iam.User
	info user.Info
}

// inSession is a caller with a session. The session is not an extra of the caller, since rights may depend on extras, and are cached for
// all sessions of a user together.
type inSession struct {
	user.Info
	session *Session
}

// WithSession returns a caller as one with a session.
func WithSession(u user.Info, s *Session) user.Info { return &inSession{u, s} }

// Of returns the session of a caller; nil for one with another credential.
func Of(u user.Info) *Session {
	if in, ok := u.(*inSession); ok {
		return in.session
	}
	return nil
}
