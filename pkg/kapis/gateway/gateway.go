package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/gateway"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

// maxBody bounds a Gateway that is written, in bytes.
const maxBody = 256 << 10

var kind = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Gateway"}

// V1alpha1 serves gateway.kubesphere.io/v1alpha1: the gateways of projects. The object is in its project, and is read and written by the
// caller's right to it there.
type V1alpha1 struct {
	Caches Caches
	// Resources answers lists, and Streams limits their watches.
	Resources *resource.Service
	Streams   *stream.Guard
	// AsCaller writes Gateways as the caller.
	AsCaller caller.Client
	// Backend says what gateways are made by.
	Backend gateway.Backend
}

const ofProject = "/namespaces/{namespace}/gateways"

// WebService returns the routes.
func (h *V1alpha1) WebService() *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/" + v1alpha1.SchemeGroupVersion.String()).Produces(restful.MIME_JSON)
	for _, b := range []*restful.RouteBuilder{
		ws.GET(ofProject).To(web.Handle(h.list)).Operation("listGatewaysOfProject").
			Doc("The gateway of the cluster, and that of the project, as an array").Writes([]v1alpha1.Gateway{}),
		ws.POST(ofProject).Consumes(restful.MIME_JSON).To(web.Handle(h.create)).Operation("createGatewayOfProject").
			Doc("Create the gateway of a project, as the caller").Reads(v1alpha1.Gateway{}).Writes(v1alpha1.Gateway{}),
		ws.PUT(ofProject).Consumes(restful.MIME_JSON).To(web.Handle(h.update)).Operation("updateGatewayOfProject").
			Doc("Replace what the gateway of a project is asked to be, as the caller").Reads(v1alpha1.Gateway{}).Writes(v1alpha1.Gateway{}),
		ws.DELETE(ofProject).To(web.Handle(h.delete)).Operation("deleteGatewayOfProject").
			Doc("Delete the gateway of a project, as the caller"),
	} {
		ws.Route(web.Namespaced(ws, b))
	}
	for _, b := range []*restful.RouteBuilder{
		ws.POST(ofProject + "/{gateway}/upgrade").To(web.Handle(h.upgrade)).Operation("upgradeGateway").
			Doc("Refused: says how a gateway of KubeSphere 3 is replaced"),
		ws.GET(ofProject + "/{gateway}/pods").To(web.Handle(h.pods)).Operation("listPodsOfGateway").
			Doc("The pods of the gateway of a project. It takes the right to list pods of core/v1 in the namespace, too"),
		ws.GET(ofProject + "/{gateway}/logs").To(web.Handle(h.logs)).Operation("searchLogsOfGateway").
			Doc("Not found: logs are stored by a component of their own"),
	} {
		ws.Route(web.Namespaced(ws, b.Param(ws.PathParameter("gateway", "name of the Gateway"))))
	}
	ws.Route(web.Namespaced(ws, ws.GET(ofProject+"/{gateway}/pods/{pod}/log").To(web.Handle(h.podLog)).
		Produces("text/plain", restful.MIME_JSON).Operation("readLogOfGateway").
		Doc("The log of a pod of the gateway of a project. It takes the right to get pods/log of core/v1, too").
		Param(ws.PathParameter("gateway", "name of the Gateway")).Param(ws.PathParameter("pod", "name of the pod")).
		Param(ws.QueryParameter("tailLines", "how many lines, from the end of the log; 1000"))))
	ws.Route(ws.GET("/gateways").To(web.Handle(h.all)).Metadata(web.MetadataPartialList, true).Operation("listAllGateways").
		Doc("The gateways of all projects: filtered, sorted, one page"))
	return ws
}

// list answers with an array: the gateway of the cluster, and that of the project or the one that KubeSphere 3 made for it.
func (h *V1alpha1) list(r *restful.Request) (any, error) {
	ctx, namespace := r.Request.Context(), r.PathParameter("namespace")
	out := []*v1alpha1.Gateway{}
	cluster, err := h.ofCluster(ctx)
	if err != nil {
		return nil, err
	}
	if cluster != nil {
		out = append(out, cluster)
	}
	own, err := h.ofProject(ctx, namespace)
	switch {
	case err != nil:
		return nil, err
	case own != nil:
		own, err = h.shown(ctx, own)
	case namespace != gateway.ClusterProject:
		own, err = h.legacy(ctx, namespace)
	}
	if err != nil {
		return nil, err
	}
	if own != nil {
		out = append(out, own)
	}
	return out, nil
}

