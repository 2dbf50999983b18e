package resources

import (
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"

	restful "github.com/emicklei/go-restful/v3"
)

// RootV1alpha2 is the path of the group in version v1alpha2.
const RootV1alpha2 = "/kapis/resources.kubesphere.io/v1alpha2"

// V1alpha2 serves resources.kubesphere.io/v1alpha2, an older version that clients still use.
type V1alpha2 struct {
	Inventory *inventory.Handler
	Remotes   *remote.Handler
	// Kubeconfigs serves kubeconfigs; nil for none.
	Kubeconfigs *kubeconfig.Handler
}

// WebService returns the routes of the version.
func (h *V1alpha2) WebService() *restful.WebService {
	ws := new(restful.WebService)
	ws.Path(RootV1alpha2).Produces(restful.MIME_JSON).Doc("Components, quotas, revisions, registries and Git servers")
	h.Inventory.MountComponents(ws, "V1alpha2")
	h.Inventory.MountQuotas(ws)
	h.Inventory.MountRevisions(ws)
	h.Remotes.MountV1alpha2(ws)
	h.Kubeconfigs.Mount(ws)
	return ws
}
