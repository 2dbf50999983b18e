package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"kapis.dev/ks-apiserver/pkg/egress"
)

// Bounds of one operation.
const (
	// maxRequests is how many requests one operation may make, redirects included: a login, a list of many pages, or a manifest and what
	// it names.
	maxRequests = 32
	// maxBody bounds every answer, in bytes. The manifests that registries accept have up to 4 MiB.
	maxBody = 4 << 20
	// maxRedirects is how often one request may be redirected.
	maxRedirects = 5
)

// The errors of a guard.
var (
	errPlain    = errors.New("it answers without TLS")
	errRequests = errors.New("it asks for too many requests")
	errTooLong  = errors.New("its answer is too long")
	errElse     = errors.New("it asks for the credentials at another site")
)

// guard is the transport of one operation. It is below everything that logs in, follows redirects or retries, so that all of it keeps
// within the bounds.
type guard struct {
	base     http.RoundTripper
	host     string // of the registry
	insecure bool
	requests atomic.Int32
}

func (c *Client) guard(host string, insecure bool) *guard {
	g := &guard{base: c.verified, host: host, insecure: insecure}
	if insecure {
		g.base = c.unverified
	}
	return g
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme != "https" && !g.insecure:
		return nil, errPlain
	case g.requests.Add(1) > maxRequests:
		return nil, errRequests
	case r.Header.Get("Authorization") != "" && !egress.SameSite(g.host, r.URL.Host):
		return nil, errElse
	}
	resp, err := g.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.ContentLength > maxBody {
		_ = resp.Body.Close()
		return nil, errTooLong
	}
	resp.Body = &bounded{ReadCloser: resp.Body, left: maxBody}
	return resp, nil
}

// bounded is a body that ends in an error beyond a length.
type bounded struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

func limitRedirects(_ *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("after %d redirects: %w", maxRedirects, errRequests)
	}
	return nil
}
