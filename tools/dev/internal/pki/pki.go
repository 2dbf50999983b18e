// Package pki creates the certificates of a development control plane and stores them in files.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// renewBefore is how long before its end a stored certificate is replaced at the next start.
	renewBefore = 30 * 24 * time.Hour
	// clockSkew lets machines whose clock is a little behind (containers, suspended laptops) accept a new certificate.
	clockSkew = time.Hour
)

// Pair is a certificate and its private key, both PEM.
type Pair struct {
	Cert, Key []byte
}

// Authority signs certificates.
type Authority struct {
	Pair
	cert *x509.Certificate
	key  crypto.Signer
}

// Request describes a certificate. Names that parse as IP addresses become IP names, the others DNS names; a request with Names is
// also good for serving, and every certificate is good for a client.
type Request struct {
	// CommonName is the user name that Kubernetes reads from a client certificate.
	CommonName string
	// Groups are the groups that Kubernetes reads from a client certificate (its organizations).
	Groups []string
	// Names are the host names and addresses that a server is reached by.
	Names []string
}

// NewAuthority makes a self-signed authority.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the key of authority %s: %w", name, err)
	}
	template, err := newTemplate(name, now, authorityLife)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("sign authority %s: %w", name, err)
	}
	return parseAuthority(pair)
}

// Issue signs a certificate with a new key, valid from about now for a year.
func (a *Authority) Issue(r Request, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate the key of %s: %w", r.CommonName, err)
	}
	template, err := newTemplate(r.CommonName, now, leafLife)
	if err != nil {
		return Pair{}, err
	}
	template.Subject.Organization = r.Groups
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(r.Names) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, name := range r.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	pair, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", r.CommonName, err)
	}
	return pair, nil
}

func newTemplate(name string, now time.Time, life time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number for %s: %w", name, err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(life),
	}, nil
}

func sign(template, parent *x509.Certificate, key, signer crypto.Signer) (Pair, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: keyPEM}, nil
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func parseAuthority(p Pair) (*Authority, error) {
	cert, err := parseCert(p.Cert)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(p.Key)
	if block == nil {
		return nil, errors.New("the key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", parsed)
	}
	return &Authority{Pair: p, cert: cert, key: key}, nil
}

func parseCert(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("the certificate is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// LoadAuthority reads the authority that EnsureAuthority stored in dir.
func LoadAuthority(dir, name string) (*Authority, error) {
	pair, err := ReadPair(dir, name)
	if err != nil {
		return nil, err
	}
	authority, err := parseAuthority(pair)
	if err != nil {
		return nil, fmt.Errorf("read authority %s in %s: %w", name, dir, err)
	}
	return authority, nil
}

// EnsureAuthority reads dir/name.crt and dir/name.key, or creates them where they are missing or about to expire.
func EnsureAuthority(dir, name string, now time.Time) (*Authority, error) {
	authority, err := LoadAuthority(dir, name)
	if err == nil && now.Before(authority.cert.NotAfter.Add(-renewBefore)) {
		return authority, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if authority, err = NewAuthority("ks-dev-"+name, now); err != nil {
		return nil, err
	}
	return authority, authority.Write(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
}

// Ensure reads dir/name.crt and dir/name.key, or issues them where they are missing, about to expire, from another authority or for
// other names.
func (a *Authority) Ensure(dir, name string, r Request, now time.Time) (Pair, error) {
	base := filepath.Join(dir, name)
	if pair, err := ReadPair(dir, name); err == nil && a.stillGood(pair, r, now) {
		return pair, nil
	}
	pair, err := a.Issue(r, now)
	if err != nil {
		return Pair{}, err
	}
	return pair, pair.Write(base+".crt", base+".key")
}

func (a *Authority) stillGood(p Pair, r Request, now time.Time) bool {
	cert, err := parseCert(p.Cert)
	if err != nil || now.After(cert.NotAfter.Add(-renewBefore)) || cert.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	for _, name := range r.Names {
		if cert.VerifyHostname(name) != nil {
			return false
		}
	}
	return cert.Subject.CommonName == r.CommonName && slices.Equal(cert.Subject.Organization, r.Groups)
}

// EnsureKey makes the private key in file, and the public key in file.pub, where they are missing.
func EnsureKey(file string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate %s: %w", file, err)
	}
	private, err := encodeKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode the public half of %s: %w", file, err)
	}
	// The public half first: the existence of the private one says that both exist.
	if err := WriteFile(file+".pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644); err != nil {
		return err
	}
	return WriteFile(file, private, 0o600)
}

// ReadPair reads dir/name.crt and dir/name.key.
func ReadPair(dir, name string) (Pair, error) {
	base := filepath.Join(dir, name)
	cert, err := os.ReadFile(base + ".crt")
	if err != nil {
		return Pair{}, fmt.Errorf("read a certificate: %w", err)
	}
	key, err := os.ReadFile(base + ".key")
	if err != nil {
		return Pair{}, fmt.Errorf("read a private key: %w", err)
	}
	return Pair{Cert: cert, Key: key}, nil
}

// Write stores the pair; the key is readable by its owner only.
func (p Pair) Write(certFile, keyFile string) error {
	if err := WriteFile(keyFile, p.Key, 0o600); err != nil {
		return err
	}
	return WriteFile(certFile, p.Cert, 0o644)
}

// WriteFile replaces a file atomically: a reader, or a restart after a crash, sees the old content or the new.
func WriteFile(file string, data []byte, mode fs.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	defer func() { _ = os.Remove(temp.Name()) }() // after the rename there is nothing to remove
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(mode), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
