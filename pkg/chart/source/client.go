// Package source reads indexes and charts where they are: in chart repositories by http or https, in container registries, and in
// ConfigMaps.
//
// Users give the addresses, so they are reached by package egress only. Credentials go to the origin of the repository's URL and to no
// other, wherever a chart is and wherever a redirect leads; those for a registry go to the token server of its site, too. Nothing of an
// answer, of a URL's query or of a credential is in an error.
package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/egress"
)

const (
	// headerTimeout is how long the header of an answer may take.
	headerTimeout = 30 * time.Second
	maxRedirects  = 5
	// maxValidator bounds a validator (ETag, Last-Modified) that a server sends, in bytes.
	maxValidator = 1024
)

// The reasons of failures, as conditions have them.
const (
	ReasonInvalid      = "Invalid"
	ReasonUnsupported  = "Unsupported"
	ReasonRefused      = "AddressRefused"
	ReasonUnauthorized = "Unauthorized"
	ReasonNotFound     = "NotFound"
	ReasonUnreachable  = "Unreachable"
	ReasonTooLarge     = "TooLarge"
	ReasonDigest       = "DigestMismatch"
)

// Failure is why something can't be read, in words for the users of conditions.
type Failure struct {
	Reason, Message string
	// Cause is for the log.
	Cause error
}

// Error implements error.
func (f *Failure) Error() string { return f.Message }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

func failure(reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Validators are what a server sent for conditional requests (RFC 9110, 8.8).
type Validators struct{ ETag, LastModified string }

// whatIndex names an index in failures.
const whatIndex = "the index of the repository"

// Client reads indexes and charts. It is safe for concurrent use.
type Client struct{ egress egress.Options }

// New returns a client that connects to what options allow.
func New(options egress.Options) *Client {
	options.HeaderTimeout = headerTimeout
	return &Client{options}
}

// Index reads the index of a repository. It is nil where the repository says that it has not changed since it gave the validators.
func (c *Client) Index(ctx context.Context, a *Access, since Validators) (raw []byte, now Validators, err error) {
	at := a.base.JoinPath("index.yaml")
	return c.get(ctx, a, at, since, chart.MaxIndex, whatIndex)
}

// Chart reads a chart, whose SHA-256 is digest where that is known.
func (c *Client) Chart(ctx context.Context, a *Access, at, digest string) ([]byte, error) {
	u, err := parse("spec.chartURL", at)
	if err != nil {
		return nil, err
	}
	if u.Scheme == schemeOCI {
		return c.registryChart(ctx, a, u, digest)
	}
	raw, _, err := c.get(ctx, a, u, Validators{}, chart.MaxArchive, "the chart")
	if err != nil {
		return nil, err
	}
	if !IsOf(raw, digest) {
		return nil, failure(ReasonDigest, "the chart is another one than its digest says")
	}
	return raw, nil
}

// IsOf reports whether a chart has the digest; the empty digest fits every chart.
func IsOf(raw []byte, digest string) bool {
	return digest == "" || strings.EqualFold(strings.TrimPrefix(digest, "sha256:"), chart.Digest(raw))
}

func (c *Client) get(ctx context.Context, a *Access, at *url.URL, since Validators, most int64, what string) ([]byte, Validators, error) {
	var none Validators
	resp, err := c.ask(ctx, a, at, since, what)
	if err != nil {
		return nil, none, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified {
		return nil, since, nil
	}
	tooLarge := failure(ReasonTooLarge, "%s has more than %d MiB", what, most>>20)
	if resp.ContentLength > most {
		return nil, none, tooLarge
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, none, unreachable(ctx, a, what, at, err)
	}
	if int64(len(raw)) > most {
		return nil, none, tooLarge
	}
	now := Validators{resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")}
	if len(now.ETag) > maxValidator || len(now.LastModified) > maxValidator {
		now = none
	}
	return raw, now, nil
}

// head returns the first bytes of the content at an address, and whether that is all of it.
func (c *Client) head(ctx context.Context, a *Access, at *url.URL, most int64, what string) (raw []byte, whole bool, err error) {
	resp, err := c.ask(ctx, a, at, Validators{}, what)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, false, unreachable(ctx, a, what, at, err)
	}
	return raw, int64(len(raw)) <= most, nil
}

// ask returns an answer with a body, or a 304 where nothing has changed since the validators were sent.
func (c *Client) ask(ctx context.Context, a *Access, at *url.URL, since Validators, what string) (*http.Response, error) {
	o := c.egress
	o.RootCAs, o.SkipVerify = a.authorities, a.insecure
	transport := &authorized{access: a, others: egress.NewTransport(o)}
	client := &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, failure(ReasonInvalid, "the URL of %s can't be asked for", what)
	}
	req.Header.Set("User-Agent", "ks-apiserver")
	if since.ETag != "" {
		req.Header.Set("If-None-Match", since.ETag)
	}
	if since.LastModified != "" {
		req.Header.Set("If-Modified-Since", since.LastModified)
	}
	resp, err := client.Do(req)
	if err != nil {
		transport.close()
		return nil, unreachable(ctx, a, what, at, err)
	}
	resp.Body = body{resp.Body, transport}
	var failed *Failure
	switch {
	case resp.StatusCode == http.StatusNotModified && since != Validators{}:
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		failed = failure(ReasonUnauthorized, "%s answers %d for %s: check %s", at.Host, resp.StatusCode, what, a.words().credential)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
		failed = failure(ReasonNotFound, "%s answers %d for %s", at.Host, resp.StatusCode, what)
	case resp.StatusCode != http.StatusOK:
		failed = failure(ReasonUnreachable, "%s answers %d for %s", at.Host, resp.StatusCode, what)
	}
	if failed != nil {
		_ = resp.Body.Close()
		return nil, failed
	}
	return resp, nil
}

// body is the body of an answer. Closing it closes the connections to the server.
type body struct {
	io.ReadCloser
	of *authorized
}

// Close implements io.Closer.
func (b body) Close() error {
	err := b.ReadCloser.Close()
	b.of.close()
	return err
}

var (
	errRedirects = errors.New("too many redirects")
	errDowngrade = errors.New("a redirect leads from https to http")
)

func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errRedirects
	case via[len(via)-1].URL.Scheme == "https" && r.URL.Scheme != "https":
		return errDowngrade
	}
	return nil
}

