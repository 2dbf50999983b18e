package v1alpha1_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

func TestSchemasOfTheCatalogue(t *testing.T) {
	for name, tc := range map[string]struct{ plural, object, want string }{
		"Repository": {"repositories", `{kind: Repository, metadata: {name: m}, spec: {url: "https://charts.example.com", description: d, depth: 0, insecure: true,
  caBundle: "-----BEGIN", basicAuth: {username: u, password: p}, updateStrategy: {registryPoll: {interval: 30m}, timeout: 60s}},
  status: {lastSyncTime: "2026-11-21T00:00:00Z"}}`, ""},
		"NegativeDepth": {"repositories", "{kind: Repository, metadata: {name: m}, spec: {url: x, depth: -1}}", "spec.depth"},
		"Extension": {"extensions", `{kind: Extension, metadata: {name: shop}, spec: {displayName: {en: Shop, zh: 商店}, icon: "data:image/png;base64,AA==",
  provider: {en: {name: me, url: u, email: e}}, created: null}, status: {state: Installed, enabled: true, recommendedVersion: 1.0.0, installedVersion: 1.0.0,
  plannedInstallVersion: 1.0.0, versions: [{version: 1.0.0, creationTimestamp: null}], clusterSchedulingStatuses: {m: {state: Installed}},
  conditions: [{type: Installed, status: "True", reason: r, message: "", lastTransitionTime: "2026-11-21T00:00:00Z"}]}}`, ""},
		"ExtensionVersion": {"extensionversions", `{kind: ExtensionVersion, metadata: {name: shop-1.0.0}, spec: {version: 1.0.0, category: database, keywords: [a],
  sources: [b], home: h, docs: d, screenshots: [s], kubeVersion: ">=1.19", ksVersion: ">=4.0", installationMode: Multicluster, namespace: shop,
  externalDependencies: [{name: o, type: extension, version: "^1", required: true}], repository: m, chartURL: "https://a/b.tgz", digest: abc,
  chartDataRef: {name: c, namespace: ns, key: chart.tgz, optional: true}}}`, ""},
		"AnotherMode": {"extensionversions", "{kind: ExtensionVersion, metadata: {name: a}, spec: {installationMode: Everywhere}}", "installationMode"},
		"InstallPlan": {"installplans", `{kind: InstallPlan, metadata: {name: shop}, spec: {extension: {name: shop, version: 1.0.0}, enabled: true,
  upgradeStrategy: Automatic, config: "a: 1", clusterScheduling: {placement: {clusters: [m], clusterSelector: {matchLabels: {a: b}}}, overrides: {m: "a: 2"}}},
  status: {state: Installed, enabled: true, configHash: h, jobName: "", releaseName: shop, targetNamespace: extension-shop, version: 1.0.0,
  stateHistory: [{state: Installed, lastTransitionTime: "2026-11-21T00:00:00Z"}], clusterSchedulingStatuses: {m: {state: Installing}}}}`, ""},
		"PlanOfNothing": {"installplans", "{kind: InstallPlan, metadata: {name: shop}, spec: {enabled: true}}", "spec.extension"},
		"Category":      {"categories", `{kind: Category, metadata: {name: database}, spec: {displayName: {en: Databases}, description: {en: d}, icon: i}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			crd := crdtest.Load(t, tc.plural, v1alpha1.GroupName)
			obj := crdtest.Object(t, tc.object)
			obj["apiVersion"] = "kubesphere.io/v1alpha1"
			crdtest.Expect(t, crd.Create(t, obj), tc.want)
			if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
				t.Errorf("pruned: %v", pruned)
			}
		})
	}
}

// Clients of existing installations write the status with the whole object.
func TestTheCatalogueHasNoStatusSubresource(t *testing.T) {
	for _, plural := range []string{"repositories", "extensions", "extensionversions", "installplans"} {
		for _, v := range crdtest.Load(t, plural, v1alpha1.GroupName).Object.Spec.Versions {
			if v.Subresources != nil && v.Subresources.Status != nil {
				t.Errorf("%s in version %s has one", plural, v.Name)
			}
		}
	}
}
