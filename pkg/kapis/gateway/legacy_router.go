package gateway

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/gateway"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Router is the gateway of a project as clients of KubeSphere 3.0 ask for it.
type Router struct {
	// Type is LoadBalancer, in any case; anything else means NodePort.
	Type string `json:"type"`
	// Annotations are those of the Service.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// MountRouter adds the routes of the gateway of a project to those of resources.kubesphere.io/v1alpha2. They answer with its Service.
func (h *V1alpha1) MountRouter(ws *restful.WebService) {
	const path = "/namespaces/{namespace}/router"
	for _, b := range []*restful.RouteBuilder{
		ws.GET(path).To(web.Handle(h.getRouter)).Operation("getRouter").Doc("The Service of the gateway of a project"),
		ws.POST(path).To(web.Handle(h.createRouter)).Operation("createRouter").Consumes(restful.MIME_JSON).Reads(Router{}).
			Doc("Create the gateway of a project, as the caller"),
		ws.PUT(path).To(web.Handle(h.updateRouter)).Operation("updateRouter").Consumes(restful.MIME_JSON).Reads(Router{}).
			Doc("Change the gateway of a project, as the caller"),
		ws.DELETE(path).To(web.Handle(h.deleteRouter)).Operation("deleteRouter").Doc("Delete the gateway of a project, as the caller"),
	} {
		ws.Route(web.Namespaced(ws, b.Writes(corev1.Service{})))
	}
}

// routerOf reads the body of a request for the gateway of a project.
func routerOf(r *http.Request) (*v1alpha1.ServiceSpec, error) {
	body, err := web.ReadBody(r, maxBody)
	if err != nil {
		return nil, err
	}
	var asked Router
	if err := decode(body, &asked); err != nil {
		return nil, err
	}
	out := &v1alpha1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Annotations: asked.Annotations}
	if strings.EqualFold(asked.Type, string(corev1.ServiceTypeLoadBalancer)) {
		out.Type = corev1.ServiceTypeLoadBalancer
	}
	return out, nil
}

func (h *V1alpha1) getRouter(r *restful.Request) (any, error) {
	ctx, namespace := r.Request.Context(), r.PathParameter("namespace")
	g, err := h.ofProject(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if g != nil {
		return h.asService(r.Request, g)
	}
	s, err := h.legacyService(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, apierrors.NewNotFound(gatewaysResource.GroupResource(), gateway.Name(namespace))
	}
	return h.addressed(r.Request, s)
}

func (h *V1alpha1) createRouter(r *restful.Request) (any, error) {
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	service, err := routerOf(r.Request)
	if err != nil {
		return nil, err
	}
	namespace := r.PathParameter("namespace")
	g := newGateway(namespace, gateway.Name(namespace))
	g.Spec.Service = *service
	if g, err = h.make(r.Request, g, q); err != nil {
		return nil, err
	}
	return h.asService(r.Request, g)
}

func (h *V1alpha1) updateRouter(r *restful.Request) (any, error) {
	q, err := web.WriteParameters(r.Request)
	if err != nil {
		return nil, err
	}
	service, err := routerOf(r.Request)
	if err != nil {
		return nil, err
	}
	g, err := h.change(r.Request, r.PathParameter("namespace"), "", q, func(now *v1alpha1.Gateway) { now.Spec.Service = *service })
	if err != nil {
		return nil, err
	}
	return h.asService(r.Request, g)
}

func (h *V1alpha1) deleteRouter(r *restful.Request) (any, error) {
	namespace := r.PathParameter("namespace")
	g, err := h.ofProject(r.Request.Context(), namespace)
	if err != nil {
		return nil, err
	}
	if err := h.remove(r.Request, namespace); err != nil {
		return nil, err
	}
	if g == nil {
		g = newGateway(namespace, gateway.Name(namespace)) // it is newer than the cache
	}
	return h.asService(r.Request, g)
}

// asService returns the Service of a Gateway as clients see it.
func (h *V1alpha1) asService(r *http.Request, g *v1alpha1.Gateway) (any, error) {
	s, err := h.service(r.Context(), g)
	if err != nil {
		return nil, err
	}
	return h.addressed(r, s)
}

// addressed returns a Service with the address at which clients reach it.
func (h *V1alpha1) addressed(r *http.Request, s *corev1.Service) (_ any, err error) {
	s.TypeMeta, s.ManagedFields = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, nil
	s.Status.LoadBalancer, err = addresses(r.Context(), h.Caches, s)
	return s, err
}
