package linktest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

// Authority signs certificates of a fleet.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority of its own.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fleet"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{cert, key}
}

// Identity is that of somebody whose certificate has a name, ends after a while and has purposes.
func (a *Authority) Identity(t testing.TB, name string, life time.Duration, use ...x509.ExtKeyUsage) link.Identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(life),
		ExtKeyUsage: use, KeyUsage: x509.KeyUsageDigitalSignature,
	}, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return link.Identity{
		Certificate: func() (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
		},
		Authorities: func() *x509.CertPool { return pool },
	}
}

// Sign returns the certificate of a member's key, and the authorities, in PEM, as a hub answers a certificate request.
func (a *Authority) Sign(t testing.TB, key any, name string) (certificate, authorities string) {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(3), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, a.cert, key, a.key)
	if err != nil {
		t.Error(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// Hub returns the identity of a hub, whose replicas connect to each other by it, too.
func (a *Authority) Hub(t testing.TB) link.Identity {
	t.Helper()
	return a.Identity(t, link.HubName(), time.Hour, x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth)
}

// Member returns the identity of the member whose Cluster has a UID.
func (a *Authority) Member(t testing.TB, uid string) link.Identity {
	t.Helper()
	return a.Identity(t, link.MemberName(uid), time.Hour, x509.ExtKeyUsageServerAuth)
}

// Link links a member to a hub, and returns once the link is open: h answers what the hub sends. end ends the member's side.
func (a *Authority) Link(t testing.TB, hub Hub, uid string, h http.Handler) (end context.CancelFunc) {
	t.Helper()
	one, other := Pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	served := &link.Handler{Identity: a.Member(t, uid), Handler: h}
	go func() { _ = served.Serve(ctx, other, 0) }()
	opened, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- hub.Serve(t.Context(), one, uid, func() { close(opened) }) }()
	select {
	case <-opened:
	case err := <-ended:
		t.Fatalf("the link of the member %s was not opened: %v", uid, err)
	}
	return cancel
}