func (h *V1alpha1) create(r *restful.Request) (any, error) {
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	g, err := h.read(r)
	if err != nil {
		return nil, err
	}
	return h.make(r.Request, g, q)
}

// make creates the Gateway of a project as the caller, where the project has none.
func (h *V1alpha1) make(r *http.Request, g *v1alpha1.Gateway, q url.Values) (*v1alpha1.Gateway, error) {
	ctx := r.Context()
	if err := h.check(g); err != nil {
		return nil, err
	}
	for _, there := range []struct {
		what string
		get  func() (*v1alpha1.Gateway, error)
	}{
		{"the cluster has a gateway, which serves this project too", func() (*v1alpha1.Gateway, error) { return h.ofCluster(ctx) }},
		{"the project has a gateway of KubeSphere 3: an administrator deletes it first, with its Service and its address",
			func() (*v1alpha1.Gateway, error) { return h.legacy(ctx, g.Namespace) }},
	} {
		is, err := there.get()
		if err != nil {
			return nil, err
		}
		if is != nil {
			return nil, status.About(gatewaysResource.GroupResource(), g.Name,
				status.Errorf(http.StatusConflict, "%s (%s/%s)", there.what, is.Namespace, is.Name))
		}
	}
	made, err := h.send(ctx, caller.Order{Method: http.MethodPost, Path: gatewayPath(g.Namespace, ""), Query: q, For: r}, g)
	if err != nil {
		return nil, err
	}
	return h.shown(ctx, made)
}

// check refuses a Gateway that nothing would be made of.
func (h *V1alpha1) check(g *v1alpha1.Gateway) error {
	if !h.Backend.Configured() {
		return status.Errorf(http.StatusNotImplemented, "there are no gateways of projects here: set gateway.className in the configuration to"+
			" the name of a GatewayClass, or gateway.templates to a folder with the Deployment and the Service of an ingress controller")
	}
	return h.Backend.Open().Check(g)
}

func (h *V1alpha1) update(r *restful.Request) (any, error) {
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	g, err := h.read(r)
	if err != nil {
		return nil, err
	}
	return h.change(r.Request, g.Namespace, g.ResourceVersion, q, func(now *v1alpha1.Gateway) {
		now.Spec = g.Spec
		if g.Labels != nil {
			now.Labels = g.Labels
		}
		if g.Annotations != nil {
			now.Annotations = g.Annotations
		}
	})
}

// change writes the Gateway of a project as the caller, in the version that was read.
func (h *V1alpha1) change(r *http.Request, namespace, version string, q url.Values,
	edit func(*v1alpha1.Gateway)) (*v1alpha1.Gateway, error) {
	ctx, name := r.Context(), gateway.Name(namespace)
	if err := gateway.CheckProject(namespace); err != nil {
		return nil, err
	}
	path := gatewayPath(namespace, name)
	written, err := caller.Change(ctx, caller.Seen{Resource: gatewaysResource.GroupResource(), Name: name, Version: version},
		func(ctx context.Context) (*v1alpha1.Gateway, error) {
			return h.send(ctx, caller.Order{Method: http.MethodGet, Path: path, For: r}, nil)
		},
		func(ctx context.Context, now *v1alpha1.Gateway) (*v1alpha1.Gateway, error) {
			edit(now)
			if err := h.check(now); err != nil {
				return nil, err
			}
			return h.send(ctx, caller.Order{Method: http.MethodPut, Path: path, Query: q, For: r}, now)
		})
	if err != nil {
		return nil, err
	}
	return h.shown(ctx, written)
}

func (h *V1alpha1) delete(r *restful.Request) (any, error) {
	if err := h.remove(r.Request, r.PathParameter("namespace")); err != nil {
		return nil, err
	}
	return map[string]string{"message": "success"}, nil
}

// remove deletes the Gateway of a project as the caller. What it consists of is deleted with it.
func (h *V1alpha1) remove(r *http.Request, namespace string) error {
	if err := gateway.CheckProject(namespace); err != nil {
		return err
	}
	options, err := web.ReadDeleteOptions(r)
	if err != nil {
		return err
	}
	order, err := caller.Deletion(gatewayPath(namespace, gateway.Name(namespace)), *options, nil)
	if err != nil {
		return err
	}
	order.For = r
	_, err = h.AsCaller.Do(r.Context(), order)
	return err
}

