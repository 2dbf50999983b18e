package v1alpha2_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
	"kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v1alpha2.SchemeGroupVersion, v1alpha2.AddToScheme)
}

func TestSchemas(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"AsTheConsoleSends":     {"{spec: {selector: {kubesphere.io/workspace: demo}, quota: {hard: {limits.cpu: '2', requests.memory: 1Gi}}}}", ""},
		"NumbersAreAmounts":     {"{spec: {quota: {hard: {pods: 10}}}}", ""},
		"Scopes":                {"{spec: {quota: {hard: {pods: 10}, scopes: [Terminating], scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}}}", ""},
		"NoAmount":              {"{spec: {quota: {hard: {pods: many}}}}", "spec.quota.hard.pods"},
		"NothingLimited":        {"{spec: {}}", "spec.quota"},
		"ANamespaceCountsOnce":  {"{spec: {quota: {}}, status: {namespaces: [{namespace: a}, {namespace: a}]}}", "namespaces[1]"},
		"SelectorsAreLabels":    {"{spec: {selector: {a: [b]}, quota: {}}}", "spec.selector.a"},
		"StatusOfAnOlderReader": {"{spec: {quota: {}}, status: {total: {hard: {pods: 1}, used: {pods: 1}}, namespaces: [{namespace: a, used: {pods: 1}}]}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			crd := crdtest.Load(t, "resourcequotas", v1alpha2.GroupName)
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"], obj["kind"], obj["metadata"] = "quota.kubesphere.io/v1alpha2", "ResourceQuota", map[string]any{"name": "demo"}
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
			if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
				t.Errorf("prunes %v", pruned)
			}
		})
	}
}
