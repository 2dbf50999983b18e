package v1alpha2_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestSchemas(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"All":              {"{kind: IngressClassScope, metadata: {name: s}, spec: {ingressClass: {default: true, name: nginx}}}", ""},
		"Namespaces":       {"{kind: IngressClassScope, metadata: {name: s}, spec: {ingressClass: {name: nginx}, scope: {namespaces: [a, b]}}}", ""},
		"ASelectorAsText":  {"{kind: IngressClassScope, metadata: {name: s}, spec: {scope: {namespaceSelector: 'a=b,c!=d'}}}", ""},
		"ASelector":        {"{kind: IngressClassScope, metadata: {name: s}, spec: {scope: {namespaceSelector: {matchLabels: {a: b}}}}}", ""},
		"NoListOfNames":    {"{kind: IngressClassScope, metadata: {name: s}, spec: {scope: {namespaces: a}}}", "scope.namespaces"},
		"NoNameOfTheClass": {"{kind: IngressClassScope, metadata: {name: s}, spec: {ingressClass: {name: 1}}}", "ingressClass.name"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := crdtest.Load(t, "ingressclassscopes", "gateway.kubesphere.io")
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"] = "gateway.kubesphere.io/v1alpha2"
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
			if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
				t.Errorf("pruned: %v", pruned)
			}
		})
	}
}
