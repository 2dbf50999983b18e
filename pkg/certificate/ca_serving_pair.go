package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of the Secret besides those of its type.
const (
	keyBundle = "ca.crt"
	keyCA     = "ca.key"
)

// pair is an authority and the certificate that it signed, or that its predecessor signed. It is immutable.
type pair struct {
	// authorities are trusted, the newest first; key is the key of the first.
	authorities []*x509.Certificate
	key         *ecdsa.PrivateKey
	serving     tls.Certificate
	bundle      []byte
}

// read decodes data.
func read(data map[string][]byte) (*pair, error) {
	p := &pair{bundle: data[keyBundle]}
	for rest := p.bundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", keyBundle, err)
		}
		p.authorities = append(p.authorities, ca)
	}
	if len(p.authorities) == 0 {
		return nil, fmt.Errorf("read %s: no certificate", keyBundle)
	}
	block, _ := pem.Decode(data[keyCA])
	if block == nil {
		return nil, fmt.Errorf("read %s: no key", keyCA)
	}
	var err error
	if p.key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
		return nil, fmt.Errorf("read %s: not an EC key", keyCA)
	}
	if !p.key.PublicKey.Equal(p.authorities[0].PublicKey) {
		return nil, fmt.Errorf("%s is not the key of the first certificate of %s", keyCA, keyBundle)
	}
	if p.serving, err = tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err != nil {
		return nil, fmt.Errorf("read %s: %w", corev1.TLSCertKey, err)
	}
	return p, nil
}

func (p *pair) data() map[string][]byte {
	return map[string][]byte{
		keyBundle:               p.bundle,
		keyCA:                   encodeKey(p.key),
		corev1.TLSCertKey:       encode("CERTIFICATE", p.serving.Leaf.Raw),
		corev1.TLSPrivateKeyKey: encodeKey(p.serving.PrivateKey.(*ecdsa.PrivateKey)), //nolint:forcetypeassert // no other is ever made
	}
}

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
	if !next.serves(now, o.Hosts) {
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

// serves reports whether the serving certificate stays valid for a while: for these hosts, signed by a trusted authority,
// and by the newest one once all clients trust that.
func (p *pair) serves(now time.Time, hosts []string) bool {
	leaf := p.serving.Leaf
	if leaf == nil || due(leaf, now) || slices.ContainsFunc(hosts, func(h string) bool { return leaf.VerifyHostname(h) != nil }) {
		return false
	}
	signed := func(ca *x509.Certificate) bool { return leaf.CheckSignatureFrom(ca) == nil }
	if now.Sub(p.authorities[0].NotBefore) > settle {
		return signed(p.authorities[0])
	}
	return slices.ContainsFunc(p.authorities, signed)
}

// due reports whether less than a third of a certificate's life is left.
func due(c *x509.Certificate, now time.Time) bool {
	return c.NotAfter.Sub(now) < c.NotAfter.Sub(c.NotBefore)/3 || now.Before(c.NotBefore.Add(-skew))
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil // for curves without a name: P-256 has one
	}
	return encode("EC PRIVATE KEY", der)
}
