package certificate

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"slices"
	"time"
)

// renewed returns p if nothing is due, and otherwise its replacement. p may be nil.
func (p *pair) renewed(now time.Time, o Options) (*pair, error) {
	if p == nil {
		p = &pair{}
	}
	next := &pair{authorities: p.authorities, key: p.key, serving: p.serving}
	next.authorities = slices.DeleteFunc(slices.Clone(p.authorities), func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
	if len(next.authorities) == 0 || next.authorities[0] != p.authorities[0] || due(next.authorities[0], now) {
		ca, key, err := newAuthority(now, o.CommonName)
		if err != nil {
			return nil, err
		}
		// The former one signs once more, so that nothing is due before the new one is trusted (O35).
		if len(next.authorities) > 0 && next.authorities[0] == p.authorities[0] {
			if next.serving, err = sign(p.authorities[0], p.key, now, o); err != nil {
				return nil, err
			}
		}
		next.authorities, next.key = append([]*x509.Certificate{ca}, next.authorities...), key
	}
	if !next.serves(now, o) {
		var err error
		if next.serving, err = sign(next.authorities[0], next.key, now, o); err != nil {
			return nil, err
		}
	}
	for _, ca := range next.authorities {
		next.bundle = append(next.bundle, encode("CERTIFICATE", ca.Raw)...)
	}
	if p.serving.Leaf != nil && next.serving.Leaf.Equal(p.serving.Leaf) && bytes.Equal(next.bundle, p.bundle) {
		return p, nil
	}
	return next, nil
}

// serves reports whether the serving certificate stays valid for a while: for its hosts, signed by a trusted authority,
// and by the newest one once all clients trust that.
func (p *pair) serves(now time.Time, o Options) bool {
	leaf := p.serving.Leaf
	if leaf == nil || due(leaf, now) || slices.ContainsFunc(o.Hosts, func(h string) bool { return leaf.VerifyHostname(h) != nil }) {
		return false
	}
	signed := func(ca *x509.Certificate) bool { return leaf.CheckSignatureFrom(ca) == nil }
	if now.Sub(p.authorities[0].NotBefore) > cmp.Or(o.Settle, settle) {
		return signed(p.authorities[0])
	}
	return slices.ContainsFunc(p.authorities, signed)
}

// due reports whether less than a third of a certificate's life is left.
func due(c *x509.Certificate, now time.Time) bool {
	return c.NotAfter.Sub(now) < c.NotAfter.Sub(c.NotBefore)/3 || now.Before(c.NotBefore.Add(-skew))
}
