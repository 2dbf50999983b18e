package certificate

import (
	"crypto/ecdsa"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"
)

// derivedKey is the length of a derived key, in bytes.
const derivedKey = 32

// Sign returns a certificate in PEM for the key of somebody else, who serves by it under a name. It ends with the authority at the latest.
func (k *Keeper) Sign(public *ecdsa.PublicKey, name string, life time.Duration) ([]byte, error) {
	p, now := k.now.Load(), k.Now()
	ca := p.authorities[0]
	end := now.Add(life)
	if end.After(ca.NotAfter) {
		end = ca.NotAfter
	}
	leaf, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "kapis.dev fleet"}, DNSNames: []string{name}, NotBefore: now.Add(-skew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, public, p.key)
	if err != nil {
		return nil, err
	}
	return encode("CERTIFICATE", leaf.Raw), nil
}

// Pool returns the authorities to trust.
func (k *Keeper) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, ca := range k.now.Load().authorities {
		pool.AddCert(ca)
	}
	return pool
}

// Derive returns a key of all replicas for one purpose (HKDF, RFC 5869). It changes with the authority.
func (k *Keeper) Derive(purpose string) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(k.now.Load().key)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return hkdf.Key(sha256.New, der, nil, purpose, derivedKey)
}