// read returns the Gateway in the body of a request for the gateway of a project.
func (h *V1alpha1) read(r *restful.Request) (*v1alpha1.Gateway, error) {
	namespace := r.PathParameter("namespace")
	body, err := web.ReadBody(r.Request, maxBody)
	if err != nil {
		return nil, err
	}
	g := &v1alpha1.Gateway{}
	if err := decode(body, g); err != nil {
		return nil, err
	}
	switch {
	case g.Kind != "" && g.Kind != kind.Kind, g.APIVersion != "" && g.APIVersion != kind.APIVersion:
		return nil, status.BadRequestf("the body is %.100q of %.100q, and not a %s of %s", g.Kind, g.APIVersion, kind.Kind, kind.APIVersion)
	case g.Name != "" && g.Name != gateway.Name(namespace):
		return nil, status.BadRequestf("the name %.253q is not %s, which the gateway of the project has", g.Name, gateway.Name(namespace))
	case g.Namespace != "" && g.Namespace != namespace:
		return nil, status.BadRequestf("the namespace %.63q of the body is not %s, which the path has", g.Namespace, namespace)
	}
	out := newGateway(namespace, gateway.Name(namespace))
	out.Labels, out.Annotations, out.ResourceVersion, out.Spec = g.Labels, g.Annotations, g.ResourceVersion, g.Spec
	return out, nil
}

// decode reads a body. A field that is unknown or there twice would not be what its writer means.
func decode(body []byte, into any) error {
	strict, err := sigsjson.UnmarshalStrict(body, into)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return status.BadRequestf("the body can't be read: %.300v", err)
	}
	return nil
}

func newGateway(namespace, name string) *v1alpha1.Gateway {
	return &v1alpha1.Gateway{TypeMeta: kind, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func gatewayPath(namespace, name string) string {
	path := "/apis/" + kind.APIVersion + "/namespaces/" + namespace + "/gateways"
	if name != "" {
		path += "/" + name
	}
	return path
}

// send sends an order with an object, nil for none, and returns the Gateway in the answer.
func (h *V1alpha1) send(ctx context.Context, order caller.Order, g *v1alpha1.Gateway) (*v1alpha1.Gateway, error) {
	if g != nil {
		g.TypeMeta, g.ManagedFields = kind, nil
		if order.Method == http.MethodPost {
			g.ResourceVersion = ""
		}
		var err error
		if order.Body, err = json.Marshal(g); err != nil {
			return nil, fmt.Errorf("encode a Gateway: %w", err)
		}
	}
	out := &v1alpha1.Gateway{}
	if err := h.AsCaller.Into(ctx, order, gatewaysResource.GroupResource(), out); err != nil {
		return nil, err
	}
	return out, nil
}

// upgrade would move a gateway of KubeSphere 3 into its project, which no Service can be without another address.
func (h *V1alpha1) upgrade(r *restful.Request) (any, error) {
	namespace := r.PathParameter("namespace")
	there, err := h.legacy(r.Request.Context(), namespace)
	if err != nil {
		return nil, err
	}
	if there == nil || r.PathParameter("gateway") != gateway.Name(namespace) {
		return nil, apierrors.NewNotFound(gatewaysResource.GroupResource(), r.PathParameter("gateway"))
	}
	return nil, status.Errorf(http.StatusNotImplemented, "a gateway of KubeSphere 3 is in the namespace %s, and a Service can't be moved: an"+
		" administrator deletes its Deployment and its Service %s there, and then the gateway of the project is created with POST",
		gateway.LegacyNamespace, gateway.Name(namespace))
}

// all answers with a page of the Gateways that the caller may list.
func (h *V1alpha1) all(r *restful.Request) (any, error) {
	ctx := r.Request.Context()
	q, err := query.Parse(r.Request.URL.Query())
	if err != nil {
		return nil, err
	}
	k, err := h.Resources.Catalog().Resolve(ctx, gatewaysResource)
	if err != nil {
		return nil, err
	}
	return h.Resources.Answer(r.Request, &resource.Listing{Kind: k, Query: q, Streams: h.Streams, AsCaller: h.AsCaller, Form: resource.Items,
		Scope: plan.Scope{PartialList: authz.DecisionFrom(ctx).PartialList()}})
}
