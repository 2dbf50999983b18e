// Package login lets a program on the user's machine, such as kubectl, log in: it gets tokens from an OpenID provider by a
// browser or a device code, stores them in a file, refreshes them once for all programs that ask at the same time, and
// revokes them. It is the client's side, and relies on nothing of the server but the standards.
package login

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	// freshness is how much of its life a token must have left to be returned, and leastLeft what is enough while the server
	// can't issue another.
	freshness = time.Minute
	leastLeft = 5 * time.Second
	// requestTimeout bounds one request, and loginTimeout the time that the user has.
	requestTimeout = 30 * time.Second
	loginTimeout   = 10 * time.Minute
)

// Way is how the user is asked to log in.
type Way int

// The ways. With the zero value, the user is never asked.
const (
	// Nobody does not ask the user: if a login is needed, that is an error (ErrLoginNeeded).
	Nobody Way = iota
	// Browser opens a browser on this machine (RFC 8252).
	Browser
	// Device shows an address and a code for a browser anywhere (RFC 8628).
	Device
)

// ErrLoginNeeded says that there is no login and that the user can't be asked to log in.
var ErrLoginNeeded = errors.New("not logged in")

// Options describe a Session.
type Options struct {
	// Issuer is the URL of the OpenID provider, exactly as its tokens name it.
	Issuer string
	// Client is the client_id of a client without a secret.
	Client string
	// Scopes are the requested scopes.
	Scopes []string
	// User is the user who has to log in (preferred_username); "" for any.
	User string
	// Way is how the user is asked.
	Way Way
	// Listen is the loopback address that the browser returns to; "" for 127.0.0.1 and any port.
	Listen string
	// Roots are the authorities that are trusted for the issuer's certificate; nil for the system's.
	Roots *x509.CertPool
	// Insecure trusts any certificate. It is refused unless the issuer is on this machine.
	Insecure bool
	// Dir is the folder in which logins are stored; it is made for its owner only.
	Dir string
	// Tell receives lines for the user.
	Tell io.Writer
	// Open opens a URL in a browser. If it fails, the user is shown the error and the URL.
	Open func(ctx context.Context, address string) error
	// Now is the clock.
	Now func() time.Time
}

// Token has the tokens of a login.
type Token struct {
	// Access is the access token for the server's API. ID is the ID token, for a kube-apiserver that trusts the issuer; ""
	// without the scope openid.
	Access, ID string
	// Expiry is the end of Access; zero if it is not known.
	Expiry time.Time
}

// Session is a user's login at an issuer, stored in a file.
type Session struct {
	Options
	http  *http.Client
	cache *cache
}

// New returns a Session. It makes no call and reads no file; its errors say which option is wrong.
func New(o Options) (*Session, error) {
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("the issuer %q is not a URL without user, query and fragment", o.Issuer)
	}
	local := IsLoopback(u.Hostname())
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return nil, fmt.Errorf("the issuer %s has to be an https URL: tokens would travel for all to read", o.Issuer)
	case o.Insecure && !local:
		return nil, fmt.Errorf("the certificate of %s has to be verified: name its authority instead (only an issuer on this machine can go"+
			" without)", u.Host)
	case o.Client == "":
		return nil, errors.New("the id of the OAuth client is missing")
	case len(o.Scopes) == 0:
		return nil, errors.New("no scope is asked for")
	case o.Dir == "":
		return nil, errors.New("there is no folder to keep the login in")
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if host, _, err := net.SplitHostPort(o.Listen); err != nil || net.ParseIP(host) == nil || !IsLoopback(host) {
		return nil, fmt.Errorf("the address to listen on, %q, is not a loopback address with a port, such as 127.0.0.1:0", o.Listen)
	}
	o.Scopes = slices.Compact(slices.Sorted(slices.Values(o.Scopes)))
	return &Session{Options: o, http: newHTTP(o.Roots, o.Insecure), cache: newCache(&o)}, nil
}

// IsLoopback reports whether a host is this machine.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Token returns the stored token, or a refreshed one, or that of a new login, in this order. If many callers ask at the same
// time, in any number of processes, one refreshes or logs in, and the others get the result.
func (s *Session) Token(ctx context.Context) (*Token, error) {
	before := s.cache.read()
	if before.fresh(s.Now(), freshness) {
		return before.token(), nil
	}
	unlock, err := s.cache.lock(ctx, s.Tell)
	if err != nil {
		return nil, err
	}
	defer unlock()
	k := s.cache.read()
	another := k != nil && (before == nil || k.Access != before.Access) // another process was faster; its token may have a short life anyway
	if k.fresh(s.Now(), freshness) || another && k.fresh(s.Now(), leastLeft) {
		return k.token(), nil
	}
	return s.renew(ctx, k)
}

// Login checks that the server still accepts the login, and logs in again if it does not.
func (s *Session) Login(ctx context.Context) (*Person, error) {
	unlock, err := s.cache.lock(ctx, s.Tell)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if k := s.cache.read(); k.fresh(s.Now(), freshness) {
		who, err := s.ask(ctx, k.Access)
		if err == nil || !errors.Is(err, errRefused) {
			return who, err
		}
	}
	t, err := s.renew(ctx, s.cache.read())
	if err != nil {
		return nil, err
	}
	return s.ask(ctx, t.Access)
}

