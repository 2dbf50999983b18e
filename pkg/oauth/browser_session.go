package oauth

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// The cookies. Over https their names have a prefix that makes browsers refuse them from other hosts and paths, and
// without Secure (RFC 6265bis, 4.1.3.2); over http, on this machine only, there is no such prefix.
const (
	sessionCookie = "ks-session" // names the browser's session, sealed
	loginCookie   = "ks-login"   // binds what is in progress to this browser
	hostPrefix    = "__Host-"
)

// browser is a person's browser in which he is logged in: its cookie names a session without a client.
type browser struct {
	session *session.Session
	user    *iam.User
}

// sessionCookieValue is what the cookie of a browser's session holds, sealed. It is no bearer token: no API takes it.
type sessionCookieValue struct {
	Session string `json:"s"`
	// Authenticated is when the person proved himself last, and Methods by what: a second proof in the same browser
	// renews the ticket, and leaves the session as it is.
	Authenticated int64    `json:"a,omitempty"`
	Methods       []string `json:"m,omitempty"`
}

const browserPurpose = "browser"

// browserOf returns who is logged in in the browser of a request; nil where nobody is. Its error is iam.ErrUnavailable.
func (s *Server) browserOf(r *http.Request) (*browser, error) {
	t, ok := s.ticketOf(r)
	if !ok {
		return nil, nil
	}
	sess, u, err := s.Sessions.Find(r.Context(), t.Session)
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
	return &browser{session: sess, user: u}, nil
}

// ticketOf opens the cookie of a browser's session. One of keys that are gone, or a forged one, is none.
func (s *Server) ticketOf(r *http.Request) (t sessionCookieValue, ok bool) {
	c, err := r.Cookie(s.cookieName(r, sessionCookie))
	ok = err == nil && s.open(browserPurpose, c.Value, &t) == nil
	return t, ok
}

// openBrowserSession opens the browser's session of a proof, or renews the one that is there where it is the same person by the same
// provider. Another person's ends, and what was opened in it.
func (s *Server) openBrowserSession(r *http.Request, p *iam.AuthnResult) (*browser, *http.Cookie, error) {
	old, err := s.loggedIn(r)
	if err != nil {
		return nil, nil, err
	}
	stored, err := s.renewOrOpen(r, old, p)
	if err != nil {
		return nil, nil, err
	}
	sess := *stored // all requests of the session share what is stored
	t := sessionCookieValue{Session: sess.Name, Authenticated: sess.Authenticated.Unix(), Methods: sess.Methods}
	if at := p.AuthenticatedAt(); !at.Before(sess.Authenticated) { // a provider may tell of an earlier time than is known already
		sess.Authenticated, sess.Methods = at, p.Methods
		t.Authenticated, t.Methods = at.Unix(), p.Methods
	}
	sealed, err := s.seal(browserPurpose, t)
	if err != nil {
		return nil, nil, err
	}
	return &browser{session: &sess, user: p.User}, s.cookie(r, sessionCookie, sealed), nil
}

// renewOrOpen returns the session that a proof makes of the browser's; old is the one that is there.
func (s *Server) renewOrOpen(r *http.Request, old *browser, p *iam.AuthnResult) (*session.Session, error) {
	if old != nil && old.session.UserUID == p.User.UID && old.session.Provider == p.Provider {
		if sess, err := s.Sessions.Renew(r.Context(), old.session.Name, p); !errors.Is(err, iam.ErrOver) {
			return sess, err
		}
	}
	sess, _, err := s.Sessions.Open(r.Context(), session.Login{AuthnResult: *p, Origin: s.originOf(r)})
	if err != nil || old == nil {
		return sess, err
	}
	return sess, s.Sessions.End(r.Context(), old.session.Name, "other login")
}

// recent tells whether the person proved himself a short while ago: long enough for a form, and too short for whoever finds
// an open browser.
func (s *Server) recent(b *browser) bool {
	at := b.session.Authenticated
	if at.IsZero() {
		at = b.session.Created
	}
	return s.Now().Sub(at) <= recentFor
}

const recentFor = 5 * time.Minute

// encrypted tells whether the browser reaches us by https: directly, or through the proxy that the issuer's address is of.
func (s *Server) encrypted(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(s.Issuer, "https:")
}

// guardTransport refuses pages over plain http, except on this machine.
func (s *Server) guardTransport(r *http.Request) error {
	if s.encrypted(r) || loopback(r.Host) {
		return nil
	}
	return problem(http.StatusForbidden, page.Say("error.https"), nil)
}

func loopback(hostport string) bool {
	u := url.URL{Host: hostport}
	if u.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

func (s *Server) cookieName(r *http.Request, name string) string {
	if s.encrypted(r) {
		return hostPrefix + name
	}
	return name
}

// cookie makes a cookie that lives as long as the browser runs. Lax sends it when the person comes from elsewhere by a
// link, and not with a form or a script of another site.
func (s *Server) cookie(r *http.Request, name, value string) *http.Cookie {
	return &http.Cookie{Name: s.cookieName(r, name), Value: value, Path: "/", Secure: s.encrypted(r), HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// expired makes the cookie that takes another away.
func (s *Server) expired(r *http.Request, name string) *http.Cookie {
	c := s.cookie(r, name, "")
	c.MaxAge = -1
	return c
}

// binding returns the secret that binds what is in progress to this browser (S38), and the cookie to set where it has none.
func (s *Server) binding(r *http.Request) (secret string, set *http.Cookie) {
	if c, err := r.Cookie(s.cookieName(r, loginCookie)); err == nil && len(c.Value) == secretLength {
		return c.Value, nil
	}
	secret = random()
	return secret, s.cookie(r, loginCookie, secret)
}

// secretLength is the length of what random makes.
const secretLength = 43

// random makes a secret of 256 bits.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}
