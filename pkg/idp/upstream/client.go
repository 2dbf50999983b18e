// Package upstream sends requests to identity providers that speak HTTP: with a timeout, a bounded answer, and the
// configured address only; errors contain nothing that was sent or received.
package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/egress"
	"kapis.dev/ks-apiserver/pkg/idp"
)

const (
	// maxAnswer bounds how much of an answer is read, in bytes.
	maxAnswer = 1 << 20
	// defaultTimeout is how long one call of a provider may take, with all its requests.
	defaultTimeout = 10 * time.Second
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = time.Minute
	maxCA          = 1 << 20
)

// Settings are the keys that all HTTP providers have.
type Settings struct {
	// RootCA is a file with certificates of the authorities that issue the provider's certificate, and RootCAData the
	// certificates themselves, as PEM or base64 of PEM; none for those of the system.
	RootCA     string `json:"rootCA"`
	RootCAData string `json:"rootCAData"`
	// InsecureSkipVerify accepts any certificate. Then anyone between the servers can pass for the provider.
	InsecureSkipVerify bool `json:"insecureSkipVerify"`
	// Timeout is how long one call may take, such as "5s"; "" for 10 s.
	Timeout string `json:"timeout"`
}

// ErrSettings says, in addition to idp.ErrUnavailable, that waiting does not help: the settings have to be changed.
var ErrSettings = errors.New("the settings of the identity provider have to be changed")

// Client sends requests to one provider.
type Client struct {
	http    *http.Client
	timeout time.Duration
}

// NewClient returns a client. It makes no call.
func NewClient(s Settings, o idp.OpenOptions) (*Client, error) {
	timeout := defaultTimeout
	if s.Timeout != "" {
		d, err := time.ParseDuration(s.Timeout)
		if err != nil || d < minTimeout || d > maxTimeout {
			return nil, fmt.Errorf("read the key %q: it has to be a time between %s and %s, such as \"5s\"", "timeout", minTimeout, maxTimeout)
		}
		timeout = d
	}
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	if s.InsecureSkipVerify {
		klog.InfoS("The identity provider's certificate is not verified (insecureSkipVerify): an attacker in the network can log in as any user",
			"provider", o.Name)
	}
	tr := egress.NewTransport(egress.Options{AllowLoopback: o.AllowLoopback, SkipVerify: s.InsecureSkipVerify, HeaderTimeout: timeout})
	tr.TLSClientConfig.RootCAs = roots
	// A code can't be sent again if a connection turns out to be closed, and a provider is not told when it is replaced: so no connection
	// outlives its request. Logins are rare, and TLS sessions are resumed.
	tr.DisableKeepAlives = true
	tr.ForceAttemptHTTP2 = false
	tr.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	return &Client{timeout: timeout, http: &http.Client{
		Transport: tr,
		// Only the address is configured: no secret is sent to the target of a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func (s Settings) roots() (*x509.CertPool, error) {
	if s.RootCA == "" && s.RootCAData == "" {
		return nil, nil
	}
	if s.RootCA != "" && s.RootCAData != "" {
		return nil, fmt.Errorf("read the keys %q and %q: only one of them can be set", "rootCA", "rootCAData")
	}
	key, pem := "rootCAData", []byte(s.RootCAData)
	if s.RootCA != "" {
		key = "rootCA"
		f, err := os.Open(s.RootCA)
		if err != nil {
			return nil, fmt.Errorf("read the file that the key %q names: %w", key, errors.Unwrap(err))
		}
		defer func() { _ = f.Close() }()
		if pem, err = io.ReadAll(io.LimitReader(f, maxCA)); err != nil {
			return nil, fmt.Errorf("read the file that the key %q names: %w", key, errors.Unwrap(err))
		}
	} else if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s.RootCAData), "")); err == nil {
		pem = decoded
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the key %q: it holds no certificate in PEM", key)
	}
	return pool, nil
}

// Bound returns a context that ends after the timeout.
func (c *Client) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// Timeout returns how long a call may take.
func (c *Client) Timeout() time.Duration { return c.timeout }

// Answer is a server's response.
type Answer struct {
	// Status is the HTTP status, and Body the response's body. The status is no redirect, and no server error.
	Status int
	Body   []byte
	where  string
}

