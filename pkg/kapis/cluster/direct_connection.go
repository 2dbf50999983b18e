package cluster

import (
	"encoding/json"
	"io"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/cluster/direct"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// maxCluster bounds a body with a kubeconfig, in bytes.
const maxCluster = 512 << 10

// directRoutes adds the routes about members that this server dials.
func (h *V1alpha1) directRoutes(ws *restful.WebService) {
	ws.Route(ws.POST("/clusters/validation").To(web.Handle(h.validate)).Operation("validateCluster").
		Doc("Check whether the cluster that a kubeconfig leads to can join as a Cluster of type direct, by who may create it. It writes" +
			" nothing"))
	ws.Route(ws.PUT("/clusters/{cluster}/kubeconfig").To(web.Handle(web.RefuseDryRun(h.updateKubeconfig))).Operation("updateKubeConfig").
		Doc("Replace the kubeconfig of a Cluster of type direct, which has to lead to the same cluster, as the caller").
		Param(ws.PathParameter("cluster", "name of the Cluster")))
}

// noHub is the answer of a server that is the hub of no fleet.
func noHub(name string) error {
	return status.About(clustersResource.GroupResource(), name,
		status.Errorf(http.StatusNotFound, "no cluster joins this one: fleet.enabled is false in its configuration"))
}

// read reads the JSON of a body with a kubeconfig, which no error quotes.
func read(r *http.Request, into any) error {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxCluster+1))
	if err != nil {
		return err
	}
	if len(raw) > maxCluster {
		return apierrors.NewRequestEntityTooLargeError("a body with a kubeconfig may have 512 KiB")
	}
	if json.Unmarshal(raw, into) != nil {
		return status.BadRequestf("the body is no JSON of what is asked for")
	}
	return nil
}

// validate checks a kubeconfig.
func (h *V1alpha1) validate(r *restful.Request) (any, error) {
	c := &clusterv1alpha1.Cluster{}
	if err := read(r.Request, c); err != nil {
		return nil, err
	}
	if err := h.permit(r.Request, http.MethodPost, ""); err != nil { // it connects to an address of the caller's
		return nil, err
	}
	if h.Fleet == nil {
		return nil, noHub("validation")
	}
	if t := c.Spec.Connection.Type; t != clusterv1alpha1.ConnectionDirect {
		return nil, status.BadRequestf("the connection is of type %q: only a cluster of type direct has a kubeconfig to check", t)
	}
	_, findings, err := h.Fleet.Check(r.Request.Context(), c, c.Spec.Connection.KubeConfig)
	if err != nil {
		return nil, err
	}
	return struct{}{}, failed(findings)
}

// failed returns a 400 with a cause for each check that failed, nil for none.
func failed(findings []direct.Finding) error {
	if len(findings) == 0 {
		return nil
	}
	e := apierrors.NewBadRequest("the cluster can't join: " + direct.Summary(findings))
	e.ErrStatus.Details = &metav1.StatusDetails{Group: clusterv1alpha1.GroupName, Kind: "Cluster"}
	for _, f := range findings {
		e.ErrStatus.Details.Causes = append(e.ErrStatus.Details.Causes, metav1.StatusCause{Type: "Check", Field: f.Check, Message: f.Found})
	}
	return e
}

// updateKubeconfig replaces the kubeconfig of a direct cluster.
func (h *V1alpha1) updateKubeconfig(r *restful.Request) (any, error) {
	ctx, name := r.Request.Context(), r.PathParameter("cluster")
	var in struct {
		KubeConfig []byte `json:"kubeconfig"`
	}
	if err := read(r.Request, &in); err != nil {
		return nil, err
	}
	c, err := h.updatable(r.Request, name)
	if err != nil {
		return nil, err
	}
	_, host := c.Labels[clusterv1alpha1.LabelHostCluster]
	switch {
	case host:
		return nil, status.BadRequestf("the cluster %q is the one that this server runs in, which has no kubeconfig", name)
	case c.Spec.Connection.Type == clusterv1alpha1.ConnectionProxy:
		return nil, status.BadRequestf("the cluster %q is of type proxy: it dials this server, which needs no kubeconfig", name)
	}
	uid, findings, err := h.Fleet.Check(ctx, c, in.KubeConfig)
	if err != nil {
		return nil, err
	}
	if len(findings) == 0 && c.Status.UID != "" && string(c.Status.UID) != uid {
		findings = append(findings, direct.Finding{Check: "identity", Found: "the kubeconfig leads to another cluster, whose kube-system has" +
			" the UID " + uid + ": that of this Cluster is " + string(c.Status.UID)})
	}
	if err := failed(findings); err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": c.UID},
		"spec": map[string]any{"connection": map[string]any{"kubeconfig": in.KubeConfig}}})
	if err != nil {
		return nil, err
	}
	_, err = h.AsCaller.Do(ctx, caller.Order{Method: http.MethodPatch, Path: clustersPath + "/" + name,
		Type: "application/merge-patch+json", Body: body})
	return struct{}{}, err
}
