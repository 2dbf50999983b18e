package v1beta1_test

import (
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestSchemas(t *testing.T) {
	for name, tc := range map[string]struct{ plural, object, want string }{
		"Workspace":            {"workspaces", "{kind: Workspace, metadata: {name: w}, spec: {manager: admin}}", ""},
		"WorkspaceWithoutSpec": {"workspaces", "{kind: Workspace, metadata: {name: w}}", ""},
		"NameTooLongForALabel": {"workspaces", "{kind: Workspace, metadata: {name: " + strings.Repeat("a", 64) + "}}", "63 characters"},
		"TemplateAsTheConsoleSends": {"workspacetemplates",
			"{kind: WorkspaceTemplate, metadata: {name: w}, spec: {template: {spec: {manager: admin}, metadata: {annotations: {kubesphere.io/creator: admin}}}, placement: {clusters: [{name: host}]}}}", ""},
		"TemplateInAllClusters": {"workspacetemplates", "{kind: WorkspaceTemplate, metadata: {name: w}, spec: {placement: {clusterSelector: {}}}}", ""},
		"TemplateOfAnOlderRelease": {"workspacetemplates",
			"{kind: WorkspaceTemplate, metadata: {name: w}, spec: {overrides: [{clusterName: host, clusterOverrides: [{path: /spec, value: 1}]}]}}", ""},
		"TemplateTwiceInOneCluster": {"workspacetemplates", "{kind: WorkspaceTemplate, metadata: {name: w}, spec: {placement: {clusters: [{name: a}, {name: a}]}}}",
			"clusters[1]"},
		"TemplateInANamelessCluster": {"workspacetemplates", "{kind: WorkspaceTemplate, metadata: {name: w}, spec: {placement: {clusters: [{name: ''}]}}}",
			"clusters[0].name"},
		"ManagersAreNotLists": {"workspaces", "{kind: Workspace, metadata: {name: w}, spec: {manager: [a]}}", "spec.manager"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := crdtest.Load(t, tc.plural, "tenant.kubesphere.io")
			for _, v := range crd.Object.Spec.Versions {
				obj := crdtest.Object(t, tc.object)
				obj["apiVersion"] = "tenant.kubesphere.io/" + v.Name
				crdtest.Expect(t, crd.Create(t, obj), tc.want)
				if pruned := crd.Pruned(t, obj); len(pruned) > 0 {
					t.Errorf("%s prunes %v", v.Name, pruned)
				}
			}
		})
	}
}

// Installations have objects in these versions; none may go away.
func TestNoVersionIsDropped(t *testing.T) {
	for plural, older := range map[string]string{"workspaces": "v1alpha1", "workspacetemplates": "v1alpha2"} {
		served := map[string]bool{}
		for _, v := range crdtest.Load(t, plural, "tenant.kubesphere.io").Object.Spec.Versions {
			served[v.Name] = v.Served
			if v.Storage != (v.Name == "v1beta1") {
				t.Errorf("%s is stored as %s", plural, v.Name)
			}
		}
		if len(served) != 2 || !served[older] || !served["v1beta1"] {
			t.Errorf("%s serves %v", plural, served)
		}
	}
}
