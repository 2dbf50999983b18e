// Package inventory serves counts, quotas, components and former revisions of workloads out of the caches.
package inventory

import (
	"context"
	"encoding/json"
	"fmt"
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
	"kapis.dev/ks-apiserver/pkg/web"

	restful "github.com/emicklei/go-restful/v3"
	appsv1 "k8s.io/api/apps/v1"
)

// Handler answers what exists in a cluster or a namespace, and its state: counts, quotas, components, former revisions. All of it is
// answered from the caches.
type Handler struct {
	overview   overview.Service
	components component.Service
	revisions  revision.Service
}

// New returns a Handler for the objects of s, whose statuses r knows.
func New(s *store.Store, r *resource.Service) *Handler {
	return &Handler{
		overview:   overview.Service{Store: s, ByStatus: byStatus(r), Now: time.Now},
		components: component.Service{Store: s},
		revisions:  revision.Service{Store: s},
	}
}

// byStatus counts with the status filter of lists.
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

// MountV1alpha3 adds the routes of v1alpha3.
func (i *Handler) MountV1alpha3(ws *restful.WebService) {
	if i != nil {
		i.mountOverview(ws)
		i.MountComponents(ws, "V1alpha3")
	}
}

// mountOverview adds the counts of v1alpha3.
func (i *Handler) mountOverview(ws *restful.WebService) {
	ws.Route(ws.GET("/metrics").To(web.Handle(i.clusterMetrics)).
		Operation("getClusterOverview").Doc("Numbers of objects in the cluster").Writes(overview.Metrics{}))
	ws.Route(web.Namespaced(ws, ws.GET("/namespaces/{namespace}/metrics")).To(web.Handle(i.namespaceMetrics)).
		Operation("getNamespaceOverview").Doc("Numbers of objects in a namespace").Writes(overview.Metrics{}))
}

// MountComponents adds the components, which are the same in both versions.
func (i *Handler) MountComponents(ws *restful.WebService, id string) {
	ws.Route(ws.GET("/components").To(web.Handle(i.listComponents)).
		Operation("listComponents" + id).Doc("How the components of the platform are").Writes([]component.Status{}))
	ws.Route(ws.GET("/components/{component}").To(web.Handle(i.component)).
		Operation("getComponent"+id).Doc("How a component of the platform is").Returns(http.StatusOK, "OK", component.Status{}).
		Param(ws.PathParameter("component", "name of the component's Service")).
		Returns(http.StatusNotFound, "there is no such component", nil))
	ws.Route(ws.GET("/componenthealth").To(web.Handle(i.health)).
		Operation("getSystemHealth" + id).Doc("How the components and the nodes are").Writes(component.Health{}))
}

// MountQuotas adds the quotas and the counts of abnormal objects, of v1alpha2.
func (i *Handler) MountQuotas(ws *restful.WebService) {
	ws.Route(ws.GET("/quotas").To(web.Handle(i.clusterQuotas)).
		Operation("getClusterQuotas").Doc("What is used in the cluster").Writes(overview.Quota{}))
	ws.Route(web.Namespaced(ws, ws.GET("/namespaces/{namespace}/quotas")).To(web.Handle(i.namespaceQuotas)).
		Operation("getNamespaceQuotas").Doc("What is used in a namespace, of what may be used").Writes(overview.Quota{}))
	for _, at := range []struct{ path, id string }{{"", "Cluster"}, {"/namespaces/{namespace}", "Namespace"}} {
		b := ws.GET(at.path + "/abnormalworkloads").To(web.Handle(i.abnormal))
		if at.path != "" {
			b = web.Namespaced(ws, b)
		}
		ws.Route(b.Operation("get" + at.id + "AbnormalWorkloads").Writes(overview.Abnormal{}).
			Doc("Numbers of workloads that are not as they should be"))
	}
}

// MountRevisions adds the former revisions of workloads, of v1alpha2.
func (i *Handler) MountRevisions(ws *restful.WebService) {
	for _, w := range []struct {
		plural, name, id, doc string
		find                  func(ctx context.Context, namespace, name, revision string) (json.RawMessage, error)
		sample                any
	}{
		{"daemonsets", "daemonset", "DaemonSet", "A DaemonSet as it was", i.revisions.DaemonSet, appsv1.DaemonSet{}},
		{"deployments", "deployment", "Deployment", "The ReplicaSet of a former revision", i.revisions.Deployment, appsv1.ReplicaSet{}},
		{"statefulsets", "statefulset", "StatefulSet", "A StatefulSet as it was", i.revisions.StatefulSet, appsv1.StatefulSet{}},
	} {
		ws.Route(web.Namespaced(ws, ws.GET("/namespaces/{namespace}/"+w.plural+"/{"+w.name+"}/revisions/{revision}")).
			To(web.Handle(func(r *restful.Request) (any, error) {
				return w.find(r.Request.Context(), r.PathParameter("namespace"), r.PathParameter(w.name), r.PathParameter("revision"))
			})).
			Operation("get"+w.id+"Revision").Doc(w.doc).Returns(http.StatusOK, "OK", w.sample).
			Param(ws.PathParameter(w.name, "name of the workload")).
			Param(ws.PathParameter("revision", "number of the revision")).
			Returns(http.StatusNotFound, "there is no such workload or revision", nil))
	}
}

func (i *Handler) clusterMetrics(r *restful.Request) (any, error) {
	return whole(i.overview.Cluster(r.Request.Context()))
}

func (i *Handler) namespaceMetrics(r *restful.Request) (any, error) {
	return whole(i.overview.Namespace(r.Request.Context(), r.PathParameter("namespace")))
}

func (i *Handler) clusterQuotas(r *restful.Request) (any, error) {
	return whole(i.overview.ClusterQuota(r.Request.Context()))
}

func (i *Handler) namespaceQuotas(r *restful.Request) (any, error) {
	return whole(i.overview.NamespaceQuota(r.Request.Context(), r.PathParameter("namespace")))
}

func (i *Handler) abnormal(r *restful.Request) (any, error) {
	return whole(i.overview.Abnormal(r.Request.Context(), r.PathParameter("namespace")))
}

func (i *Handler) listComponents(r *restful.Request) (any, error) {
	return i.components.List(r.Request.Context())
}

func (i *Handler) component(r *restful.Request) (any, error) {
	return i.components.Get(r.Request.Context(), r.PathParameter("component"))
}

func (i *Handler) health(r *restful.Request) (any, error) {
	return i.components.Health(r.Request.Context())
}

// counts are counts that may lack some kinds.
type counts interface{ Lacks() []string }

// whole answers with counts.
func whole[C counts](c C, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return partial{c}, nil
}

// partial answers with counts, and warns in headers about what they lack, like kube-apiserver (RFC 7234, 5.5).
type partial struct{ counts }

// Respond implements web.Responder.
func (p partial) Respond(w http.ResponseWriter, r *http.Request) {
	for _, kind := range p.Lacks() {
		w.Header().Add("Warning", fmt.Sprintf(`299 - "%s are not counted: they are not known yet"`, kind))
	}
	web.WriteJSON(w, r, http.StatusOK, p.counts)
}
