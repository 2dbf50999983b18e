package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
)

var clustersResource = clusterv1alpha1.SchemeGroupVersion.WithResource("clusters")

// clustersPath is where Clusters are written.
const clustersPath = "/apis/cluster.kubesphere.io/v1alpha1/clusters"

// updatable returns a Cluster of a hub, which the caller has to have the right to update.
func (h *V1alpha1) updatable(in *http.Request, name string) (*clusterv1alpha1.Cluster, error) {
	if err := h.permit(in, http.MethodPut, "/"+name); err != nil {
		return nil, err
	}
	if h.Fleet == nil {
		return nil, noHub(name)
	}
	return h.existing(in.Context(), name)
}

// existing returns a Cluster, and a 404 where there is none.
func (h *V1alpha1) existing(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	c, err := h.cluster(ctx, name)
	if err == nil && c == nil {
		err = apierrors.NewNotFound(clustersResource.GroupResource(), name)
	}
	return c, err
}

// permit returns an error unless the caller may make a request for Clusters.
func (h *V1alpha1) permit(in *http.Request, method, path string) error {
	r, err := http.NewRequestWithContext(in.Context(), method, "/", http.NoBody)
	if err != nil {
		return err
	}
	r.URL = &url.URL{Path: clustersPath + path}
	_, err = authz.Permit(h.AsCaller.May, r)
	return err
}

// cluster returns a Cluster, nil where there is none.
func (h *V1alpha1) cluster(ctx context.Context, name string) (*clusterv1alpha1.Cluster, error) {
	snap, err := h.Caches.Snapshot(ctx, clustersResource)
	if err != nil {
		return nil, err
	}
	record, found := snap.Get("", name)
	if !found {
		return nil, nil
	}
	c := &clusterv1alpha1.Cluster{}
	return c, json.Unmarshal([]byte(record.JSON.String()), c)
}
