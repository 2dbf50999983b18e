// Package source reads indexes and charts where they are: in chart repositories by http or https, in container registries, and in
// ConfigMaps.
//
// Users give the addresses, so they are reached by package egress only. Credentials go to the origin of the repository's URL and to no
// other, wherever a chart is and wherever a redirect leads; those for a registry go to the token server of its site, too. Nothing of an
// answer, of a URL's query or of a credential is in an error.
package source

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
	"kapis.dev/ks-apiserver/pkg/egress"
)

const (
	// headerTimeout is how long the header of an answer may take.
	headerTimeout = 30 * time.Second
	maxRedirects  = 5
	// maxValidator bounds what a server gives to ask again by.
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

// Access is how a repository is reached.
type Access struct {
	// base is its URL, which ends in a slash.
	base               *url.URL
	username, password string
	authorities        *x509.CertPool
	insecure           bool
}

// AccessOf returns how a Repository is reached.
func AccessOf(r *v1alpha1.Repository) (*Access, error) {
	base, err := parse("spec.url", r.Spec.URL)
	if err != nil {
		return nil, err
	}
	if base.RawQuery != "" {
		return nil, failure(ReasonInvalid, "spec.url: a query is not taken")
	}
	if base.Scheme == schemeOCI {
		if at := strings.Trim(base.Path, "/"); at != "" {
			if err := checkRepository("spec.url", at); err != nil {
				return nil, err
			}
		}
	}
	base = base.JoinPath("/")
	out := &Access{base: base, insecure: r.Spec.Insecure}
	if a := r.Spec.BasicAuth; a != nil {
		out.username, out.password = a.Username, a.Password
	}
	if bundle := strings.TrimSpace(r.Spec.CABundle); bundle != "" {
		out.authorities = x509.NewCertPool()
		raw := []byte(bundle)
		if decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(bundle), "")); err == nil {
			raw = decoded
		}
		if !out.authorities.AppendCertsFromPEM(raw) {
			return nil, failure(ReasonInvalid, "spec.caBundle: it has no certificate in PEM, neither as it is nor in base64")
		}
	}
	return out, nil
}

// parse reads a URL of a repository or of a chart.
func parse(field, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, failure(ReasonInvalid, "%s: it is no URL", field) // the error would quote it
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != schemeOCI || u.Hostname() == "" || u.Opaque != "":
		return nil, failure(ReasonInvalid, "%s: it is no http, https or oci URL", field)
	case u.User != nil:
		return nil, failure(ReasonInvalid, "%s: a user and a password are not taken here, but in spec.basicAuth", field)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// Resolve returns the URL of a chart, which an index may give relative to the repository.
func (a *Access) Resolve(ref string) (string, error) {
	to, err := url.Parse(ref)
	if err != nil || ref == "" {
		return "", failure(ReasonInvalid, "urls[0]: it is no URL")
	}
	u, err := parse("urls[0]", a.base.ResolveReference(to).String())
	if err != nil {
		return "", err
	}
	switch {
	case u.Scheme == schemeOCI:
		if _, err := parseReference("urls[0]", u); err != nil {
			return "", err
		}
	case a.base.Scheme == "https" && u.Scheme != "https":
		return "", failure(ReasonInvalid, "urls[0]: it leads from https to http")
	}
	return u.String(), nil
}

// Validators are what a server gave to ask again whether something has changed.
type Validators struct{ ETag, LastModified string }

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
	return c.get(ctx, a, at, since, chart.MaxIndex, "the index of the repository")
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

// IsOf reports whether a chart has a digest; each has the empty one.
func IsOf(raw []byte, digest string) bool {
	return digest == "" || strings.EqualFold(strings.TrimPrefix(digest, "sha256:"), chart.Digest(raw))
}

func (c *Client) get(ctx context.Context, a *Access, at *url.URL, since Validators, most int64, what string) ([]byte, Validators, error) {
	var none Validators
	o := c.egress
	o.RootCAs, o.SkipVerify = a.authorities, a.insecure
	transport := egress.NewTransport(o)
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: &authorized{transport, a}, CheckRedirect: checkRedirect}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
	if err != nil {
		return nil, none, failure(ReasonInvalid, "the URL of %s can't be asked for", what)
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
		return nil, none, unreachable(ctx, what, at, err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && since != none:
		return nil, since, nil
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return nil, none, failure(ReasonUnauthorized, "%s answers %d for %s: check spec.basicAuth", at.Host, resp.StatusCode, what)
	case resp.StatusCode == http.StatusNotFound, resp.StatusCode == http.StatusGone:
		return nil, none, failure(ReasonNotFound, "%s answers %d for %s", at.Host, resp.StatusCode, what)
	case resp.StatusCode != http.StatusOK:
		return nil, none, failure(ReasonUnreachable, "%s answers %d for %s", at.Host, resp.StatusCode, what)
	}
	tooLarge := failure(ReasonTooLarge, "%s has more than %d MiB", what, most>>20)
	if resp.ContentLength > most {
		return nil, none, tooLarge
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, none, unreachable(ctx, what, at, err)
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
	base   http.RoundTripper
	access *Access
}

// RoundTrip implements http.RoundTripper.
func (t *authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Header.Del("Authorization") // what a client took along on a redirect
	out.Header.Del("Referer")
	if a := t.access; a.sendsTo(out.URL) {
		out.SetBasicAuth(a.username, a.password)
	}
	return t.base.RoundTrip(out)
}

// sendsTo reports whether the credentials are for the origin of a URL.
func (a *Access) sendsTo(u *url.URL) bool {
	return (a.username != "" || a.password != "") && a.base.Scheme == u.Scheme && hostport(a.base) == hostport(u)
}

// hostport returns the host and the port of a URL.
func hostport(u *url.URL) [2]string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https", u.Scheme == schemeOCI:
		port = "443"
	default:
		port = "80"
	}
	return [2]string{strings.ToLower(u.Hostname()), port}
}

// unreachable says why there is no whole answer. Errors of the network have addresses and URLs in them, which are for the log.
func unreachable(ctx context.Context, what string, at *url.URL, err error) *Failure {
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
		f = failure(ReasonUnreachable, "the certificate of %s is not valid, or of an authority that is not known: check spec.caBundle", at.Host)
	case ctx.Err() != nil:
		f = failure(ReasonUnreachable, "%s has not sent %s in time", at.Host, what)
	case errors.Is(err, io.ErrUnexpectedEOF):
		f = failure(ReasonUnreachable, "%s has sent only a part of %s", at.Host, what)
	default:
		f = failure(ReasonUnreachable, "%s can't be reached for %s: the log says why", at.Host, what)
	}
	f.Cause = err
	if with := (*url.Error)(nil); errors.As(err, &with) {
		f.Cause = with.Err // without the URL, whose query may let anybody in
	}
	return f
}
