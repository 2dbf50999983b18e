package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// knownFinalizers are those that an installation of KubeSphere 4.1 removes itself. Any other would keep an object from being deleted there.
var knownFinalizers = []string{
	"kubesphere.io/cascading-deletion", "finalizer.cluster.kubesphere.io", "finalizers.kubesphere.io/users", "finalizers.kubesphere.io/globalroles",
	"finalizers.kubesphere.io/globalrolebindings", "finalizers.kubesphere.io/workspaceroles", "finalizers.kubesphere.io/workspacerolebindings",
	"finalizers.kubesphere.io/groups", "finalizers.kubesphere.io/groupsbindings", "finalizers.kubesphere.io/serviceaccount",
	"finalizers.kubesphere.io/cluster-label", "customresourcecleanup.apiextensions.k8s.io",
}

// goesBack takes this program away again as docs/upgrade.md says, and compares: what the installation had is there, as it was, and nothing
// of ours decides about its writes.
func (i *installation) goesBack(t *testing.T) {
	t.Helper()
	before, rules := i.snapshot(t)
	if err := i.Stop(); err != nil {
		t.Error(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join("hack", "uninstall.sh"))
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "KUBECTL="+product.Program("kubectl"), "KUBECONFIG="+i.kubeconfig)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("uninstall: %v\n%s", err, out)
	}
	i.kubectl(t, "", "delete", "clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io,roles.rbac.authorization.k8s.io,"+
		"rolebindings.rbac.authorization.k8s.io", "-A", "-l", "app.kubernetes.io/managed-by=ks-controller-manager")

	after, rulesAfter := i.snapshot(t)
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s was\n%s, and is\n%s", name, was, after[name])
		}
		if !slices.Equal(rules[name], rulesAfter[name]) {
			t.Errorf("the rules of %s were\n%v, and are\n%v", name, rules[name], rulesAfter[name])
		}
	}
	for _, kinds := range []string{"validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings",
		"apiservices", "clusterroles.rbac.authorization.k8s.io,clusterrolebindings.rbac.authorization.k8s.io"} {
		for name := range strings.Lines(i.kubectl(t, "", "get", kinds, "-o", "name")) {
			if strings.Contains(name, "kapis") && !strings.Contains(name, "session.kapis.dev") { // which the CRDs have that stay
				t.Errorf("%s is left", strings.TrimSpace(name))
			}
		}
	}
	i.canBeWritten(t)
}

// canBeWritten fails the test for objects that wait for a finalizer that nobody removes, or that can't be written any more.
func (i *installation) canBeWritten(t *testing.T) {
	t.Helper()
	kinds := make([]string, 0, len(chartKinds))
	for _, d := range chartKinds {
		kinds = append(kinds, d.plural+"."+d.group)
	}
	var left []map[string]any
	eventually(t, "nothing is being deleted", func(context.Context) error { // which no uninstallation waits for
		raw := i.kubectl(t, "", "get", "-A", "-o", "json", strings.Join(append(kinds, "namespaces", "customresourcedefinitions"), ","))
		left = decode[struct{ Items []map[string]any }](t, raw).Items
		for _, o := range left {
			if metadata := o["metadata"].(map[string]any); metadata["deletionTimestamp"] != nil {
				return fmt.Errorf("%v %v is", o["kind"], metadata["name"])
			}
		}
		return nil
	})
	for _, o := range left {
		metadata := o["metadata"].(map[string]any)
		name := fmt.Sprint(o["kind"], " ", metadata["name"])
		finalizers, _ := metadata["finalizers"].([]any)
		for _, f := range finalizers {
			if o["kind"] != "Namespace" && !slices.Contains(knownFinalizers, fmt.Sprint(f)) {
				t.Errorf("%s waits for the finalizer %v, of which the installation knows nothing", name, f)
			}
		}
	}
	for _, o := range []string{"users.iam.kubesphere.io/bob", "globalroles.iam.kubesphere.io/rego-reader", "workspacetemplates.tenant.kubesphere.io/legacy",
		"workspaceroles.iam.kubesphere.io/legacy-viewer", "namespaces/legacy-project"} {
		i.kubectl(t, "", "annotate", o, "example.com/back=yes")
	}
	i.kubectl(t, encode(t, obj{"apiVersion": "v1", "kind": "Pod", "metadata": obj{"name": "back", "namespace": "legacy-project"},
		"spec": obj{"containers": []any{obj{"name": "c", "image": "x"}}}}), "create", "-f", "-")
	i.kubectl(t, "", "delete", "namespace", "fresh-project", "--wait=true", "--timeout=300s")
}
