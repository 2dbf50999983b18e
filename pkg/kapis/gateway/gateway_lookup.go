package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/gateway"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

var gatewaysResource = v1alpha1.SchemeGroupVersion.WithResource("gateways")

// annotationLegacy marks a gateway of KubeSphere 3, of which there is no Gateway.
const annotationLegacy = "gateway.kapis.dev/legacy"

// snapshot returns the objects of a kind, nil where the cluster does not have it.
func snapshot(ctx context.Context, from Caches, gvr schema.GroupVersionResource) (*index.Snapshot, error) {
	kind, err := from.Catalog().Resolve(ctx, gvr)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return from.Snapshot(ctx, kind.GVR)
}

// cached returns an object of a kind from the cache, nil if there is none.
func cached[O any](ctx context.Context, from Caches, gvr schema.GroupVersionResource, namespace, name string) (*O, error) {
	snap, err := snapshot(ctx, from, gvr)
	if err != nil || snap == nil {
		return nil, err
	}
	r, ok := snap.Get(namespace, name)
	if !ok {
		return nil, nil
	}
	return decoded[O](r)
}

func decoded[O any](r *index.Record) (*O, error) {
	o := new(O)
	if err := json.Unmarshal([]byte(r.JSON.String()), o); err != nil {
		return nil, fmt.Errorf("read the cached object %s/%s: %w", r.Namespace, r.Name, err)
	}
	return o, nil
}

func serviceIn(ctx context.Context, from Caches, namespace, name string) (*corev1.Service, error) {
	return cached[corev1.Service](ctx, from, corev1.SchemeGroupVersion.WithResource("services"), namespace, name)
}

// addresses returns where clients reach a Service: what its load balancer has, or a node of the control plane.
func addresses(ctx context.Context, from Caches, s *corev1.Service) (corev1.LoadBalancerStatus, error) {
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		return s.Status.LoadBalancer, nil
	}
	nodes, err := from.Snapshot(ctx, corev1.SchemeGroupVersion.WithResource("nodes"))
	if err != nil {
		return corev1.LoadBalancerStatus{}, err
	}
	for _, label := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		var address, last string
		// The last one by its name, as clients know it: it stays the same one when another is added before it.
		nodes.ByCreated(index.HasLabel(label, "")).Walk(0, false, func(ref *index.Ref) bool {
			if r := nodes.Record(ref); r.Name > last {
				if n, err := decoded[corev1.Node](r); err == nil && internalIP(n) != "" {
					address, last = internalIP(n), r.Name
				}
			}
			return true
		})
		if address != "" {
			return corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: address}}}, nil
		}
	}
	return corev1.LoadBalancerStatus{}, nil
}

func internalIP(n *corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// ofProject returns the Gateway of a project, nil if it has none.
func (h *V1alpha1) ofProject(ctx context.Context, namespace string) (*v1alpha1.Gateway, error) {
	return cached[v1alpha1.Gateway](ctx, h.Caches, gatewaysResource, namespace, gateway.Name(namespace))
}

// ofCluster returns the gateway of the whole cluster, with what a project may know of it; nil if there is none.
func (h *V1alpha1) ofCluster(ctx context.Context) (*v1alpha1.Gateway, error) {
	g, err := cached[v1alpha1.Gateway](ctx, h.Caches, gatewaysResource, gateway.LegacyNamespace, gateway.Name(gateway.ClusterProject))
	if err != nil {
		return nil, err
	}
	if g == nil {
		if g, err = h.legacy(ctx, gateway.ClusterProject); err != nil || g == nil {
			return nil, err
		}
	}
	out := newGateway(g.Namespace, g.Name)
	out.UID, out.CreationTimestamp = g.UID, g.CreationTimestamp
	out.Spec.Service.Type, out.Status = g.Spec.Service.Type, g.Status
	return out, nil
}

// legacy returns a Gateway that describes the gateway that an installation of KubeSphere 3 made for a project, nil if there is none. It is
// found by its labels.
func (h *V1alpha1) legacy(ctx context.Context, project string) (*v1alpha1.Gateway, error) {
	service, err := h.legacyService(ctx, project)
	if err != nil || service == nil {
		return nil, err
	}
	g := newGateway(service.Namespace, service.Name)
	g.UID, g.CreationTimestamp, g.Labels = service.UID, service.CreationTimestamp, service.Labels
	g.Annotations = map[string]string{annotationLegacy: "true"}
	g.Spec.Service = v1alpha1.ServiceSpec{Type: service.Spec.Type, Annotations: service.Annotations}
	g.Spec.Controller.Scope = v1alpha1.Scope{Enabled: project != gateway.ClusterProject, Namespace: project}
	d, err := cached[appsv1.Deployment](ctx, h.Caches, appsv1.SchemeGroupVersion.WithResource("deployments"), service.Namespace, service.Name)
	if err != nil {
		return nil, err
	}
	if d != nil {
		g.Spec.Deployment.Replicas = d.Spec.Replicas
	}
	return g, h.reached(ctx, g, service)
}

func (h *V1alpha1) legacyService(ctx context.Context, project string) (*corev1.Service, error) {
	services, err := h.Caches.Snapshot(ctx, corev1.SchemeGroupVersion.WithResource("services"))
	if err != nil {
		return nil, err
	}
	var out *corev1.Service
	services.ByCreated(index.HasLabel(gateway.LabelProject, project)).Walk(0, false, func(ref *index.Ref) bool {
		r := services.Record(ref)
		for key, value := range gateway.LegacyLabels(project) {
			if has, _ := r.Labels.Get(key); has != value {
				return true
			}
		}
		// A project could put these labels on a Service of its own, and so keep itself from a gateway; of other projects it has none.
		if _, ours := r.Labels.Get(gateway.LabelManaged); ours || r.Namespace != gateway.LegacyNamespace {
			return true
		}
		out, err = decoded[corev1.Service](r)
		return false
	})
	return out, err
}

// reached fills in how clients reach a gateway by its Service.
func (h *V1alpha1) reached(ctx context.Context, g *v1alpha1.Gateway, s *corev1.Service) (err error) {
	g.Status.Service = s.Spec.Ports
	g.Status.LoadBalancer, err = addresses(ctx, h.Caches, s)
	return err
}

// service returns the Service of the Gateway of a project: the one that there is, or the one that there will be.
func (h *V1alpha1) service(ctx context.Context, g *v1alpha1.Gateway) (*corev1.Service, error) {
	if h.Backend.Template == nil {
		return &corev1.Service{ObjectMeta: *g.ObjectMeta.DeepCopy(),
			Spec:   corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: g.Status.Service},
			Status: corev1.ServiceStatus{LoadBalancer: g.Status.LoadBalancer}}, nil
	}
	there, err := serviceIn(ctx, h.Caches, g.Namespace, g.Name)
	if err != nil {
		return nil, err
	}
	will := h.Backend.Template.Service(g)
	if there == nil || there.Labels[gateway.LabelManaged] == "" {
		return will, nil
	}
	// After a change the cache has the former one for a while.
	there.Spec.Type, there.Annotations = will.Spec.Type, will.Annotations
	return there, nil
}

// shown returns the Gateway of a project as clients see it, with its addresses.
func (h *V1alpha1) shown(ctx context.Context, g *v1alpha1.Gateway) (*v1alpha1.Gateway, error) {
	g.TypeMeta, g.ManagedFields = kind, nil
	if h.Backend.Template == nil {
		return g, nil
	}
	s, err := h.service(ctx, g)
	if err != nil || s.UID == "" {
		return g, err
	}
	return g, h.reached(ctx, g, s)
}
