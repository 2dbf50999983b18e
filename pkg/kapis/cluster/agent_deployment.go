package cluster

import (
	"context"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// towerGroup is the group under which older pages ask for the deployment.
const towerGroup = "tower.kubesphere.io"

// Fleet is what a hub knows of its members.
type Fleet interface {
	// Deployment returns what is applied to a cluster so that it joins as c.
	Deployment(ctx context.Context, c *clusterv1alpha1.Cluster) ([]byte, error)
	// Check returns each check that a kubeconfig fails for a Cluster, and the identity of the cluster that it leads to.
	Check(ctx context.Context, c *clusterv1alpha1.Cluster, kubeconfig []byte) (uid string, findings []direct.Finding, err error)
	// Pending returns what a member still has to get or to lose, and whether it was told everything since it was linked.
	Pending(name string) (synced bool, pending []cluster.Pending)
}

// agentRoutes adds the routes about members.
func (h *V1alpha1) agentRoutes(ws *restful.WebService) {
	ws.Route(ws.GET("/clusters/{cluster}/agent/deployment").To(web.Handle(func(r *restful.Request) (any, error) {
		return h.deployment(r, r.PathParameter("cluster"))
	})).Operation("getAgentDeployment").Produces("application/yaml", restful.MIME_JSON).
		Doc("What is applied to a cluster so that it joins the fleet as this Cluster, in YAML, by who may update it. It has a token in" +
			" it, which lets one cluster in, once").
		Param(ws.PathParameter("cluster", "name of the Cluster")))
	h.directRoutes(ws)
	h.grantRoutes(ws)
	ws.Route(ws.GET("/clusters/{cluster}/sync").To(web.Handle(h.sync)).Operation("getClusterSync").
		Doc("What a member still has to get, or to lose, of what the fleet keeps there, and why; as far as this replica knows").
		Param(ws.PathParameter("cluster", "name of the Cluster")).
		Writes(Sync{}))
}

// Tower returns the route of the deployment at which older pages ask for it.
func (h *V1alpha1) Tower() *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/"+towerGroup+"/v1alpha1").Produces("application/yaml", restful.MIME_JSON)
	ws.Route(ws.GET("/deployment").To(web.Handle(func(r *restful.Request) (any, error) {
		return h.deployment(r, r.QueryParameter("cluster"))
	})).Operation("getDeployment").
		Doc("What is applied to a cluster so that it joins the fleet, as at clusters/{cluster}/agent/deployment").
		Param(ws.QueryParameter("cluster", "name of the Cluster")))
	return ws
}

// deployment answers with the deployment of a member.
func (h *V1alpha1) deployment(r *restful.Request, name string) (any, error) {
	ctx := r.Request.Context()
	if name == "" {
		return nil, status.BadRequestf("the request names no cluster")
	}
	c, err := h.updatable(r.Request, name) // who sees it can let a cluster in as this one
	if err != nil {
		return nil, err
	}
	if c.Spec.Connection.Type != clusterv1alpha1.ConnectionProxy && c.Annotations[clusterv1alpha1.AnnotationLite] != "true" {
		return nil, status.About(clustersResource.GroupResource(), name, status.Errorf(http.StatusNotFound,
			"the cluster %q is not joined by a deployment: its connection is of type %q, and not proxy", name, c.Spec.Connection.Type))
	}
	text, err := h.Fleet.Deployment(ctx, c)
	if err != nil {
		return nil, err
	}
	return deploymentText(text), nil
}

// deploymentText is a web.Responder: YAML that nobody keeps.
type deploymentText []byte

// Respond implements web.Responder.
func (t deploymentText) Respond(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/yaml; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(t)
	}
}
