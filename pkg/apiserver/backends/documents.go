package backends

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/apiserver/openapi"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/proxy/backend"
)

// Documents returns what lists the groups and versions of extensions, with the way to the OpenAPI documents of their backends. They are
// asked as nobody, and by the connections and the breakers of requests.
func Documents(h *backend.Handler) func() []openapi.Extension {
	return func() (all []openapi.Extension) {
		for gv, b := range h.Index.Services() {
			if b.Fault == "" {
				all = append(all, openapi.Extension{GroupVersion: gv, Backend: b.Upstream, Get: get(gv, b)})
			}
		}
		return all
	}
}

// get returns what reads the document of one backend.
func get(gv schema.GroupVersion, b *extension.Backend) func(context.Context, string) ([]byte, string, error) {
	return func(ctx context.Context, etag string) ([]byte, string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Address.Scheme+"://"+b.Address.Host+"/openapi/v2", nil)
		if err != nil {
			return nil, "", fmt.Errorf("ask the backend of %s: %w", gv, err)
		}
		r.Header.Set("Accept", "application/json")
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		leave, err := b.Upstream.Enter(extension.User{}, time.Now())
		if err != nil {
			return nil, "", fmt.Errorf("ask the backend of %s: %w", gv, err)
		}
		defer leave()
		response, err := b.Upstream.RoundTrip(r)
		if err != nil {
			return nil, "", fmt.Errorf("ask the backend of %s: %w", gv, err)
		}
		defer func() { _ = response.Body.Close() }()
		switch response.StatusCode {
		case http.StatusNotModified:
			return nil, etag, nil
		case http.StatusOK:
		default:
			return nil, "", fmt.Errorf("the backend of %s answers %d", gv, response.StatusCode)
		}
		body, err := io.ReadAll(io.LimitReader(response.Body, openapi.MaxExtension+1))
		switch {
		case err != nil:
			return nil, "", fmt.Errorf("read the document of the backend of %s: %w", gv, err)
		case len(body) > openapi.MaxExtension:
			return nil, "", fmt.Errorf("the document of the backend of %s has more than %d bytes", gv, openapi.MaxExtension)
		case len(body) == 0:
			return nil, "", fmt.Errorf("the document of the backend of %s is empty", gv)
		}
		return body, response.Header.Get("Etag"), nil
	}
}