// Get sends a GET request, with an access token if token is not "".
func (c *Client) Get(ctx context.Context, address, token, accept string) (*Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%w: %w: one of its addresses is not valid", idp.ErrUnavailable, ErrSettings)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Accept", accept)
	return c.do(req)
}

// PostJSON sends a POST request with a body of JSON, and an access token if token is not "".
func (c *Client) PostJSON(ctx context.Context, address, token string, body any) (*Answer, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write the request to an identity provider: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: %w: one of its addresses is not valid", idp.ErrUnavailable, ErrSettings)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	return c.do(req)
}

// do sends a request. Its errors are idp.ErrUnavailable.
func (c *Client) do(req *http.Request) (*Answer, error) {
	where := req.Method + " " + req.URL.Scheme + "://" + req.URL.Host + req.URL.EscapedPath() // without the query, which may contain a ticket
	req.Header.Set("User-Agent", "ks-apiserver")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", idp.ErrUnavailable, where, cause(req.Context(), err))
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return nil, fmt.Errorf("%w: %w: %s answers with a redirect (%d), which is not followed: configure the address that it leads to",
			idp.ErrUnavailable, ErrSettings, where, resp.StatusCode)
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500:
		return nil, fmt.Errorf("%w: %s answers %d %s", idp.ErrUnavailable, where, resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("%w: read the answer to %s: %w", idp.ErrUnavailable, where, cause(req.Context(), err))
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("%w: the answer to %s is longer than %d bytes", idp.ErrUnavailable, where, maxAnswer)
	}
	return &Answer{Status: resp.StatusCode, Body: body, where: where}, nil
}

// cause returns why a request failed, in words that contain nothing of the server's.
func cause(ctx context.Context, err error) error {
	var (
		verify *tls.CertificateVerificationError
		record tls.RecordHeaderError
		dns    *net.DNSError
		op     *net.OpError
		timed  net.Error
	)
	switch {
	case errors.Is(err, egress.ErrRefused):
		return fmt.Errorf("%w: %w", ErrSettings, egress.ErrRefused)
	case errors.Is(ctx.Err(), context.Canceled):
		return errors.New("the caller did not wait")
	case ctx.Err() != nil, errors.As(err, &timed) && timed.Timeout():
		return errors.New("it did not answer in time")
	case errors.As(err, &verify):
		return fmt.Errorf("%w: its certificate does not verify: %w; set rootCA or rootCAData", ErrSettings, verify.Err)
	case errors.As(err, &record):
		return fmt.Errorf("%w: it does not speak TLS", ErrSettings)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("%w: there is no such host: %s", ErrSettings, dns.Name)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("connect: %w", op.Err)
	}
	return errors.New("the connection broke")
}

// Checked returns the error of a Check: wrong settings are no outage.
func Checked(err error) error {
	if errors.Is(err, ErrSettings) {
		return errors.New(strings.TrimPrefix(err.Error(), idp.ErrUnavailable.Error()+": ")) // the text only
	}
	return err
}

// Unexpected returns the error for a status that the caller does not expect.
func (a *Answer) Unexpected() error {
	said := fmt.Sprintf("%s answers %d %s", a.where, a.Status, http.StatusText(a.Status))
	if a.Status >= 400 && a.Status != http.StatusRequestTimeout {
		return fmt.Errorf("%w: %w: %s", idp.ErrUnavailable, ErrSettings, said)
	}
	return fmt.Errorf("%w: %s", idp.ErrUnavailable, said)
}

// Unreadable returns the error for an answer of the wrong form.
func (a *Answer) Unreadable(want string) error {
	return fmt.Errorf("%w: %w: %s does not answer with %s", idp.ErrUnavailable, ErrSettings, a.where, want)
}

// JSON decodes an answer of status 200 into a value. In interfaces, numbers are json.Number.
func (a *Answer) JSON(into any) error {
	if a.Status != http.StatusOK {
		return a.Unexpected()
	}
	d := json.NewDecoder(bytes.NewReader(a.Body))
	d.UseNumber()
	if err := d.Decode(into); err != nil || string(bytes.TrimSpace(a.Body)) == "null" {
		return a.Unreadable("the JSON object that it should")
	}
	return nil
}
