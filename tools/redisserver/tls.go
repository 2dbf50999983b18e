package redisserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are files: of a CA, and of the certificates that it signed for a server on 127.0.0.1 and a client.
type Certificates struct {
	CA, ServerCert, ServerKey, ClientCert, ClientKey string
}

// NewCertificates writes a CA of its own, and its certificates.
func NewCertificates(t testing.TB) Certificates {
	t.Helper()
	dir := t.TempDir()
	now := time.Now()
	key := newKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
	file := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sign := func(name string, serial int64) (string, string) {
		own := key
		if serial > 1 {
			own = newKey(t)
		}
		c := &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		if serial == 1 {
			c = ca
		}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, &own.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(own)
		if err != nil {
			t.Fatal(err)
		}
		return file(name+".crt", "CERTIFICATE", der), file(name+".key", "PRIVATE KEY", private)
	}
	var c Certificates
	c.CA, _ = sign("ca", 1)
	c.ServerCert, c.ServerKey = sign("server", 2)
	c.ClientCert, c.ClientKey = sign("client", 3)
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Options are those of a server that accepts TLS only, from clients with a certificate.
func (c Certificates) Options() []string {
	return []string{
		"port 0", "tls-port {port}", "tls-ca-cert-file " + c.CA, "tls-cert-file " + c.ServerCert, "tls-key-file " + c.ServerKey,
		"tls-auth-clients yes",
	}
}

// UserOptions are those of a server with one user, who may do what storing sessions needs, on the keys of sessions.
func UserOptions(name, password string) []string {
	return []string{
		"user default off",
		"user " + name + " on >" + password + " ~kapis:* ~{kapis}:* &kapis:* +@connection +@read +@write +@scripting +@pubsub -@dangerous +cluster",
	}
}
