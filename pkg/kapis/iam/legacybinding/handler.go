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
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
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

// CreateGroup returns a handler that creates a group, unless the workspace has one of the same generateName: that is what older clients
// call a group.
func (h *Handler) CreateGroup(today web.Handler) web.Handler {
	return func(r *restful.Request) (any, error) {
		raw, err := web.ReadBody(r.Request, maxBindings)
		if err != nil {
			return nil, err
		}
		ctx, text := r.Request.Context(), string(raw)
		if name := rawjson.GetText(text, "metadata", "generateName"); name != "" && rawjson.GetText(text, "metadata", "name") == "" {
			taken, err := h.isTaken(ctx, r.PathParameter("workspace"), name)
			if err != nil {
				return nil, err
			}
			if taken {
				return nil, apierrors.NewAlreadyExists(wire.Resource("groups").GroupResource(), name)
			}
		}
		c, err := capture(with(r, text, false), today)
		if err != nil {
			return nil, err
		}
		if !r.Request.URL.Query().Has("dryRun") {
			h.await(ctx, string(c.body))
		}
		return c, nil
	}
}

// isTaken reports whether a group of a workspace has a generateName.
func (h *Handler) isTaken(ctx context.Context, workspace, name string) (bool, error) {
	snap, err := h.Caches.Snapshot(ctx, wire.Resource("groups"))
	if err != nil {
		return false, err
	}
	taken := false
	snap.ByCreated(index.HasLabel(plan.WorkspaceLabel, workspace)).Walk(0, false, func(ref *index.Ref) bool {
		taken = snap.Record(ref).JSON.GetText("metadata", "generateName") == name
		return !taken
	})
	return taken, nil
}
