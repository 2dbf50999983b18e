package gateway

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/gateway"
)

// makeByClass writes the Gateway of gateway.networking.k8s.io, and takes its addresses from its status.
func (r *Reconciler) makeByClass(ctx context.Context, g *v1alpha1.Gateway) error {
	u := gateway.ByClass(r.Backend.ClassName, g)
	if err := r.apply(ctx, g, u); err != nil {
		return err
	}
	if u.Object["status"] == nil { // an apply answers with it, where there is any
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return err
		}
	}
	g.Status.Service = gateway.ClassPorts()
	g.Status.LoadBalancer = corev1.LoadBalancerStatus{Ingress: addressesOf(u)}
	ready, why := programmed(u)
	if ready {
		condition(g, gateway.ConditionReady, metav1.ConditionTrue, "Programmed", "")
	} else {
		condition(g, gateway.ConditionReady, metav1.ConditionFalse, "NotProgrammed", why)
	}
	return nil
}

// addressesOf returns the addresses of a Gateway of gateway.networking.k8s.io. What is neither an address nor a name is left out.
func addressesOf(u *unstructured.Unstructured) []corev1.LoadBalancerIngress {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses")
	var out []corev1.LoadBalancerIngress
	for _, a := range all {
		m, _ := a.(map[string]any)
		kind, _ := m["type"].(string)
		value, _ := m["value"].(string)
		_, err := netip.ParseAddr(value)
		switch {
		case (kind == "" || kind == "IPAddress") && err == nil:
			out = append(out, corev1.LoadBalancerIngress{IP: value})
		case kind == "Hostname" && value != "":
			out = append(out, corev1.LoadBalancerIngress{Hostname: value})
		}
	}
	return out
}

// programmed reports whether a controller says that a Gateway works, and what it says if not.
func programmed(u *unstructured.Unstructured) (is bool, why string) {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range all {
		m, _ := c.(map[string]any)
		if m["type"] != "Programmed" {
			continue
		}
		// A condition of an earlier version says nothing about this one.
		if observed, ok := m["observedGeneration"].(int64); ok && observed < u.GetGeneration() {
			break
		}
		why, _ = m["message"].(string)
		return m["status"] == "True", why
	}
	return false, "no controller of the GatewayClass has said that it works"
}
