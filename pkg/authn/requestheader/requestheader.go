// Package requestheader takes the word of authenticating proxies for who sent a request.
package requestheader

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/idp"
)

// Accounts say who an identity is to an authorizer, now.
type Accounts interface {
	Vouched(ctx context.Context, e *idp.Entry, id *idp.Identity) (user.Info, error)
}

// Authenticator believes the identity headers of requests whose peer proved, by its client certificate, to be a configured proxy.
// Nobody else's are looked at; filter.Authentication takes them away from everybody.
type Authenticator struct {
	// Directory has the proxies.
	Directory *idp.Directory
	Accounts  Accounts
	// Origin is where this server's pages come from: requests that a page of another origin had a browser send are
	// refused, since the proxy logs people in by what browsers send of themselves.
	Origin string
	// Now is the clock.
	Now func() time.Time
}

var _ authenticator.Request = (*Authenticator)(nil)

// Trusts tells whether the peer of a request is a proxy, whose identity headers count.
func (a *Authenticator) Trusts(r *http.Request) bool { return a.proxy(r) != nil }

// Headers are the names of all identity headers.
func (a *Authenticator) Headers() []string {
	var out []string
	for _, e := range a.Directory.Proxies() {
		out = append(out, e.Provider.(idp.Proxy).Headers()...)
	}
	return out
}

// Roots are the authorities of all proxies, which client certificates are to be verified with; nil where there is no proxy.
func (a *Authenticator) Roots() []*x509.Certificate {
	var out []*x509.Certificate
	for _, e := range a.Directory.Proxies() {
		out = append(out, e.Provider.(idp.Proxy).Roots()...)
	}
	return out
}

// AuthenticateRequest returns the user whom a proxy names in a request.
func (a *Authenticator) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	e := a.proxy(r)
	if e == nil {
		return nil, false, nil
	}
	id, err := e.Provider.(idp.Proxy).Identity(r.Header)
	if err != nil {
		return nil, false, fmt.Errorf("the authenticating proxy %q: %w", e.Name, err)
	}
	if id == nil {
		return nil, false, nil
	}
	if err := a.sameOrigin(r); err != nil {
		return nil, false, fmt.Errorf("the authenticating proxy %q: %w", e.Name, err)
	}
	u, err := a.Accounts.Vouched(r.Context(), e, id)
	if err != nil {
		return nil, false, fmt.Errorf("the authenticating proxy %q: %w", e.Name, err)
	}
	return &authenticator.Response{User: u}, true, nil
}

// proxy returns the proxy that the peer of a request is, or nil.
func (a *Authenticator) proxy(r *http.Request) *idp.Entry {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	for _, e := range a.Directory.Proxies() {
		if e.Provider.(idp.Proxy).Trusts(r.TLS, a.Now()) {
			return e
		}
	}
	return nil
}

// sameOrigin refuses what a page of elsewhere had a browser send, where that could change something, or open a stream, which
// no rule of browsers keeps from pages of elsewhere.
func (a *Authenticator) sameOrigin(r *http.Request) error {
	protection := http.NewCrossOriginProtection()
	if a.Origin != "" {
		if err := protection.AddTrustedOrigin(a.Origin); err != nil {
			return fmt.Errorf("the issuer's origin: %w", err)
		}
	}
	if r.Header.Get("Upgrade") != "" { // a GET, which Check would let pass
		changing := *r
		changing.Method = http.MethodPost
		r = &changing
	}
	return protection.Check(r)
}
