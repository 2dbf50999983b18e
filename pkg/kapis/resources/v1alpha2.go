package resources

import (
	"kapis.dev/ks-apiserver/pkg/kapis/resources/conditions"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
)

// RootV1alpha2 is the path of the group in version v1alpha2.
const RootV1alpha2 = "/kapis/resources.kubesphere.io/v1alpha2"

// V1alpha2 serves resources.kubesphere.io/v1alpha2, an older version that clients still use.
type V1alpha2 struct {
	// Lists lists the kinds, with the rights and bounds of the version that it serves; nil for no lists.
	Lists     *V1alpha3
	Inventory *inventory.Handler
	Remotes   *remote.Handler
	// Kubeconfigs serves kubeconfigs; nil for none.
	Kubeconfigs *kubeconfig.Handler
}

// WebService returns the routes of the version.
func (h *V1alpha2) WebService() *restful.WebService {
	ws := new(restful.WebService)
	ws.Path(RootV1alpha2).Produces(restful.MIME_JSON).
		Doc("Lists, components, quotas, revisions, registries and Git servers, as older clients ask for them")
	if h.Lists != nil {
		h.mountLists(ws)
	}
	h.Inventory.MountComponents(ws, "V1alpha2")
	h.Inventory.MountQuotas(ws)
	h.Inventory.MountRevisions(ws)
	h.Remotes.MountV1alpha2(ws)
	h.Kubeconfigs.Mount(ws)
	return ws
}

// mountLists adds the lists of kinds.
func (h *V1alpha2) mountLists(ws *restful.WebService) {
	for _, at := range [...]struct{ path, id string }{{"", ""}, {"/namespaces/{namespace}", "Namespaced"}} {
		list := ws.GET(at.path+"/{resources}").To(web.Handle(h.list)).Metadata(web.MetadataPartialList, true).
			Operation("listOlder" + at.id + "Resources").Doc("List the objects of a kind, by the parameters of older clients").
			Param(ws.PathParameter("resources", "plural name of the kind, such as pods"))
		for _, p := range conditions.Parameters() {
			list.Param(ws.QueryParameter(p.Name, p.Doc).DataType(p.Type))
		}
		if at.path != "" {
			list.Param(ws.PathParameter("namespace", "name of the namespace"))
		}
		ws.Route(list)
	}
}

// list answers with a page of what the present version lists, in the form {"total_count":N,"items":[...]}. The decision on the request is
// the same: a right to a kind at either version is one to read it.
func (h *V1alpha2) list(r *restful.Request) (any, error) {
	q, err := conditions.Parse(r.PathParameter("resources"), r.PathParameter("namespace"), r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	return h.Lists.answer(r, q, counted)
}

// counted is the form {"items":[...],"total_count":N}.
func counted(p *page.Page, _ string) *page.Answer { return p.Counted() }
