// Package upstream asks identity providers that speak HTTP: within a time, for a bounded answer, at the configured
// address only, and so that no error shows what was sent or received.
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
	// maxAnswer bounds what is read of an answer, in bytes.
	maxAnswer = 1 << 20
	// defaultTimeout is how long one question to a provider may take, with all the requests that it needs.
	defaultTimeout = 10 * time.Second
	minTimeout     = 100 * time.Millisecond
	maxTimeout     = time.Minute
	maxCA          = 1 << 20
)

// Settings are the keys that all providers have that are asked over HTTP.
type Settings struct {
	// RootCA is a file of certificates that vouch for the provider, and RootCAData the certificates themselves, as PEM
	// or base64 of PEM; none for those of the system.
	RootCA     string `json:"rootCA"`
	RootCAData string `json:"rootCAData"`
	// InsecureSkipVerify takes any certificate. Whoever is between can then be anybody.
	InsecureSkipVerify bool `json:"insecureSkipVerify"`
	// Timeout is how long one question may take, such as "5s"; "" for 10 s.
	Timeout string `json:"timeout"`
}

// ErrSettings says, beside idp.ErrUnavailable, that waiting does not help: the settings have to be changed.
var ErrSettings = errors.New("the settings of the identity provider have to be changed")

// Client asks one provider.
type Client struct {
	http    *http.Client
	timeout time.Duration
}

// NewClient makes a client. It makes no call.
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
		klog.InfoS("The identity provider's certificate is not verified (insecureSkipVerify): whoever is on the way to it can log in as anybody",
			"provider", o.Name)
	}
	tr := egress.NewTransport(egress.Options{AllowLoopback: o.AllowLoopback, SkipVerify: s.InsecureSkipVerify, HeaderTimeout: timeout})
	tr.TLSClientConfig.RootCAs = roots
	// A code can't be sent again when a connection turns out to be dead, and nobody tells a provider when it is replaced: so no connection
	// outlives its request. Logins are rare, and sessions of TLS are resumed.
	tr.DisableKeepAlives = true
	tr.ForceAttemptHTTP2 = false
	tr.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	return &Client{timeout: timeout, http: &http.Client{
		Transport: tr,
		// The address is configured. Where else a server points, no secret goes.
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

// Bound ends a question after the time that it may take.
func (c *Client) Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// Timeout is how long a question may take.
func (c *Client) Timeout() time.Duration { return c.timeout }

// Answer is what a server says.
type Answer struct {
	// Status is the HTTP status, and Body what came with it. It is no redirect, and no failure of the server.
	Status int
	Body   []byte
	where  string
}

// Get asks by GET, with an access token where token is not "".
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

// do sends a request. Its errors are idp.ErrUnavailable.
func (c *Client) do(req *http.Request) (*Answer, error) {
	where := req.Method + " " + req.URL.Scheme + "://" + req.URL.Host + req.URL.EscapedPath() // without the query, which may hold a ticket
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

// cause says why a request failed, in words that can't hold what the server sent.
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

// Checked makes the error of a Check: one of the settings is no outage.
func Checked(err error) error {
	if errors.Is(err, ErrSettings) {
		return errors.New(strings.TrimPrefix(err.Error(), idp.ErrUnavailable.Error()+": ")) // the text alone
	}
	return err
}

// Unexpected is the error for a status that the question does not account for.
func (a *Answer) Unexpected() error {
	said := fmt.Sprintf("%s answers %d %s", a.where, a.Status, http.StatusText(a.Status))
	if a.Status >= 400 && a.Status != http.StatusRequestTimeout {
		return fmt.Errorf("%w: %w: %s", idp.ErrUnavailable, ErrSettings, said)
	}
	return fmt.Errorf("%w: %s", idp.ErrUnavailable, said)
}

// Unreadable is the error for an answer that is not what it should be.
func (a *Answer) Unreadable(want string) error {
	return fmt.Errorf("%w: %w: %s does not answer with %s", idp.ErrUnavailable, ErrSettings, a.where, want)
}

// JSON reads an answer of status 200 into a value. Numbers keep their digits where the value is an interface.
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
