package idp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Accounts has the Users of identities that are stated with each request.
type Accounts interface {
	// Vouched returns the current user.Info of an identity.
	Vouched(ctx context.Context, e *Entry, id *Identity) (user.Info, error)
}

// Proxy is a Provider that authenticates users in the headers of requests: an authenticating proxy, which is identified
// by its client certificate.
type Proxy interface {
	Provider
	// Roots returns the authorities that may have issued the proxy's certificate.
	Roots() []*x509.Certificate
	// Trusts reports whether the peer of a connection is the proxy. The handshake has verified its certificate.
	Trusts(peer *tls.ConnectionState, now time.Time) bool
	// Identity returns the identity in the headers of a request of the proxy; nil for none. ErrRefused says that the headers are ambiguous.
	Identity(h http.Header) (*Identity, error)
	// Headers returns the names of the headers that state an identity. Only the proxy may send them.
	Headers() []string
	// HeaderPrefixes returns the beginnings of further names of such headers.
	HeaderPrefixes() []string
}

// Proxies returns the providers that are authenticating proxies and in use, by name of their entry.
func (d *Directory) Proxies() []*Entry {
	return d.current().proxies
}

// Certificate is a Provider that authenticates each request by the client certificate of its connection.
type Certificate interface {
	Provider
	// Roots returns the authorities that may have issued the certificates.
	Roots() []*x509.Certificate
	// Holder returns the identity of the holder of a peer's certificate, which the handshake has verified; nil for a certificate of other
	// authorities. ErrRefused says that the certificate has expired since, or names nobody who could have a User.
	Holder(peer *tls.ConnectionState, now time.Time) (*Identity, error)
}

// Certificates returns the providers of client certificates that are in use, by name of their entry.
func (d *Directory) Certificates() []*Entry { return d.current().certificates }

// ClientAuthorities returns the authorities of authenticating proxies and of client certificates, which verify peers in handshakes; nil
// if there is none.
func (d *Directory) ClientAuthorities() []*x509.Certificate {
	var out []*x509.Certificate
	for _, e := range d.Proxies() {
		out = append(out, e.Provider.(Proxy).Roots()...)
	}
	for _, e := range d.Certificates() {
		out = append(out, e.Provider.(Certificate).Roots()...)
	}
	return out
}

// Bearer is a Provider whose tokens authenticate requests.
type Bearer interface {
	Provider
	// Issued reports whether a token claims to be the provider's, and one that authenticates requests. Nothing of it is verified.
	Issued(token string) bool
	// Remote reports whether Bearer sends the token to another server, so that callers have to bound its calls.
	Remote() bool
	// Bearer verifies a token for which Issued is true. Its errors are ErrRefused and ErrUnavailable.
	Bearer(ctx context.Context, token string) (*Identity, error)
}

// Bearers returns the providers whose tokens authenticate requests, by name of their entry.
func (d *Directory) Bearers() []*Entry { return d.current().bearers }

// usable returns the entries in use whose provider is a T.
func usable[T Provider](all []*Entry) []*Entry {
	var out []*Entry
	for _, e := range all {
		if _, ok := e.Provider.(T); ok && e.Usable() {
			out = append(out, e)
		}
	}
	return out
}
