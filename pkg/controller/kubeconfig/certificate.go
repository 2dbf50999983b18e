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

// request is a requested certificate that has not been issued yet. Its key is stored nowhere else.
type request struct {
	csr   string // the name of the CertificateSigningRequest
	pem   []byte // the request in PEM
	key   *ecdsa.PrivateKey
	until time.Time
}

// newRequest generates a key, and a request for a certificate of the user. The certificate names no groups, since a
// user who leaves a group would keep it.
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

// keyPEM returns the private key in the form of kubeconfigs.
func (r *request) keyPEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(r.key)
	if err != nil {
		return nil, fmt.Errorf("write a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// issued returns the issued certificate if it is the requested one.
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

// leaf parses the first certificate of a PEM text.
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

// renewal returns when a certificate is replaced: after two thirds of its life.
func renewal(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
}
