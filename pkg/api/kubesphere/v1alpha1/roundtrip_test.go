package v1alpha1_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme)
}

func TestSchemas(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"AsTheChartHasIt": {"{metadata: {name: ks-console, namespace: kubesphere-system}}", ""},
		"WithItsSecret":   {"{metadata: {name: a, namespace: b}, secrets: [{name: a-token}]}", ""},
		"SecretsAreNamed": {"{metadata: {name: a, namespace: b}, secrets: [a-token]}", "secrets[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := crdtest.Load(t, "serviceaccounts", v1alpha1.GroupName)
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"], obj["kind"] = "kubesphere.io/v1alpha1", "ServiceAccount"
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
		})
	}
}
