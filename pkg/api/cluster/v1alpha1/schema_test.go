package v1alpha1_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestSchemas(t *testing.T) {
	for name, tc := range map[string]struct{ plural, object, want string }{
		"Host":             {"clusters", `{kind: Cluster, metadata: {name: host, labels: {cluster-role.kubesphere.io/host: ""}}, spec: {provider: kapis, enable: true, connection: {type: direct, kubeconfig: YQ==}}, status: {kubeSphereVersion: v4.1.3, nodeCount: 3, configz: {devops: true}, conditions: [{type: Ready, status: "True", lastUpdateTime: "2026-11-21T00:00:00Z", lastTransitionTime: "2026-11-21T00:00:00Z"}]}}`, ""},
		"Proxied":          {"clusters", "{kind: Cluster, metadata: {name: m}, spec: {joinFederation: true, externalKubeAPIEnabled: true, config: YQ==, connection: {type: proxy, token: t, kubernetesAPIServerPort: 65535, kubesphereAPIServerPort: 1}}}", ""},
		"NotConnectedYet":  {"clusters", "{kind: Cluster, metadata: {name: m}, spec: {connection: {type: ''}}}", ""},
		"AnotherWay":       {"clusters", "{kind: Cluster, metadata: {name: m}, spec: {connection: {type: carrier-pigeon}}}", "connection.type"},
		"NoBase64":         {"clusters", "{kind: Cluster, metadata: {name: m}, spec: {connection: {kubeconfig: '{}'}}}", "connection.kubeconfig"},
		"NoPort":           {"clusters", "{kind: Cluster, metadata: {name: m}, spec: {connection: {kubernetesAPIServerPort: 65536}}}", "kubernetesAPIServerPort"},
		"ConditionMaybe":   {"clusters", "{kind: Cluster, metadata: {name: m}, status: {conditions: [{type: Ready, status: Maybe}]}}", "conditions[0].status"},
		"NegativeNodes":    {"clusters", "{kind: Cluster, metadata: {name: m}, status: {nodeCount: -1}}", "nodeCount"},
		"Label":            {"labels", "{kind: Label, metadata: {name: l}, spec: {key: env, value: prod, backgroundColor: '#fff', clusters: [host]}}", ""},
		"LabelWithoutKey":  {"labels", "{kind: Label, metadata: {name: l}, spec: {value: prod}}", "spec.key"},
		"LabelWithNullKey": {"labels", "{kind: Label, metadata: {name: l}, spec: {key: ''}}", "spec.key"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := crdtest.Load(t, tc.plural, "cluster.kubesphere.io")
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"] = "cluster.kubesphere.io/v1alpha1"
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
			if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
				t.Errorf("pruned: %v", pruned)
			}
		})
	}
}

// Agents write their conditions with the whole object.
func TestAClusterHasNoStatusSubresource(t *testing.T) {
	for _, v := range crdtest.Load(t, "clusters", "cluster.kubesphere.io").Object.Spec.Versions {
		if v.Subresources != nil && v.Subresources.Status != nil {
			t.Errorf("version %s has one", v.Name)
		}
	}
}
