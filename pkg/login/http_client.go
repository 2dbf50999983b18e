package login

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"golang.org/x/oauth2"
)

// maxAnswer bounds how much of an answer is read, in bytes.
const maxAnswer = 1 << 20

// client returns a context whose requests use the session's HTTP client.
func (s *Session) client(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, s.http)
}

// newHTTP returns a client that follows no redirects: no endpoint of a provider redirects, and tokens are not sent on.
func newHTTP(roots *x509.CertPool, insecure bool) *http.Client {
	return &http.Client{
		Timeout:       requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, InsecureSkipVerify: insecure}},
		//nolint:gosec // New refuses it but for this machine
	}
}

// call sends a request and decodes its answer as JSON into v, which may be nil.
func call(client *http.Client, req *http.Request, v any) error {
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK {
		var e struct {
			Name string `json:"error"`
			Text string `json:"error_description"`
		}
		if kind == "application/json" {
			_ = json.Unmarshal(body, &e) // without JSON, it has no reason
		}
		return &statusError{resp.StatusCode, e.Name, e.Text}
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(body, v); err != nil {
		return errors.New("the answer is not the JSON that was expected: is the address right?")
	}
	return nil
}
