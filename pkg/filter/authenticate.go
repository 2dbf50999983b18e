package filter

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/authn/bearer"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Authentication finds out who sent a request.
type Authentication struct {
	// Authenticator verifies the credentials. It returns an anonymous user where that is wanted: a request for which it returns no user is
	// answered with 401.
	Authenticator authenticator.Request
	// VerifiesItself reports whether an endpoint verifies the credentials of a request itself (the token endpoint, whose Authorization header
	// may be a client's). Such requests go on as anonymous ones, with the header left in. No resource is such an endpoint, so that it is not
	// asked about requests for one. Nil means that there are none.
	VerifiesItself func(*request.Info) bool
	// Proxies are the authenticating proxies, whose identity headers count; nil for none.
	Proxies Proxies
	// Source returns the address that a request comes from, for authenticators that bound what one address may cost; nil if they do not need
	// it.
	Source func(*http.Request) string
}

// Proxies are the peers that may state identities.
type Proxies interface {
	// Trusts reports whether the peer of a request is such a proxy.
	Trusts(r *http.Request) bool
	// Headers returns the names of the headers in which they state identities.
	Headers() []string
	// HeaderPrefixes returns the beginnings of the names of further such headers.
	HeaderPrefixes() []string
}

// AllProxies are several kinds of such peers as one.
type AllProxies []Proxies

// Trusts implements Proxies.
func (all AllProxies) Trusts(r *http.Request) bool {
	return slices.ContainsFunc(all, func(p Proxies) bool { return p.Trusts(r) })
}

// Headers implements Proxies.
func (all AllProxies) Headers() (out []string) {
	for _, p := range all {
		out = append(out, p.Headers()...)
	}
	return out
}

// HeaderPrefixes implements Proxies.
func (all AllProxies) HeaderPrefixes() (out []string) {
	for _, p := range all {
		out = append(out, p.HeaderPrefixes()...)
	}
	return out
}

// Wrap is the filter. The request that goes on has the user in its context, and no credentials: the Authorization header and the cookies
// with tokens are removed, and, before anything is verified, all headers that state an identity. A request for impersonation is refused:
// the answer to the caller would be taken for one to the other user.
func (a Authentication) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		impersonation := web.RefuseImpersonation(r.Header)
		stated := a.takeIdentity(r)
		info := request.InfoFrom(r.Context())
		if info == nil {
			web.WriteError(w, r, errNoInfo)
			return
		}
		w, r, rec := recorded(w, r)
		rec.source, rec.asked = a.Source, r
		if !info.IsResource && a.VerifiesItself != nil && a.VerifiesItself(info) {
			rec.user = anonymous
			LimitHTTP2(w, r)
			next.ServeHTTP(w, r)
			return
		}
		kept := credentials{authenticated: true, authorization: r.Header["Authorization"], cookie: r.Header["Cookie"], stated: stated}
		maps.Copy(r.Header, stated)
		u, err := authenticate(a.Authenticator, r)
		if stated != nil {
			a.cutIdentity(r.Header)
		}
		if err != nil || u.GetName() == user.Anonymous {
			LimitHTTP2(w, r)
		}
		if err != nil {
			refuse(w, r, &kept, err)
			return
		}
		delete(r.Header, "Authorization")
		cutSecretCookies(r.Header)
		rec.user, rec.credentials = u, kept
		if impersonation != nil {
			web.WriteError(w, r, impersonation)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// credentials are those that a request came with. They are stored for filter.Recheck, and are not passed on with the request.
type credentials struct {
	authenticated         bool // by filter.Authentication
	authorization, cookie []string
	stated                http.Header // by an authenticating proxy
}

type credentialsKey struct{}

// token returns the bearer token that the request came with in Authorization; "" where it had none, or was not authenticated.
func (c *credentials) token() string {
	if !c.authenticated {
		return ""
	}
	token, _, err := bearer.FromHeader(http.Header{"Authorization": c.authorization})
	if err != nil {
		return ""
	}
	return token
}

const errNobody = constError("the request carries no credentials that are accepted")

func authenticate(a authenticator.Request, r *http.Request) (user.Info, error) {
	resp, ok, err := a.AuthenticateRequest(r)
	if err != nil {
		return nil, err
	}
	if !ok || resp == nil || resp.User == nil || resp.User.GetName() == "" {
		return nil, errNobody
	}
	return resp.User, nil
}

// challenge says how to authenticate.
const challenge = `Bearer realm="ks-apiserver"`

// refuse answers 401 with the challenge of RFC 6750, 3.1: with an error code only if a token was sent. Why the token is bad is only
// logged. If it could not be verified now (a key or a session store is not there yet), that error is passed on, so that clients try again
// instead of throwing good tokens away.
func refuse(w http.ResponseWriter, r *http.Request, c *credentials, err error) {
	if e := undecided(err); e != nil {
		web.WriteError(w, r, e)
		return
	}
	klog.V(2).InfoS("Credentials are refused", "method", r.Method, "path", r.URL.Path, "reason",
		err.Error()) // no authenticator's error names them
	asked := challenge
	if c.bearer() {
		asked += `, error="invalid_token", error_description="the access token is malformed, expired or revoked"`
	}
	w.Header().Set("WWW-Authenticate", asked)
	web.WriteError(w, r, apierrors.NewUnauthorized("Unauthorized"))
}

// bearer reports whether a token was sent, good or bad.
func (c *credentials) bearer() bool {
	const scheme = "bearer"
	for _, v := range c.authorization {
		if v = strings.TrimSpace(v); len(v) >= len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
			return true
		}
	}
	return len(c.authorization) == 0 && hasTokenCookie(c.cookie)
}

