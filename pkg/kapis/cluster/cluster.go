// Package cluster serves the routes of cluster.kubesphere.io that are more than reading or writing an object.
package cluster

import (
	"context"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// labels is the plural of the kind Label.
const labels = "labels"

// Caches returns the objects of kinds. store.Store is one.
type Caches interface {
	Catalog() *store.Catalog
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// V1alpha1 serves cluster.kubesphere.io/v1alpha1.
type V1alpha1 struct {
	Caches Caches
}

// Value is one of the values that are in use for a key, and the name of the Label with it.
type Value struct {
	Value string `json:"value"`
	ID    string `json:"id"`
}

// WebService returns the routes. The routes of kinds are mounted next to them.
func (h *V1alpha1) WebService() *restful.WebService {
	gv := clusterv1alpha1.SchemeGroupVersion
	ws := new(restful.WebService).Path("/kapis/" + gv.String()).Produces(restful.MIME_JSON)
	ws.Route(ws.GET("/" + labels).To(web.Handle(h.labels)).Operation("listLabelGroups").
		Doc("The labels that people have for clusters: by key, the values in the order in which they were made. No list of objects, which" +
			" other routes have").
		Writes(map[string][]Value{}))
	return ws
}

// labels answers all labels by key: pages read this form, and a list would break them. Labels are few, since people make them by hand.
func (h *V1alpha1) labels(r *restful.Request) (any, error) {
	ctx, gv := r.Request.Context(), clusterv1alpha1.SchemeGroupVersion
	kind, err := h.Caches.Catalog().Resolve(ctx, gv.WithResource(labels))
	if err != nil {
		return nil, err
	}
	snap, err := h.Caches.Snapshot(ctx, kind.GVR)
	if err != nil {
		return nil, err
	}
	out := map[string][]Value{}
	snap.ByCreated(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		l := snap.Record(ref)
		key := l.JSON.GetText("spec", "key")
		out[key] = append(out[key], Value{Value: l.JSON.GetText("spec", "value"), ID: l.Name})
		return true
	})
	return out, nil
}
