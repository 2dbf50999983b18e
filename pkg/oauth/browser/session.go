// Package browser is the login of a browser at the authorization server: its session and its cookies.
package browser

import (
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Login is the login of a browser and its user: a session without a client, which the cookie names, or the console's session.
type Login struct {
	Session *session.Session
	User    *iam.User
	// ByToken says that the login is that of the console, whose access token the request carries: the browser has no cookie of this server.
	ByToken bool
}

// cookieValue is the content of the session cookie, which is sealed. No API accepts it.
type cookieValue struct {
	Session string `json:"s"`
	// Authenticated is when the user authenticated last, and Methods how: logging in again renews the cookie, and leaves the
	// session as it is.
	Authenticated int64    `json:"a,omitempty"`
	Methods       []string `json:"m,omitempty"`
}

// Logins opens and finds the sessions of browsers.
type Logins struct {
	Cookies  Cookies
	Sessions *session.Store
	Sealer   token.Sealer
	// Access verifies access tokens for this server's API, and Trusted reports whether a client is the platform's own.
	Access  func(raw string) (*token.Access, error)
	Trusted func(client string) bool
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time
}

const purpose token.Purpose = "browser"

// Of returns the login of a request's browser; nil for none. Its error is iam.ErrUnavailable.
func (l *Logins) Of(r *http.Request) (*Login, error) {
	t, ok := l.readCookie(r)
	if !ok {
		return nil, nil
	}
	sess, u, err := l.Sessions.Find(r.Context(), t.Session)
	switch {
	case errors.Is(err, iam.ErrOver):
		return nil, nil
	case err != nil:
		return nil, err
	case u == nil || sess.Client != "" || sess.Registration != nil:
		return nil, nil
	}
	if at := time.Unix(t.Authenticated, 0); t.Authenticated != 0 && at.After(sess.Authenticated) {
		renewed := *sess
		renewed.Authenticated, renewed.Methods = at, t.Methods
		sess = &renewed
	}
	return &Login{Session: sess, User: u}, nil
}

// OfToken returns the login that the access token of a request belongs to; nil for none. It has to be a login of a person at a trusted
// client: API keys, service accounts, tokens for other audiences, and sessions that were opened by a code or for a device count as none,
// and so does a user who has not set a password of their own yet. Its error is iam.ErrUnavailable.
func (l *Logins) OfToken(r *http.Request) (*Login, error) {
	raw, found, err := bearer.FromHeader(r.Header)
	if !found || err != nil {
		return nil, nil //nolint:nilerr // the header may be of another scheme: the request is one of nobody
	}
	a, err := l.Access(raw)
	if err != nil || !l.Trusted(a.Client) {
		return nil, nil //nolint:nilerr // so is that of an invalid or expired token
	}
	u, err := l.Sessions.Resolve(r.Context(), a)
	if err != nil {
		return nil, onlyUnavailable(err)
	}
	sess, _, err := l.Sessions.Find(r.Context(), a.Session)
	if err != nil {
		return nil, onlyUnavailable(err)
	}
	if u.Uninitialized || !CanOpen(sess, l.Trusted) {
		return nil, nil
	}
	return &Login{Session: sess, User: u, ByToken: true}, nil
}

func onlyUnavailable(err error) error {
	if errors.Is(err, iam.ErrUnavailable) {
		return err
	}
	return nil
}

// CanOpen reports whether clients' sessions may be opened in a session: that of a browser, or a user's own login at a trusted client.
func CanOpen(s *session.Session, trusted func(client string) bool) bool {
	switch {
	case s.Registration != nil, s.Parent != "":
		return false
	case s.Client == "":
		return true
	}
	return s.User != iam.ClientPrefix+s.Client && trusted(s.Client)
}

// readCookie opens the session cookie. ok is false for a forged one, and for one of old keys.
func (l *Logins) readCookie(r *http.Request) (t cookieValue, ok bool) {
	c, err := r.Cookie(l.Cookies.Name(r, SessionCookie))
	ok = err == nil && l.Sealer.Open(purpose, c.Value, &t) == nil
	return t, ok
}

// Admit logs a user in: it opens a session, or renews the browser's if it has the same user and provider. Another user's session
// ends.
func (l *Logins) Admit(r *http.Request, p *iam.AuthnResult) (*Login, *http.Cookie, error) {
	old, err := l.Of(r)
	if err != nil {
		return nil, nil, err
	}
	stored, err := l.renewOrOpen(r, old, p)
	if err != nil {
		return nil, nil, err
	}
	sess := *stored // the stored one is shared by all requests
	t := cookieValue{Session: sess.Name, Authenticated: sess.Authenticated.Unix(), Methods: sess.Methods}
	if at := p.AuthenticatedAt(); !at.Before(sess.Authenticated) { // providers may report an earlier time
		sess.Authenticated, sess.Methods = at, p.Methods
		t.Authenticated, t.Methods = at.Unix(), p.Methods
	}
	sealed, err := l.Sealer.Seal(purpose, t)
	if err != nil {
		return nil, nil, err
	}
	return &Login{Session: &sess, User: p.User}, l.Cookies.New(r, SessionCookie, sealed), nil
}

// renewOrOpen renews the old session of the browser, or opens a new one.
func (l *Logins) renewOrOpen(r *http.Request, old *Login, p *iam.AuthnResult) (*session.Session, error) {
	if old != nil && old.Session.UserUID == p.User.UID && old.Session.Provider == p.Provider {
		if sess, err := l.Sessions.Renew(r.Context(), old.Session.Name, p); !errors.Is(err, iam.ErrOver) {
			return sess, err
		}
	}
	sess, _, err := l.Sessions.Open(r.Context(), session.Login{AuthnResult: *p, Origin: l.OriginOf(r)})
	if err != nil || old == nil {
		return sess, err
	}
	return sess, l.Sessions.End(r.Context(), old.Session.Name, "other login")
}

// IsRecent reports whether the user authenticated within RecentFor: long enough for a form, short enough for a browser left open.
func (l *Logins) IsRecent(b *Login) bool {
	at := b.Session.Authenticated
	if at.IsZero() {
		at = b.Session.Created
	}
	return l.Now().Sub(at) <= RecentFor
}

// RecentFor is how long a login counts as recent.
const RecentFor = 5 * time.Minute
