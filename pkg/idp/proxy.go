package idp

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"
)

// Proxy is a Provider that vouches for people in the headers of requests: an authenticating proxy, which is known by its
// client certificate.
type Proxy interface {
	Provider
	// Roots are the authorities that may have issued the proxy's certificate.
	Roots() []*x509.Certificate
	// Trusts tells whether the peer of a connection, whose certificate was verified in the handshake, is the proxy.
	Trusts(peer *tls.ConnectionState, now time.Time) bool
	// Identity returns whom the headers of a request of the proxy name; nil for nobody. ErrRefused says that they
	// name somebody in a way that has more than one reading.
	Identity(h http.Header) (*Identity, error)
	// Headers are the names of the headers that state an identity. Nobody but the proxy may send them.
	Headers() []string
}

// Proxies returns the providers that are authenticating proxies and in use, by name of their entry.
func (d *Directory) Proxies() []*Entry {
	return d.current().proxies
}
