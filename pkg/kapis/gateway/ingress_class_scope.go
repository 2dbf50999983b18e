// Package gateway serves the routes of gateway.kubesphere.io that are more than reading or writing an object, and the gateways of projects
// as clients of KubeSphere 3.0 name them: one object, a Gateway, and three views of it.
package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha2"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Caches returns the objects of kinds. store.Store is one.
type Caches interface {
	Catalog() *store.Catalog
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// V1alpha2 serves gateway.kubesphere.io/v1alpha2.
type V1alpha2 struct{ Caches Caches }

// WebService returns the routes. The routes of kinds are mounted next to them.
func (h *V1alpha2) WebService() *restful.WebService {
	ws := new(restful.WebService).Path("/kapis/" + v1alpha2.SchemeGroupVersion.String()).Produces(restful.MIME_JSON)
	ws.Route(web.Namespaced(ws, ws.GET("/namespaces/{namespace}/availableingressclassscopes")).To(web.Handle(h.available)).
		Operation("listIngressClassScopes").Doc("The ingress classes that a project may use, as an array; empty where there are none").
		Writes([]v1alpha2.IngressClassScope{}))
	return ws
}

// available answers with the scopes that have the namespace, from the caches.
func (h *V1alpha2) available(r *restful.Request) (any, error) {
	ctx, name := r.Request.Context(), r.PathParameter("namespace")
	kinds, err := snapshot(ctx, h.Caches, v1alpha2.SchemeGroupVersion.WithResource("ingressclassscopes"))
	if err != nil {
		return nil, err
	}
	out := []v1alpha2.IngressClassScope{}
	if kinds == nil {
		return out, nil // without the definition there are no scopes
	}
	namespaces, err := h.Caches.Snapshot(ctx, corev1.SchemeGroupVersion.WithResource("namespaces"))
	if err != nil {
		return nil, err
	}
	of := labels.Set{}
	if n, ok := namespaces.Get("", name); ok {
		var meta metav1.PartialObjectMetadata
		if err := json.Unmarshal([]byte(n.JSON.String()), &meta); err != nil {
			return nil, fmt.Errorf("read the namespace %s: %w", name, err)
		}
		of = meta.Labels
	}
	kinds.ByName(index.All()).Walk(0, false, func(ref *index.Ref) bool {
		var s v1alpha2.IngressClassScope
		if err := json.Unmarshal([]byte(kinds.Record(ref).JSON.String()), &s); err != nil {
			klog.ErrorS(err, "an IngressClassScope can't be read, and is left out", "name", kinds.Record(ref).Name)
			return true
		}
		if includes(s.Spec.Scope, name, of) {
			out = append(out, s)
		}
		return true
	})
	for i := range out {
		if out[i].Status, err = h.status(ctx, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// includes reports whether a scope has a namespace. One that can't be read has none.
func includes(s v1alpha2.NamespaceScope, namespace string, of labels.Set) bool {
	if len(s.Namespaces) > 0 {
		return slices.Contains(s.Namespaces, namespace)
	}
	if s.NamespaceSelector == nil || len(s.NamespaceSelector.Raw) == 0 || string(s.NamespaceSelector.Raw) == "null" {
		return true
	}
	selector, err := selectorOf(s.NamespaceSelector.Raw)
	return err == nil && selector.Matches(of)
}

// selectorOf reads a selector in either form.
func selectorOf(raw []byte) (labels.Selector, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return labels.Parse(text)
	}
	var s metav1.LabelSelector
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	if len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0 {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(&s)
}

// status returns how clients reach what serves a class.
func (h *V1alpha2) status(ctx context.Context, s *v1alpha2.IngressClassScope) (v1alpha2.IngressClassScopeStatus, error) {
	var out v1alpha2.IngressClassScopeStatus
	namespace, name, ok := strings.Cut(s.Annotations[v1alpha2.AnnotationService], "/")
	if !ok {
		return out, nil
	}
	service, err := serviceIn(ctx, h.Caches, namespace, name)
	if err != nil || service == nil {
		return out, err
	}
	out.Service = service.Spec.Ports
	out.LoadBalancer, err = addresses(ctx, h.Caches, service)
	return out, err
}