// undecided returns the part of err that says "I can't tell now": a Status of 429 or 5xx. Of several authenticators any may have returned
// it, whatever the ones before it said.
func undecided(err error) error {
	switch e := err.(type) { //nolint:errorlint // one level at a time: each branch is asked by itself
	case nil:
		return nil
	case utilerrors.Aggregate:
		return firstUndecided(e.Errors())
	case interface{ Unwrap() []error }:
		return firstUndecided(e.Unwrap())
	case apierrors.APIStatus:
		if code := e.Status().Code; code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
			return err
		}
		return nil
	}
	return undecided(errors.Unwrap(err))
}

func firstUndecided(errs []error) error {
	for _, err := range errs {
		if e := undecided(err); e != nil {
			return e
		}
	}
	return nil
}

// takeIdentity removes the headers that state an identity, and returns those of a trusted proxy.
func (a Authentication) takeIdentity(r *http.Request) http.Header {
	var stated http.Header
	if a.Proxies != nil {
		trusted := a.Proxies.Trusts(r)
		for _, name := range a.Proxies.Headers() {
			if v := r.Header.Values(name); trusted && v != nil {
				if stated == nil {
					stated = http.Header{}
				}
				stated[http.CanonicalHeaderKey(name)] = v
			}
			r.Header.Del(name)
		}
		for _, prefix := range a.Proxies.HeaderPrefixes() {
			for name, v := range r.Header {
				if trusted && web.HasPrefixFold(name, prefix) {
					if stated == nil {
						stated = http.Header{}
					}
					stated[name] = v
				}
			}
		}
	}
	a.cutIdentity(r.Header)
	return stated
}

// cutIdentity removes every header by which a client could state an identity to a server after this one.
func (a Authentication) cutIdentity(h http.Header) {
	for k := range h {
		if statesIdentity(k) {
			delete(h, k)
		}
	}
	if a.Proxies != nil {
		for _, name := range a.Proxies.Headers() {
			h.Del(name)
		}
		for _, prefix := range a.Proxies.HeaderPrefixes() {
			maps.DeleteFunc(h, func(k string, _ []string) bool { return prefix != "" && web.HasPrefixFold(k, prefix) })
		}
	}
}

func statesIdentity(header string) bool {
	if header == "" {
		return false
	}
	switch header[0] | 0x20 {
	case 'i':
		return web.IsImpersonation(header)
	case 'x':
		return web.HasPrefixFold(header, "X-Remote-") || web.HasPrefixFold(header, "X-Kubesphere-")
	}
	return false
}

// tokenCookie is the cookie in which the console stores the access token.
const tokenCookie = "token"

// secretCookie reports whether a cookie (name=value) of the console holds a token.
func secretCookie(pair string) bool {
	name := cookieName(pair)
	return name == tokenCookie || name == "refreshToken"
}

// cookieName returns the name as http.Request.Cookie reads it: the space around it does not count.
func cookieName(pair string) string {
	name, _, _ := strings.Cut(pair, "=")
	return strings.TrimSpace(name)
}

func hasTokenCookie(lines []string) bool {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if cookieName(pair) == tokenCookie {
				return true
			}
		}
	}
	return false
}

// cutSecretCookies removes the cookies that hold tokens from h, and leaves the others. The old values are not changed: code that retained
// them can still read them.
func cutSecretCookies(h http.Header) {
	lines := h["Cookie"]
	var kept []string
	found := false
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if secretCookie(pair) {
				found = true
			} else if pair = strings.TrimSpace(pair); pair != "" {
				kept = append(kept, pair)
			}
		}
	}
	switch {
	case !found:
	case len(kept) == 0:
		delete(h, "Cookie")
	default:
		h["Cookie"] = []string{strings.Join(kept, "; ")}
	}
}
