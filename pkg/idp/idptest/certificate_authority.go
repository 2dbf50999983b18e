package idptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// Authority is a certificate authority.
type Authority struct {
	Cert *x509.Certificate
	// PEM is the certificate.
	PEM string

	key *ecdsa.PrivateKey
	now time.Time
}

// NewAuthority returns an authority that is valid from a year before now to a year after it.
func NewAuthority(t *testing.T, name string, now time.Time) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: now.AddDate(-1, 0, 0),
		NotAfter: now.AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a := &Authority{key: key, now: now}
	a.Cert = a.sign(t, tpl, tpl, key)
	a.PEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw}))
	return a
}

// Issue returns a client certificate of that subject, which ends after so many days.
func (a *Authority) Issue(t *testing.T, subject pkix.Name, days int) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := a.sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), Subject: subject, NotBefore: a.now.AddDate(0, -1, 0),
		NotAfter: a.now.AddDate(0, 0, days), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, a.Cert, key)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

// Peer returns a connection whose client has shown such a certificate.
func (a *Authority) Peer(t *testing.T, subject pkix.Name, days int) *tls.ConnectionState {
	t.Helper()
	leaf := a.Issue(t, subject, days).Leaf
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, a.Cert}}}
}

func (a *Authority) sign(t *testing.T, tpl, parent *x509.Certificate, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, tpl, parent, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
