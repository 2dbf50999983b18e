package legacybinding

import (
	"context"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

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
