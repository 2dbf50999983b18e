package certificate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/certificate"
)

func certificateFiles(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestARenewedCertificateIsServedAndABrokenOneIsNot(t *testing.T) { // U41
	dir := t.TempDir()
	now := time.Now()
	c := &certificate.File{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
		Now: func() time.Time { return now }}
	name := func() string {
		t.Helper()
		cert, err := c.Load()
		if err != nil {
			t.Fatal(err)
		}
		return cert.Leaf.DNSNames[0]
	}
	certificateFiles(t, dir, "first")
	if got := name(); got != "first" {
		t.Fatalf("got %s", got)
	}
	certificateFiles(t, dir, "second")
	if err := os.Chtimes(c.Certificate, now, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := name(); got != "first" {
		t.Errorf("the file is looked at more often than every %v: %s", certificate.CheckEvery, got)
	}
	now = now.Add(certificate.CheckEvery)
	if got := name(); got != "second" {
		t.Errorf("after the renewal: %s", got)
	}
	if err := os.WriteFile(c.Certificate, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(certificate.CheckEvery)
	if got := name(); got != "second" {
		t.Errorf("after a broken renewal: %s", got)
	}
}
