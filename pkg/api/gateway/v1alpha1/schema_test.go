package v1alpha1_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestSchemas(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"OfKubeSphere3": {"{kind: Gateway, metadata: {name: kubesphere-router-a, namespace: a}, " +
			"spec: {controller: {replicas: 1, annotations: {}, config: {a: b}, scope: {enabled: true, namespace: a}}, " +
			"service: {annotations: {a: b}, type: NodePort}, deployment: {replicas: 1, annotations: {a: b}, resources: {limits: {cpu: 500m}}}}}", ""},
		"NoType":       {"{kind: Gateway, metadata: {name: g, namespace: a}, spec: {service: {type: ''}}}", ""},
		"AFreeStatus":  {"{kind: Gateway, metadata: {name: g, namespace: a}, status: {deployedRelease: {name: x}, conditions: []}}", ""},
		"AnotherType":  {"{kind: Gateway, metadata: {name: g, namespace: a}, spec: {service: {type: ExternalName}}}", "spec.service.type"},
		"NoReplicas":   {"{kind: Gateway, metadata: {name: g, namespace: a}, spec: {deployment: {replicas: 0}}}", "deployment.replicas"},
		"ManyReplicas": {"{kind: Gateway, metadata: {name: g, namespace: a}, spec: {controller: {replicas: 11}}}", "controller.replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := crdtest.Load(t, "gateways", "gateway.kubesphere.io")
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"] = "gateway.kubesphere.io/v1alpha1"
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
			if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
				t.Errorf("pruned: %v", pruned)
			}
		})
	}
}

// A project that may write its Gateway does not write what the controller says of it.
func TestTheStatusOfAGatewayHasARightOfItsOwn(t *testing.T) {
	for _, v := range crdtest.Load(t, "gateways", "gateway.kubesphere.io").Object.Spec.Versions {
		if v.Subresources == nil || v.Subresources.Status == nil {
			t.Errorf("version %s has no sub-resource of its status", v.Name)
		}
	}
}
