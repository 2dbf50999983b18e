// Package requestheader authenticates users by the headers of authenticating proxies.
package requestheader

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Authenticator trusts the identity headers of requests whose peer proved, by its client certificate, to be a configured proxy. It reads
// no one else's; filter.Authentication removes them from every request.
type Authenticator struct {
	// Directory has the proxies.
	Directory *idp.Directory
	Accounts  idp.Accounts
	// Origin is the origin of this server's pages. Requests that a page of another origin made a browser send are refused, because the proxy
	// logs users in by credentials that browsers send by themselves.
	Origin string
	// Now returns the time.
	Now func() time.Time
}

var _ authenticator.Request = (*Authenticator)(nil)

// Trusts reports whether the peer of a request is a proxy, whose identity headers count.
func (a *Authenticator) Trusts(r *http.Request) bool { return a.proxy(r) != nil }

// Headers returns the names of all identity headers.
func (a *Authenticator) Headers() []string {
	var out []string
	for _, e := range a.Directory.Proxies() {
		out = append(out, e.Provider.(idp.Proxy).Headers()...)
	}
	return out
}

// HeaderPrefixes returns the beginnings of the names of further identity headers.
func (a *Authenticator) HeaderPrefixes() []string {
	var out []string
	for _, e := range a.Directory.Proxies() {
		out = append(out, e.Provider.(idp.Proxy).HeaderPrefixes()...)
	}
	return out
}

// AuthenticateRequest returns the user that a proxy names in a request.
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
	if err := web.CheckSameOrigin(r, a.Origin); err != nil {
		return nil, false, fmt.Errorf("the authenticating proxy %q: %w", e.Name, err)
	}
	u, err := a.Accounts.Vouched(r.Context(), e, id)
	if err != nil {
		return nil, false, fmt.Errorf("the authenticating proxy %q: %w", e.Name, err)
	}
	return &authenticator.Response{User: u}, true, nil
}

// proxy returns the proxy that is the peer of a request, or nil.
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
