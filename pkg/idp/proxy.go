package idp

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"
)

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
}

// Proxies returns the providers that are authenticating proxies and in use, by name of their entry.
func (d *Directory) Proxies() []*Entry {
	return d.current().proxies
}
