package resources

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"kapis.dev/ks-apiserver/pkg/component"
	"kapis.dev/ks-apiserver/pkg/overview"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/revision"
	"kapis.dev/ks-apiserver/pkg/store"

	restful "github.com/emicklei/go-restful/v3"
	appsv1 "k8s.io/api/apps/v1"
)

// Inventory tells what there is in a cluster or a namespace, and how it is: counts, quotas, components,
// former revisions. All of it is answered from the caches.
type Inventory struct {
	overview   overview.Service
	components component.Service
	revisions  revision.Service
}

// NewInventory makes an Inventory of the objects of s, whose statuses r knows.
func NewInventory(s *store.Store, r *resource.Service) *Inventory {
	return &Inventory{
		overview:   overview.Service{Store: s, ByStatus: byStatus(r), Now: time.Now},
		components: component.Service{Store: s},
		revisions:  revision.Service{Store: s},
	}
}

// byStatus counts with the filter that lists have.
func byStatus(s *resource.Service) overview.ByStatus {
	return func(ctx context.Context, plural, namespace, status string) (int, error) {
		kind, err := s.Catalog().ByName(ctx, plural)
		if err != nil {
			return 0, err
		}
		q, err := query.Parse(url.Values{"status": {status}, "limit": {"0"}})
		if err != nil {
			return 0, err
		}
		page, err := s.List(ctx, kind, plan.Scope{Namespace: namespace}, q)
		if err != nil {
			return 0, err
		}
		return page.Total, nil
	}
}

func namespaced(ws *restful.WebService, b *restful.RouteBuilder) *restful.RouteBuilder {
	return b.Param(ws.PathParameter("namespace", "name of the namespace"))
}

// mountV1alpha3 adds what v1alpha3 has of it.
func (i *Inventory) mountV1alpha3(ws *restful.WebService) {
	if i != nil {
		i.mountOverview(ws)
		i.mountComponents(ws, "V1alpha3")
	}
}

// mountOverview adds the counts of v1alpha3.
func (i *Inventory) mountOverview(ws *restful.WebService) {
	metrics := what{verb: "list", resource: "metrics"}
	ws.Route(ws.GET("/metrics").To(only(metrics, i.clusterMetrics)).
		Operation("getClusterOverview").Doc("Numbers of objects in the cluster").Writes(overview.Metrics{}))
	ws.Route(namespaced(ws, ws.GET("/namespaces/{namespace}/metrics")).To(only(metrics, i.namespaceMetrics)).
		Operation("getNamespaceOverview").Doc("Numbers of objects in a namespace").Writes(overview.Metrics{}))
}

// mountComponents adds the components, which are the same in both versions.
func (i *Inventory) mountComponents(ws *restful.WebService, id string) {
	ws.Route(ws.GET("/components").To(only(what{verb: "list", resource: "components"}, i.listComponents)).
		Operation("listComponents" + id).Doc("How the components of the platform are").Writes([]component.Status{}))
	ws.Route(ws.GET("/components/{component}").To(only(what{verb: "get", resource: "components", nameParam: "component"}, i.component)).
		Operation("getComponent"+id).Doc("How a component of the platform is").Returns(http.StatusOK, "OK", component.Status{}).
		Param(ws.PathParameter("component", "name of the component's Service")).
		Returns(http.StatusNotFound, "there is no such component", nil))
	ws.Route(ws.GET("/componenthealth").To(only(what{verb: "list", resource: "componenthealth"}, i.health)).
		Operation("getSystemHealth" + id).Doc("How the components and the nodes are").Writes(component.Health{}))
}

// mountQuotas adds the quotas and the counts of what is not as it should be, of v1alpha2.
func (i *Inventory) mountQuotas(ws *restful.WebService) {
	quotas := what{verb: "list", resource: "quotas"}
	ws.Route(ws.GET("/quotas").To(only(quotas, i.clusterQuotas)).
		Operation("getClusterQuotas").Doc("What is used in the cluster").Writes(overview.Quota{}))
	ws.Route(namespaced(ws, ws.GET("/namespaces/{namespace}/quotas")).To(only(quotas, i.namespaceQuotas)).
		Operation("getNamespaceQuotas").Doc("What is used in a namespace, of what may be used").Writes(overview.Quota{}))
	abnormal := what{verb: "list", resource: "abnormalworkloads"}
	for _, at := range []struct{ path, id string }{{"", "Cluster"}, {"/namespaces/{namespace}", "Namespace"}} {
		b := ws.GET(at.path + "/abnormalworkloads").To(only(abnormal, i.abnormal))
		if at.path != "" {
			b = namespaced(ws, b)
		}
		ws.Route(b.Operation("get" + at.id + "AbnormalWorkloads").Writes(overview.Abnormal{}).
			Doc("Numbers of workloads that are not as they should be"))
	}
}

// mountRevisions adds the former revisions of workloads, of v1alpha2.
func (i *Inventory) mountRevisions(ws *restful.WebService) {
	for _, w := range []struct {
		plural, name, id, doc string
		find                  func(ctx context.Context, namespace, name, revision string) (json.RawMessage, error)
		sample                any
	}{
		{"daemonsets", "daemonset", "DaemonSet", "A DaemonSet as it was", i.revisions.DaemonSet, appsv1.DaemonSet{}},
		{"deployments", "deployment", "Deployment", "The ReplicaSet of a former revision", i.revisions.Deployment, appsv1.ReplicaSet{}},
		{"statefulsets", "statefulset", "StatefulSet", "A StatefulSet as it was", i.revisions.StatefulSet, appsv1.StatefulSet{}},
	} {
		ws.Route(namespaced(ws, ws.GET("/namespaces/{namespace}/"+w.plural+"/{"+w.name+"}/revisions/{revision}")).
			To(only(what{verb: "get", resource: w.plural, nameParam: w.name, subresource: "revisions"}, func(r *restful.Request) (any, error) {
				return w.find(r.Request.Context(), r.PathParameter("namespace"), r.PathParameter(w.name), r.PathParameter("revision"))
			})).
			Operation("get"+w.id+"Revision").Doc(w.doc).Returns(http.StatusOK, "OK", w.sample).
			Param(ws.PathParameter(w.name, "name of the workload")).
			Param(ws.PathParameter("revision", "number of the revision")).
			Returns(http.StatusNotFound, "there is no such workload or revision", nil))
	}
}

func (i *Inventory) clusterMetrics(r *restful.Request) (any, error) {
	return whole(i.overview.Cluster(r.Request.Context()))
}

func (i *Inventory) namespaceMetrics(r *restful.Request) (any, error) {
	return whole(i.overview.Namespace(r.Request.Context(), r.PathParameter("namespace")))
}

func (i *Inventory) clusterQuotas(r *restful.Request) (any, error) {
	return whole(i.overview.ClusterQuota(r.Request.Context()))
}

func (i *Inventory) namespaceQuotas(r *restful.Request) (any, error) {
	return whole(i.overview.NamespaceQuota(r.Request.Context(), r.PathParameter("namespace")))
}

func (i *Inventory) abnormal(r *restful.Request) (any, error) {
	return whole(i.overview.Abnormal(r.Request.Context(), r.PathParameter("namespace")))
}

func (i *Inventory) listComponents(r *restful.Request) (any, error) {
	return i.components.List(r.Request.Context())
}

func (i *Inventory) component(r *restful.Request) (any, error) {
	return i.components.Get(r.Request.Context(), r.PathParameter("component"))
}

func (i *Inventory) health(r *restful.Request) (any, error) {
	return i.components.Health(r.Request.Context())
}
