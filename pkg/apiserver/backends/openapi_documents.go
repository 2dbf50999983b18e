package backends

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/apiserver/openapi"
	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/proxy/backend"
)

// reader is who asks backends for their documents: a server that is built with k8s.io/apiserver tells them to nobody who has no name. No
// user has this one. It comes without a token, so only what believes the client certificate believes it.
const reader = "system:ks-apiserver"

// Documents returns what lists the groups and versions of extensions, with the way to the OpenAPI documents of their backends. They are
// asked by the connections and the breakers of requests.
func Documents(h *backend.Handler) func() []openapi.Extension {
	return func() (all []openapi.Extension) {
		for gv, b := range h.Index.Services() {
			if b.Fault == "" {
				all = append(all, openapi.Extension{GroupVersion: gv, Root: b.Root, Backend: described{b.Upstream, b.Root}, Get: get(gv, b)})
			}
		}
		return all
	}
}

// described is what a document is of.
type described struct {
	*extension.Upstream
	root string
}

// get returns the function that reads the document of one backend.
func get(gv schema.GroupVersion, b *extension.Backend) func(context.Context, string) ([]byte, string, error) {
	return func(ctx context.Context, etag string) ([]byte, string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.Address.Scheme+"://"+b.Address.Host+"/openapi/v2", nil)
		if err != nil {
			return nil, "", fmt.Errorf("ask the backend of %s: %w", gv, err)
		}
		r.Header.Set("Accept", "application/json")
		r.Header.Set("X-Remote-User", reader)
		r.Header.Set("X-Remote-Group", user.AllAuthenticated)
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