// renew refreshes k, which may be nil, or logs in. The caller has the lock.
func (s *Session) renew(ctx context.Context, k *kept) (*Token, error) {
	p, err := s.discover(ctx)
	if err != nil {
		if k.fresh(s.Now(), leastLeft) {
			return k.token(), nil
		}
		return nil, err
	}
	if k != nil && k.Refresh != "" {
		next, err := s.refresh(ctx, p, k)
		switch {
		case err == nil:
			return next.token(), nil
		case !isOver(err) && k.fresh(s.Now(), leastLeft):
			return k.token(), nil
		case !isOver(err):
			return nil, s.explain(fmt.Errorf("refresh the login at %s: %w", s.Issuer, err))
		}
		fmt.Fprintf(s.Tell, "The login at %s has ended.\n", s.Issuer)
		if err := s.cache.remove(); err != nil {
			return nil, err
		}
	}
	return s.logIn(ctx, p)
}

// refresh exchanges the refresh token, and stores the result. It does not stop when ctx ends: if the successor of a used
// refresh token is lost, the next use would look like theft, and end the session (RFC 9700, 4.14.2).
func (s *Session) refresh(ctx context.Context, p *provider, k *kept) (*kept, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	t, err := p.config(s).TokenSource(s.client(ctx), &oauth2.Token{RefreshToken: k.Refresh}).Token()
	if err != nil {
		return nil, err
	}
	next, err := s.keep(t, "", k)
	if err != nil {
		return nil, err
	}
	if err := s.cache.write(next); err != nil {
		fmt.Fprintf(s.Tell, "The refreshed login can't be stored, and you will have to log in again next time: %v\n", err)
	}
	return next, nil
}

func (s *Session) logIn(ctx context.Context, p *provider) (*Token, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, loginTimeout, fmt.Errorf("nobody has logged in within %v", loginTimeout))
	defer cancel()
	var t *oauth2.Token
	var nonce string
	var err error
	switch s.Way {
	case Browser:
		t, nonce, err = s.byBrowser(ctx, p)
	case Device:
		t, err = s.byDevice(ctx, p)
	default:
		return nil, fmt.Errorf("%w at %s", ErrLoginNeeded, s.Issuer)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, s.explain(fmt.Errorf("log in at %s: %w", s.Issuer, err))
	}
	k, err := s.keep(t, nonce, nil)
	if err != nil {
		_ = s.revoke(context.WithoutCancel(ctx), p, t.RefreshToken, t.AccessToken) // these tokens are not stored
		return nil, fmt.Errorf("log in at %s: %w", s.Issuer, err)
	}
	if err := s.cache.write(k); err != nil {
		return nil, err
	}
	return k.token(), nil
}

// keep returns what is stored of an answer of the token endpoint. before is what was stored until now; nil after a login.
func (s *Session) keep(t *oauth2.Token, nonce string, before *kept) (*kept, error) {
	k := &kept{Issuer: s.Issuer, Client: s.Client, Scopes: s.Scopes, For: s.User,
		Access: t.AccessToken, Refresh: t.RefreshToken, Expiry: t.Expiry}
	k.ID, _ = t.Extra("id_token").(string)
	if k.ID == "" && before != nil {
		k.User = before.User // the answer to a refresh need not name the user again (OpenID Connect Core 1.0, 12.2)
		return k, nil
	}
	if k.ID != "" {
		id, err := readIdentity(k.ID, s.Issuer, s.Client, nonce)
		if err != nil {
			return nil, err
		}
		k.User = id.Username
	}
	if s.User != "" && k.User != s.User {
		return nil, fmt.Errorf("%q has logged in, and it has to be %q: log out in the browser, or leave --username out", plain(k.User), s.User)
	}
	return k, nil
}

// Logout revokes the login at the server (RFC 7009), and deletes it here. If the server can't be reached, the login is
// kept, so that a later call can try again; with local it is only deleted here.
func (s *Session) Logout(ctx context.Context, local bool) error {
	unlock, err := s.cache.lock(ctx, s.Tell)
	if err != nil {
		return err
	}
	defer unlock()
	k := s.cache.read()
	if k != nil && !local {
		p, err := s.discover(ctx)
		if err == nil {
			err = s.revoke(ctx, p, k.Refresh, k.Access)
		}
		if err != nil {
			return s.explain(fmt.Errorf("end the login at %s: %w; --local forgets it on this machine only", s.Issuer, err))
		}
	}
	return s.cache.remove()
}

// revoke ends the session of a token (RFC 7009). The access token is sent only if there is no refresh token: either ends both.
func (s *Session) revoke(ctx context.Context, p *provider, refresh, access string) error {
	if p.Revocation == "" {
		return errors.New("the server has no endpoint for it")
	}
	form := url.Values{"client_id": {s.Client}, "token": {refresh}, "token_type_hint": {"refresh_token"}}
	if refresh == "" {
		form.Set("token", access)
		form.Set("token_type_hint", "access_token")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return call(s.http, req, nil)
}
