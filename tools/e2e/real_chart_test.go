package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// chartOfMetricsServer is the chart that Kubernetes' metrics-server publishes, as an extension: with what such a chart does not have.
func chartOfMetricsServer(t *testing.T, more map[string]string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/metrics-server")
	cmd.Dir = "../charts"
	out, err := cmd.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &module)
	}
	if err != nil {
		t.Fatalf("go mod download: %v: %s", err, out)
	}
	root := os.DirFS(filepath.Join(module.Dir, "charts", "metrics-server"))
	files := map[string]string{}
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(root, path)
		files[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range more {
		files[path] = text
	}
	return base64.StdEncoding.EncodeToString(charttest.Pack(t, "metrics-server", files))
}

// X21: a chart that others have written for Helm is an extension once it says what it may do: with roles, bindings in a namespace of the system, and a
// certificate that its template makes once, and looks for from then on.
func TestX21AChartOfOthersIsAnExtension(t *testing.T) {
	const name, version = "metrics-server", "3.13.1"
	a, plan, objects := admin(t), platformAPI+"/installplans/"+name, "/api/v1/namespaces/extension-"+name
	push(t, name, version, chartOfMetricsServer(t, map[string]string{
		"extension.yaml": "{apiVersion: kubesphere.io/v1alpha1, name: " + name + ", version: " + version + ", displayName: {en: Metrics}}",
		"permissions.yaml": `kind: ClusterRole
rules:
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, clusterrolebindings, rolebindings], verbs: [create, get, update, patch, delete]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles, roles], verbs: [bind],
   resourceNames: ["system:auth-delegator", extension-apiserver-authentication-reader]}
- {apiGroups: [""], resources: [nodes/metrics], verbs: [get]}
- {apiGroups: [""], resources: [pods, nodes, namespaces, configmaps], verbs: [get, list, watch]}
- {apiGroups: [metrics.k8s.io], resources: [pods, nodes], verbs: [get, list, watch]}
`,
	}))
	t.Cleanup(func() {
		for _, path := range []string{plan, objects} {
			_, _ = a.do(context.Background(), http.MethodDelete, path, nil)
		}
	})
	// Its APIService would take metrics.k8s.io away from everybody, since no pod runs.
	const config = "apiService: {create: false}\ntls: {type: helm, helm: {lookup: true}}\n"
	a.must(t, http.StatusCreated, http.MethodPost, platformAPI+"/installplans", installPlan(name, version, config, nil))
	eventually(t, "it is installed", a.answersWith(http.StatusOK, plan, `"state":"Installed"`))
	certificate := func() string {
		t.Helper()
		var s struct{ Data map[string]string }
		body := a.must(t, http.StatusOK, http.MethodGet, objects+"/secrets/"+name, nil).body
		if err := json.Unmarshal([]byte(body), &s); err != nil || s.Data["tls.crt"] == "" {
			t.Fatalf("%s %v", clip(body), err)
		}
		return s.Data["tls.crt"]
	}
	made := certificate()
	const reader = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings/metrics-server-auth-reader"
	a.answers(t, reader, `"kubesphere.io/extension-ref":"metrics-server"`)
	a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": config + "replicas: 2\n"}}, asMerge)
	eventually(t, "it is upgraded", a.conditionIs(plan, "Upgraded", "True", version))
	a.answers(t, "/apis/apps/v1/namespaces/extension-metrics-server/deployments/metrics-server", `"replicas":2`)
	if certificate() != made {
		t.Error("it has another certificate")
	}
	a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
	eventually(t, "the plan is gone", a.is(http.StatusNotFound, http.MethodGet, plan))
	a.must(t, http.StatusNotFound, http.MethodGet, reader, nil)
}
