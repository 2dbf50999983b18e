package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// aggregated returns the objects of an overlay with the component of the aggregated API, as JSON by kind and name.
func aggregated(t *testing.T, overlay string) map[string]string {
	t.Helper()
	root, err := filepath.Abs(config)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	base, err := filepath.Rel(folder, root)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%[1]s/%[2]s]\ncomponents: [%[1]s/aggregated]\n", base, overlay)
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range resources.Resources() {
		object, err := r.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		found[r.GetKind()+" "+r.GetName()] = string(object)
	}
	return found
}

// An overlay with the component of the aggregated API serves TLS, and what kube-apiserver connects to reaches it.
func TestTheComponentOfTheAggregatedAPI(t *testing.T) {
	for _, overlay := range []string{"default", "overlays/dev", "overlays/prod"} {
		t.Run(overlay, func(t *testing.T) {
			found := aggregated(t, overlay)
			want := map[string]string{
				"Deployment ks-apiserver":                        `"--secure-port=9443"`,
				"Service ks-apiserver":                           `"port":9443`,
				"Service ks-apiserver-aggregated":                `"targetPort":"https"`,
				"ClusterRole kapis:query":                        `"query.kapis.dev"`,
				"RoleBinding kubesphere:ks-apiserver:aggregated": `"namespace":"kube-system"`,
			}
			if strings.HasSuffix(overlay, "prod") {
				want["NetworkPolicy ks-apiserver"] = `{"port":"https"}`
			}
			for name, part := range want {
				if !strings.Contains(found[name], part) {
					t.Errorf("%s has no %s: %s", name, part, found[name])
				}
			}
			if !strings.Contains(found["Deployment ks-apiserver"], `{"containerPort":9443,"name":"https"}`) {
				t.Errorf("the port has no name: %s", found["Deployment ks-apiserver"])
			}
			if strings.Contains(found["Deployment ks-controller-manager"], "9443") {
				t.Error("ks-controller-manager is changed too")
			}
		})
	}
}
