// Package legacybinding serves the bindings and groups of iam.kubesphere.io/v1alpha2 as clients of release 3.4 write and read them: several
// bindings in one request, arrays in place of lists, and groups whose name is unique in the workspace. Each write is one of today's
// handler, which makes the checks.
package legacybinding

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Handler translates requests for bindings and groups.
type Handler struct {
	Users  *iam.UserIndex
	Caches binding.Caches
}

// await waits until the cache of the requested kind has what an answer to a write says, so that the next request sees it. A cache that
// lags does not fail the write.
func (h *Handler) await(ctx context.Context, answer string) {
	if v := rawjson.GetText(answer, "metadata", "resourceVersion"); v != "" {
		_, _ = h.Caches.SnapshotAt(ctx, wire.Resource(request.InfoFrom(ctx).Resource), v)
	}
}

// Array returns a handler that answers a list as a bare array. Streams are those of today.
func Array(today web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		if request.InfoFrom(r.Request.Context()).Verb != "list" || slices.Contains(r.Request.URL.Query()["view"], "live") {
			return today(r)
		}
		in := r.Request.WithContext(r.Request.Context())
		in.Header = in.Header.Clone()
		in.Header.Set("Accept", restful.MIME_JSON)
		for _, name := range []string{"Accept-Encoding", "If-None-Match"} {
			in.Header.Del(name)
		}
		c, err := capture(web.WithRequest(r, in), today)
		if err != nil {
			return nil, err
		}
		items := rawjson.Get(string(c.body), "items")
		if items == "" {
			return nil, status.Errorf(http.StatusRequestEntityTooLarge, "there are more than an array can have: ask for pages by limit and page")
		}
		return wire.Private{Value: json.RawMessage(items)}, nil
	}
}
