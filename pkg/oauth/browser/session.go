// Package browser is the login of a browser at the authorization server: its session and its cookies.
package browser

import (
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Login is the login of a browser: a session without a client, which the cookie names, and its user.
type Login struct {
	Session *session.Session
	User    *iam.User
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
