package cluster

import (
	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/cluster"
)

// Sync is what a member still has to get or to lose.
type Sync struct {
	// Synced is true where everything was compared since the cluster was linked.
	Synced  bool              `json:"synced"`
	Pending []cluster.Pending `json:"pending"`
}

// sync answers with what is pending at a member.
func (h *V1alpha1) sync(r *restful.Request) (any, error) {
	name := r.PathParameter("cluster")
	c, err := h.cluster(r.Request.Context(), name)
	if err != nil {
		return nil, err
	}
	if c == nil || h.Fleet == nil {
		return nil, apierrors.NewNotFound(clustersResource.GroupResource(), name)
	}
	synced, pending := h.Fleet.Pending(name)
	if pending == nil {
		pending = []cluster.Pending{}
	}
	return Sync{Synced: synced, Pending: pending}, nil
}
