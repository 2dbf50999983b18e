package gateway

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha1"
)

// ClassGatewayKind is the kind Gateway of gateway.networking.k8s.io.
var ClassGatewayKind = schema.GroupVersionKind{Group: "gateway.networking.k8s.io", Version: "v1", Kind: "Gateway"}

// NewClassGateway returns an empty Gateway of gateway.networking.k8s.io.
func NewClassGateway() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(ClassGatewayKind)
	return u
}

// ByClass returns the Gateway of gateway.networking.k8s.io that a project is given: routes of the project alone attach to it. Its
// certificate is in the Secret of its name with -tls.
func ByClass(className string, g *v1alpha1.Gateway) *unstructured.Unstructured {
	u := NewClassGateway()
	u.SetName(g.Name)
	u.SetNamespace(g.Namespace)
	u.SetLabels(Labels(g.Namespace))
	same := map[string]any{"namespaces": map[string]any{"from": "Same"}}
	u.Object["spec"] = map[string]any{
		"gatewayClassName": className,
		"listeners": []any{
			map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP", "allowedRoutes": same},
			map[string]any{"name": "https", "port": int64(443), "protocol": "HTTPS",
				"allowedRoutes": map[string]any{"namespaces": map[string]any{"from": "Same"}},
				"tls": map[string]any{"mode": "Terminate",
					"certificateRefs": []any{map[string]any{"group": "", "kind": "Secret", "name": g.Name + "-tls"}}}},
		},
	}
	return u
}

// ClassPorts are the ports of such a Gateway.
func ClassPorts() []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}, {Name: "https", Protocol: corev1.ProtocolTCP, Port: 443},
	}
}
