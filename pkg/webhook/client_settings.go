// Package webhook has what clients of the webhooks share that the configuration names: TLS by files, and a bearer token in one.
package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// Endpoint is a webhook.
type Endpoint struct {
	URL string
	// CAFile has the authorities that may sign the webhook's certificate; "" for those of the system.
	CAFile string
	// CertFile and KeyFile are the client's certificate, and TokenFile has a bearer token; "" for none. They are read again when they
	// are used.
	CertFile, KeyFile, TokenFile string
	// SkipVerify accepts any certificate.
	SkipVerify bool
}

// TLS returns the configuration of connections. An error names the file that can't be used.
func (e *Endpoint) TLS() (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: e.SkipVerify} //nolint:gosec // the administrator's choice
	if e.CAFile != "" {
		text, err := os.ReadFile(e.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read caFile: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("caFile %s has no certificate", e.CAFile)
		}
	}
	if (e.CertFile == "") != (e.KeyFile == "") {
		return nil, errors.New("certFile and keyFile belong together")
	}
	if e.CertFile != "" {
		load := func() (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(e.CertFile, e.KeyFile)
			return &c, err
		}
		if _, err := load(); err != nil {
			return nil, fmt.Errorf("read certFile and keyFile: %w", err)
		}
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	_, err := e.token()
	return t, err
}

// Authorize adds the token to a request, as its file has it now.
func (e *Endpoint) Authorize(r *http.Request) error {
	token, err := e.token()
	if err == nil && token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return err
}

func (e *Endpoint) token() (string, error) {
	if e.TokenFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(e.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read tokenFile: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n") {
		return "", fmt.Errorf("tokenFile %s has no token on one line", e.TokenFile)
	}
	return token, nil
}

// NoRedirect is the CheckRedirect of a client that follows no redirect: what is sent, and the token, are for the webhook alone.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// WithoutURL returns the error of a client without the URL, whose query may be secret.
func WithoutURL(err error) error {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	return err
}
