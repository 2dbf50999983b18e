package main

import (
	"bytes"
	"context"
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
	"strconv"
	"text/template"
	"time"
)

// configuration is the configuration file of both programs.
var configuration = template.Must(template.New("kubesphere.yaml").Parse(`# Written by ` + "`make run`" + ` at every start.
authentication:
  issuer:
    url: {{.Issuer}}
egress:
  allowLoopback: true
kubeconfig:
  server: {{.Server}}
  certificateAuthority: {{.Authority}}
multicluster:
{{- if .Member}}
  clusterRole: member
{{- else}}
  clusterRole: host
  hostClusterName: host
{{- end}}
{{- if .Hub}}
fleet:
  hub: {url: {{.Hub}}, caFile: {{.HubCA}}, tokenFile: {{.Token}}}
{{- else if .Members}}
fleet:
  enabled: true
{{- end}}
`))

// identities are the names that the programs have at kube-apiserver, with just the rights of config/rbac.
var identities = []string{"ks-apiserver", "ks-controller-manager"}

// writeConfiguration writes everything that the product's programs read.
func (s *session) writeConfiguration(ctx context.Context) error {
	var b bytes.Buffer
	if err := configuration.Execute(&b, struct {
		Issuer, Server, Authority, Hub, HubCA, Token string
		Member, Members                              bool
	}{s.issuer(), s.tlsURL(), strconv.Quote(s.path("tls-ca.crt")), s.hub.url, strconv.Quote(s.hub.ca), strconv.Quote(s.hub.token),
		s.member, s.fleet}); err != nil {
		return fmt.Errorf("fill in the configuration: %w", err)
	}
	if err := writeFile(s.path("kubesphere.yaml"), b.Bytes(), 0o600); err != nil {
		return err
	}
	if s.kubeconfig != "" {
		return selfSigned(s.path("tls.crt"), s.path("tls.key"), s.path("tls-ca.crt"), time.Now())
	}
	for _, name := range identities {
		_, err := s.tool(ctx, nil, s.program("dev"), "kubeconfig", "--dir", s.dir, "--out", s.path(name+".kubeconfig"),
			"--user", "system:serviceaccount:kubesphere-system:"+name,
			"--group", "system:serviceaccounts", "--group", "system:serviceaccounts:kubesphere-system")
		if err != nil {
			return fmt.Errorf("make an identity: %w", err)
		}
	}
	_, err := s.tool(ctx, nil, s.program("dev"), "cert", "--dir", s.dir, "--name", "127.0.0.1", "--name", "localhost",
		"--out-cert", s.path("tls.crt"), "--out-key", s.path("tls.key"), "--out-ca", s.path("tls-ca.crt"))
	if err != nil {
		return fmt.Errorf("make a serving certificate: %w", err)
	}
	return nil
}

// identity returns the kubeconfig of one of the programs.
func (s *session) identity(name string) string {
	if s.kubeconfig != "" {
		return s.kubeconfig
	}
	return s.path(name + ".kubeconfig")
}

// selfSigned writes a serving certificate for loopback that is its own CA. An existing cluster's CA does not sign for us.
func selfSigned(certFile, keyFile, caFile string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("generate a serving key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fmt.Errorf("draw a serial number: %w", err)
	}
	cert := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "ks-apiserver"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(365 * 24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return fmt.Errorf("sign a serving certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a serving key: %w", err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return errors.Join(
		writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600),
		writeFile(certFile, certPEM, 0o644),
		writeFile(caFile, certPEM, 0o644),
	)
}

// writeFile replaces a file atomically, since others may read it at any moment.
func writeFile(file string, data []byte, mode fs.FileMode) error {
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
