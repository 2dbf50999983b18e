package session

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
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

// cached is a session in memory. It is immutable.
type cached struct {
	Session
	uid        types.UID
	credential string
	phase      v1alpha1.Phase
	fromCode   bool
	// subject is the user's name at the provider. keepsToken says that the object of an ended session stays for its upstream token.
	subject    string
	keepsToken bool
	// version counts the writes of the object, and sequence orders the sessions of a user.
	version, sequence int64
	// current and previous are the hashes of refresh tokens; "" where the session has none.
	current, previous string
	generation        int64
	rotated, used     time.Time
	consents          []v1alpha1.Consent
	// self is the caller if the session has no User: a client, or a user who has to register.
	self *iam.User
	// requestUser is the caller of requests with the session.
	requestUser *requestUser
	// seen is when this replica learned of the last rotation, by its own clock; zero if it learned of the session only after it.
	seen time.Time
	// until bounds the trust in a state that the feed has not confirmed; zero once it has.
	until time.Time
}

// idleEnd returns when a session ends without a refresh.
func (r *cached) idleEnd(l Lifetime) time.Time {
	switch {
	case r.phase == v1alpha1.PhaseWaiting || r.phase == v1alpha1.PhaseDenied:
		return r.Created.Add(CodeLife)
	case l.MaxAge == 0 || r.current == "":
		return r.Expires
	}
	if end := r.used.Add(l.MaxAge + l.Inactivity); end.Before(r.Expires) {
		return end
	}
	return r.Expires
}

// bound reports whether the session ends with that of its browser.
func (r *cached) bound() bool { return r.Parent != "" && !slices.Contains(r.Scopes, scopeOffline) }

// older reports whether r was written before old.
func (r *cached) older(old *cached) bool {
	if r.version != old.version && r.version != 0 && old.version != 0 {
		return r.version < old.version
	}
	return r.generation < old.generation
}

func newCached(o *v1alpha1.Session) *cached {
	spec := &o.Spec
	r := &cached{
		Session: Session{
			Name: o.Name, User: spec.User, UserUID: string(spec.UserUID), Client: spec.Client,
			Provider: spec.Provider, Scopes: spec.Scopes,
			Created: spec.CreatedAt.Time, Expires: spec.ExpiresAt.Time,
			Authenticated: spec.AuthenticatedAt.Time, Methods: spec.Methods,
			Groups: iam.WithoutSystemGroups(spec.User, o.Groups), Parent: spec.Parent, Used: o.LastUsedAt.Time,
			Origin: iam.Origin{Source: spec.Source, UserAgent: spec.UserAgent},
		},
		uid: o.UID, credential: spec.Credential, phase: o.Phase, fromCode: spec.FromCode, subject: spec.Subject,
		keepsToken: keepsUpstreamToken(o),
		version:    o.Generation, sequence: spec.Sequence,
		current: o.Refresh.Current, previous: o.Refresh.Previous, generation: o.Refresh.Generation,
		rotated: o.Refresh.RotatedAt.Time, used: o.LastUsedAt.Time, consents: o.Consents,
	}
	if r.Authenticated.IsZero() {
		r.Authenticated = r.Created
	}
	if r.sequence == 0 { // written before the field existed
		r.sequence = max(0, nameTime(o.Name).UnixMilli())
	}
	switch {
	case spec.Registration != nil: // its groups count once a User is registered
		r.Groups = nil
		r.Registration = (*iam.Registration)(spec.Registration)
		r.self = r.Registration.User()
	case spec.Client != "" && spec.User == iam.ClientPrefix+spec.Client:
		r.self = iam.ClientUser(spec.Client)
	}
	r.requestUser = &requestUser{}
	return r
}

// parseSession reads a Session's JSON.
func parseSession(raw []byte) (*cached, error) {
	var o v1alpha1.Session
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("read a Session: %w", err)
	}
	if o.Name == "" || o.UID == "" {
		return nil, fmt.Errorf("read a Session: it has no name or no UID")
	}
	return newCached(&o), nil
}

// Fingerprint returns a text that identifies the session, and is no way to it: the User says by it in which session the password was
// set.
func (s *Session) Fingerprint() string {
	sum := sha256.Sum256([]byte("kapis.dev session 1\x00" + s.Name))
	return hex.EncodeToString(sum[:16])
}

// outdated reports whether the user has another password than when the session was opened, unless it was set in this session.
func (r *cached) outdated(u *iam.User) bool {
	return u.Credential() != r.credential && (u.PasswordSession == "" || u.PasswordSession != r.Fingerprint())
}

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

// info returns the caller of requests with the session, with the groups of the user and of the session.
func (r *cached) info(u *iam.User) user.Info {
	if a := r.requestUser.last.Load(); a != nil && a.of == u {
		return a.info
	}
	a := &userInfo{of: u, info: WithSession(r.joined(u), &r.Session)}
	r.requestUser.last.Store(a)
	return a.info
}

// joined returns the user with the groups of the session's provider.
func (r *cached) joined(u *iam.User) user.Info {
	if len(r.Groups) == 0 {
		return u.Info()
	}
	groups := make([]string, 0, len(u.Info().GetGroups())+len(r.Groups))
	groups = append(groups, u.Info().GetGroups()...)
	for _, g := range r.Groups {
		if !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return &user.DefaultInfo{Name: u.Info().GetName(), UID: u.Info().GetUID(), Groups: slices.Clip(groups), Extra: u.Info().GetExtra()}
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
