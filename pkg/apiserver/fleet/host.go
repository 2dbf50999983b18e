package fleet

import (
	"context"
	"encoding/json"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/apiserver/fleetlist"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// Lists returns what makes a handler of lists over all clusters. May decides who may enter a cluster.
func (h *Hub) Lists(may authz.Authorizer, streams *stream.Guard) func(ask http.Handler) http.Handler {
	return func(ask http.Handler) http.Handler {
		return fleetlist.New(fleetlist.Options{Members: h.Members, Host: h.host, HostLabels: h.hostLabels, May: may, Streams: streams,
			Asked: h.Asked}, ask)
	}
}

// hostLabels returns the labels of this cluster's own object.
func (h *Hub) hostLabels(ctx context.Context) map[string]string {
	snap, err := h.caches.Snapshot(ctx, ClustersKind)
	if err != nil {
		return nil
	}
	r, found := snap.Get("", h.host)
	if !found {
		return nil
	}
	var o metav1.PartialObjectMetadata
	if json.Unmarshal([]byte(r.JSON.String()), &o) != nil {
		return nil
	}
	return o.Labels
}
