package release

import (
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/caller"
)

// object returns an object as kube-apiserver has it, read as the caller by the caller's own right.
func (h *Handler) object(r *restful.Request, gvr schema.GroupVersionResource, namespace, name string) (*unstructured.Unstructured, error) {
	return h.send(r, gvr, "", caller.Order{Method: http.MethodGet, Path: path(gvr, namespace, name)})
}

// send sends an order as the caller, by the caller's own right to it, and returns the object in the answer. Cluster is the member that it
// is sent to; "" for this cluster.
func (h *Handler) send(r *restful.Request, gvr schema.GroupVersionResource, cluster string, o caller.Order) (*unstructured.Unstructured,
	error) {
	u := &unstructured.Unstructured{}
	if err := h.into(r, gvr, cluster, o, &u.Object); err != nil {
		return nil, err
	}
	u.SetManagedFields(nil)
	return u, nil
}

// into is send for an answer that is decoded into out.
func (h *Handler) into(r *restful.Request, gvr schema.GroupVersionResource, cluster string, o caller.Order, out any) error {
	o.For = r.Request
	by := h.Store.AsCaller
	if cluster != "" {
		o.Path, by = "/clusters/"+cluster+o.Path, h.Fleet.AsCaller
	}
	return by.Into(r.Request.Context(), o, gvr.GroupResource(), out)
}

// path returns the path of objects at kube-apiserver, whose parts have been checked.
func path(gvr schema.GroupVersionResource, namespace, name string) string {
	out := "/apis/" + gvr.Group + "/" + gvr.Version
	if gvr.Group == "" {
		out = "/api/" + gvr.Version
	}
	if namespace != "" {
		out += "/namespaces/" + namespace
	}
	out += "/" + gvr.Resource
	if name != "" {
		out += "/" + name
	}
	return out
}
