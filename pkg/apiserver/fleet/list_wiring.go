package fleet

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/apiserver/fleetlist"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// Lists returns a constructor of the handler of lists over all clusters. May decides who may enter a cluster, and read reads from members.
func (h *Hub) Lists(may authz.Authorizer, streams *stream.Guard, read fleetlist.Reader) func(ask http.Handler) http.Handler {
	return func(ask http.Handler) http.Handler {
		return fleetlist.New(fleetlist.Options{Members: h.Members, Host: h.host, HostLabels: h.hostLabels, May: may, Streams: streams,
			Known: h.Known, Asked: h.Asked, Read: read, Unchanged: revalidate.NewHub(h.drain, time.Now)}, ask)
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
