package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync"
)

// clientCA asks clients for certificates if a provider is configured that identifies them so: an authenticating proxy, or one of client
// certificates. They are verified with the authorities of these alone. Otherwise no client is asked.
type clientCA struct {
	mu     sync.Mutex
	roots  func() []*x509.Certificate
	known  []*x509.Certificate
	asking *tls.Config // for known
}

// follow sets the function that returns the roots; clients are asked as soon as there are any.
func (p *clientCA) follow(roots func() []*x509.Certificate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roots = roots
}

// config returns the TLS configuration of the next connection: served itself, or a copy that asks for a certificate.
func (p *clientCA) config(served *tls.Config) *tls.Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.roots == nil {
		return served
	}
	roots := p.roots()
	if len(roots) == 0 {
		return served
	}
	if p.asking != nil && slices.EqualFunc(roots, p.known, (*x509.Certificate).Equal) {
		return p.asking
	}
	c := served.Clone()
	c.GetConfigForClient = nil
	c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
	for _, root := range roots {
		c.ClientCAs.AddCert(root)
	}
	p.asking, p.known = c, roots
	return c
}
