package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// pair returns a certificate: an authority's own if issuer is nil.
func pair(t *testing.T, name string, issuer *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		BasicConstraintsValid: true,
		IsCA:                  issuer == nil,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	parent, signer := c, any(key)
	if issuer == nil {
		c.KeyUsage, c.ExtKeyUsage = x509.KeyUsageCertSign, nil
	} else {
		parent, signer = issuer.Leaf, issuer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// S19, S49: clients are asked for certificates only if a proxy is configured, only those of its authority count, and the other TLS settings are unchanged.
func TestClientCertificatesAreVerifiedWhereAProxyIsConfigured(t *testing.T) {
	authority, other := pair(t, "proxies", nil), pair(t, "others", nil)
	var roots []*x509.Certificate
	p := &clientCA{}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.VerifiedChains) > 0 {
			_, _ = io.WriteString(w, r.TLS.VerifiedChains[0][0].Subject.CommonName)
		}
	}))
	srv.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	srv.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.config(srv.TLS), nil }
	srv.StartTLS()
	defer srv.Close()
	get := func(cert *tls.Certificate, most uint16) (string, error) {
		tr := srv.Client().Transport.(*http.Transport).Clone()
		tr.DisableKeepAlives = true
		tr.TLSClientConfig.MaxVersion = most
		tr.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if cert == nil {
				return &tls.Certificate{}, nil
			}
			return cert, nil
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil)
		if err != nil {
			return "", err
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return string(body), err
	}
	front := pair(t, "front", authority)
	if got, err := get(front, 0); got != "" || err != nil {
		t.Errorf("before there is a server: %q, %v", got, err)
	}
	p.follow(func() []*x509.Certificate { return roots })
	if got, err := get(front, 0); got != "" || err != nil {
		t.Errorf("without a proxy: %q, %v", got, err)
	}
	roots = []*x509.Certificate{authority.Leaf}
	if got, err := get(front, 0); got != "front" || err != nil {
		t.Errorf("the proxy: %q, %v", got, err)
	}
	if got, err := get(nil, 0); got != "" || err != nil {
		t.Errorf("anybody else: %q, %v", got, err)
	}
	if got, err := get(pair(t, "front", other), 0); err == nil {
		t.Errorf("the certificate of another authority is taken for %q", got)
	}
	if _, err := get(front, tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is spoken where certificates are asked for")
	}
	roots = []*x509.Certificate{other.Leaf}
	if got, err := get(front, 0); err == nil {
		t.Errorf("after the authority changed the old one counts: %q", got)
	}
	roots = nil
	if got, err := get(front, 0); got != "" || err != nil {
		t.Errorf("after the proxy is gone: %q, %v", got, err)
	}
}
