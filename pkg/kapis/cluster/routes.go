// Package cluster serves the routes of cluster.kubesphere.io that are more than reading or writing an object: the labels of clusters, by
// key, several at once, and on which clusters they are.
package cluster

import (
	"context"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/caller"
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
	// AsCaller reads and writes each Label as the caller, by the caller's right to that Label.
	AsCaller caller.Client
	// Fleet is the hub; nil where this server is none.
	Fleet Fleet
	// Objects answers a write whose body is a Label, as every kind is written.
	Objects web.Handler
}

// WebService returns the routes. The routes of kinds are mounted next to them.
func (h *V1alpha1) WebService() *restful.WebService {
	gv := clusterv1alpha1.SchemeGroupVersion
	ws := new(restful.WebService).Path("/kapis/" + gv.String()).Produces(restful.MIME_JSON)
	ws.Route(ws.GET("/" + labels).To(web.Handle(h.labels)).Operation("listLabelGroups").
		Doc("The labels that people have for clusters: by key, the values in the order in which they were made. No list of objects, which" +
			" other routes have").
		Writes(map[string][]Value{}))
	ws.Route(ws.POST("/" + labels).To(web.Handle(h.create)).Operation("createLabels").
		Doc("Create labels for clusters from an array of keys and values, or one from an object of the kind, as the caller").
		Writes([]clusterv1alpha1.Label{}))
	ws.Route(ws.DELETE("/" + labels).To(web.Handle(h.delete)).Operation("deleteLabels").
		Doc("Delete the labels that an array names, or, without one, those that the selectors match, as the caller"))
	ws.Route(ws.PUT("/" + labels + "/{label}").To(web.Handle(h.update)).Operation("updateLabel").
		Doc("Change the key and the value of a label, or take it off clusters with action=unbind, or replace the object, as the caller").
		Param(ws.PathParameter("label", "name of the Label")).
		Param(ws.QueryParameter("action", "unbind takes the label off the clusters in the body")).
		Writes(clusterv1alpha1.Label{}))
	ws.Route(ws.POST("/" + labelBindings).To(web.Handle(h.bind)).Operation("bindingClusters").
		Doc("Put labels on clusters, as the caller"))
	h.agentRoutes(ws)
	return ws
}

// walk visits the cached objects of a kind, the oldest first.
func (h *V1alpha1) walk(ctx context.Context, plural string, visit func(*index.Record)) error {
	kind, err := h.Caches.Catalog().Resolve(ctx, clusterv1alpha1.SchemeGroupVersion.WithResource(plural))
	if err != nil {
		return err
	}
	snap, err := h.Caches.Snapshot(ctx, kind.GVR)
	if err != nil {
		return err
	}
	snap.ByCreated(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		visit(snap.Record(ref))
		return true
	})
	return nil
}
