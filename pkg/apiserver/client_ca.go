package apiserver

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"sync"
)

// clientCA ask clients for certificates where an authenticating proxy is configured, and verify them with the authorities of such
// proxies alone. Nobody is asked otherwise.
type clientCA struct {
	mu     sync.Mutex
	roots  func() []*x509.Certificate
	known  []*x509.Certificate
	asking *tls.Config // for known
}

// follow begins to ask, as soon as there are roots.
func (p *clientCA) follow(roots func() []*x509.Certificate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roots = roots
}

// config returns what holds for the next connection: served as it is, or with the question for a certificate.
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