// authorized sends the credentials of a repository to its origin.
type authorized struct {
	access *Access
	// others is the transport to any origin, and own the one to that of the repository, where that differs by a certificate.
	others, own *http.Transport
}

// RoundTrip implements http.RoundTripper. A client calls it for one request after the other.
func (t *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Header.Del("Authorization") // http.Client copies it to redirects
	out.Header.Del("Referer")
	a := t.access
	if !a.isFor(out.URL) {
		return t.others.RoundTrip(out)
	}
	if a.username != "" || a.password != "" {
		out.SetBasicAuth(a.username, a.password)
	}
	if a.certificate == nil {
		return t.others.RoundTrip(out)
	}
	if t.own == nil {
		t.own = t.others.Clone()
		t.own.TLSClientConfig.Certificates = []tls.Certificate{*a.certificate}
	}
	return t.own.RoundTrip(out)
}

func (t *authorized) close() {
	t.others.CloseIdleConnections()
	if t.own != nil {
		t.own.CloseIdleConnections()
	}
}

// unreachable returns the failure for an answer that did not arrive completely. Network errors contain addresses and URLs, which only the
// log gets.
func unreachable(ctx context.Context, a *Access, what string, at *url.URL, err error) *Failure {
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var f *Failure
	switch {
	case errors.Is(err, egress.ErrRefused):
		f = failure(ReasonRefused, "%s: %v", at.Host, egress.ErrRefused)
	case errors.Is(err, errDowngrade), errors.Is(err, errRedirects):
		f = failure(ReasonRefused, "%s: a redirect of %s is not followed: too many of them, or from https to http", at.Host, what)
	case errors.As(err, &unknown), errors.As(err, &hostname), errors.As(err, &invalid):
		f = failure(ReasonUnreachable, "the certificate of %s is not valid, or of an authority that is not known: check %s", at.Host,
			a.words().authorities)
	case ctx.Err() != nil:
		f = failure(ReasonUnreachable, "%s has not sent %s in time", at.Host, what)
	case errors.Is(err, io.ErrUnexpectedEOF):
		f = failure(ReasonUnreachable, "%s has sent only a part of %s", at.Host, what)
	default:
		f = failure(ReasonUnreachable, "%s can't be reached for %s: the log says why", at.Host, what)
	}
	f.Cause = err
	if with := (*url.Error)(nil); errors.As(err, &with) {
		f.Cause = with.Err // without the URL, whose query may be a credential
	}
	return f
}
