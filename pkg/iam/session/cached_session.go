package session

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
)

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

// outdated reports whether the user has another password than when the session was opened, unless it was set in this session.
func (r *cached) outdated(u *iam.User) bool {
	return u.Credential() != r.credential && (u.PasswordSession == "" || u.PasswordSession != r.Fingerprint())
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

// poolSize is how many texts a pool has.
const poolSize = 16 << 10

// pool shares one copy of texts that many sessions have: names of users and clients, scopes, user agents. When it is full it starts over,
// which costs copies and nothing else.
type pool struct {
	texts map[string]string
	lists map[string][]string // by their texts, each preceded by its length
	key   []byte              // a buffer for one key
}

// share replaces r's texts by the pool's copies. No other goroutine may have r yet.
func (p *pool) share(r *cached) {
	if p.texts == nil || len(p.texts)+len(p.lists) > poolSize {
		p.texts, p.lists = map[string]string{}, map[string][]string{}
	}
	for _, s := range []*string{&r.User, &r.UserUID, &r.Client, &r.Provider, &r.subject, &r.credential, &r.Source, &r.UserAgent} {
		*s = p.text(*s)
	}
	r.Scopes, r.Methods, r.Groups = p.list(r.Scopes), p.list(r.Methods), p.list(r.Groups)
}

func (p *pool) text(s string) string {
	if known, ok := p.texts[s]; ok {
		return known
	}
	p.texts[s] = s
	return s
}

func (p *pool) list(l []string) []string {
	if len(l) == 0 {
		return nil
	}
	p.key = p.key[:0]
	for _, s := range l { // the lengths separate the texts, whatever they contain
		p.key = append(binary.AppendUvarint(p.key, uint64(len(s))), s...)
	}
	if known, ok := p.lists[string(p.key)]; ok {
		return known
	}
	for i := range l {
		l[i] = p.text(l[i])
	}
	p.lists[string(p.key)] = l
	return l
}
