package resources

import (
	restful "github.com/emicklei/go-restful/v3"
)

// RootV1alpha2 is the path of the group in version v1alpha2.
const RootV1alpha2 = "/kapis/resources.kubesphere.io/v1alpha2"

// V1alpha2 serves resources.kubesphere.io/v1alpha2, an older version for which clients still ask.
type V1alpha2 struct {
	Inventory *Inventory
	Remotes   *Remotes
	// Kubeconfigs gives people their kubeconfig; nil for none.
	Kubeconfigs *Kubeconfigs
}

// WebService returns the routes of the version.
func (h *V1alpha2) WebService() *restful.WebService {
	ws := new(restful.WebService)
	ws.Path(RootV1alpha2).Produces(restful.MIME_JSON).Doc("Components, quotas, revisions, registries and Git servers")
	h.Inventory.mountComponents(ws, "V1alpha2")
	h.Inventory.mountQuotas(ws)
	h.Inventory.mountRevisions(ws)
	h.Remotes.mountV1alpha2(ws)
	h.Kubeconfigs.mount(ws)
	return ws
}
