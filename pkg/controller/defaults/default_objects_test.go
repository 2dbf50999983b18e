package defaults_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/controller/defaults"
)

func TestAMemberGetsTheRolesOfEveryInstallation(t *testing.T) {
	objects, err := defaults.Objects()
	if err != nil {
		t.Fatal(err)
	}
	seen, kinds := map[string]bool{}, map[string]int{}
	for _, o := range objects {
		key := o.GetKind() + "/" + o.GetName()
		if seen[key] || o.GetName() == "" || o.GetNamespace() != "" {
			t.Errorf("%s is there twice, or is in the namespace %q", key, o.GetNamespace())
		}
		seen[key] = true
		kinds[o.GetKind()]++
		if o.GetLabels()["app.kubernetes.io/part-of"] != "ks-apiserver" {
			t.Errorf("%s is not known as this project's", key)
		}
	}
	for _, key := range []string{"GlobalRole/platform-admin", "GlobalRoleBinding/platform-admin", "GlobalRole/authenticated", "ClusterRole/cluster-admin",
		"Workspace/system-workspace"} {
		if !seen[key] {
			t.Errorf("%s is missing", key)
		}
	}
	if kinds["RoleTemplate"] < 60 || kinds["BuiltinRole"] == 0 || kinds["Category"] == 0 || kinds["WorkspaceTemplate"] != 0 {
		t.Error(kinds)
	}
}
