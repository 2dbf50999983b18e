package kubeconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// request is a certificate that was asked for and is waited for. Its key is nowhere else.
type request struct {
	csr   string // the name of the CertificateSigningRequest
	pem   []byte // what it asks for
	key   *ecdsa.PrivateKey
	until time.Time
}

// newRequest makes a key, and a request for a certificate of the user. A certificate names no groups: who leaves one would keep it.
func newRequest(user string) (*request, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for user %q: %w", user, err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}, key)
	if err != nil {
		return nil, fmt.Errorf("ask for a certificate for user %q: %w", user, err)
	}
	return &request{pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), key: key}, nil
}

// keyPEM is the private key as kubeconfigs have it.
func (r *request) keyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return nil, fmt.Errorf("write a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// issued returns the certificate that was issued, where it is the one that was asked for.
func (r *request) issued(text []byte, user string) (*x509.Certificate, error) {
	c, err := leaf(text)
	if err != nil {
		return nil, err
	}
	if key, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || !key.Equal(&r.key.PublicKey) {
		return nil, errors.New("the certificate that was issued is of another key")
	}
	if c.Subject.CommonName != user || len(c.Subject.Organization) > 0 {
		return nil, fmt.Errorf("the certificate that was issued is of %q", c.Subject)
	}
	return c, nil
}

// leaf reads the first certificate of a PEM text.
func leaf(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it is no PEM certificate")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read a certificate: %w", err)
	}
	return c, nil
}

// renewal is when a certificate is replaced: after two thirds of its life.
func renewal(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
}
