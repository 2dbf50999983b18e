package openapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// maxDocument is far larger than the document of a cluster with thousands of custom resources.
const maxDocument = 128 << 20

// upstream reads kube-apiserver's documents.
type upstream struct {
	client *http.Client
	base   *url.URL
}

func newUpstream(cfg *rest.Config) (*upstream, error) {
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("read the address of kube-apiserver: %w", err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("prepare the way to kube-apiserver: %w", err)
	}
	own := *client
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &upstream{client: &own, base: base}, nil
}

// statusError is an answer other than the document.
type statusError struct {
	path string
	code int
}

func (e *statusError) Error() string {
	return fmt.Sprintf("read %s of kube-apiserver: it answered %d", e.path, e.code)
}

// get reads a document. It returns nil if the document still has the given ETag.
func (u *upstream) get(ctx context.Context, path, hash, accept, etag string) (*document, error) {
	to := *u.base
	to.Path = strings.TrimSuffix(to.Path, "/") + path
	if hash != "" {
		to.RawQuery = url.Values{"hash": {hash}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("read %s of kube-apiserver: %w", path, err)
	}
	req.Header.Set("Accept", accept)
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	res, err := u.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read %s of kube-apiserver: %w", path, err)
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusNotModified:
		return nil, nil
	default:
		return nil, &statusError{path, res.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s of kube-apiserver: %w", path, err)
	case len(body) > maxDocument:
		return nil, fmt.Errorf("read %s of kube-apiserver: it is larger than %d bytes", path, maxDocument)
	}
	d := &document{
		body:        body,
		contentType: res.Header.Get("Content-Type"),
		upstream:    res.Header.Get("Etag"),
	}
	d.modified, err = http.ParseTime(res.Header.Get("Last-Modified"))
	if err != nil {
		d.modified = time.Time{} // http.ServeContent then sends no Last-Modified
	}
	return d, nil
}
