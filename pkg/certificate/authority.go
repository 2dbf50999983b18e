package certificate

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
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

func newAuthority(now time.Time, of string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: fmt.Sprintf("%s %d", cmp.Or(of, "ks-controller-manager webhooks"), now.Unix())}, NotBefore: now.Add(-skew),
		NotAfter: now.Add(authorityLife),
		IsCA:     true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate the key of an authority: %w", err)
	}
	ca, err := issue(template, template, &key.PublicKey, key)
	return ca, key, err
}

func sign(ca *x509.Certificate, caKey *ecdsa.PrivateKey, now time.Time, o Options) (tls.Certificate, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: cmp.Or(o.CommonName, "ks-controller-manager")}, NotBefore: now.Add(-skew),
		NotAfter: now.Add(servingLife), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if len(o.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if o.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	for _, h := range o.Hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate a serving key: %w", err)
	}
	leaf, err := issue(template, ca, &key.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func issue(template, parent *x509.Certificate, public *ecdsa.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errors.Join(errors.New("a certificate that was just made can't be read"), err)
	}
	return c, nil
}
