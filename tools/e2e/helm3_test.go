package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// helm3 returns what runs Helm 3 as the cluster's administrator, in a namespace.
func helm3(t *testing.T, namespace string) func(args ...string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "helm3")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s", "-o", program, "helm.sh/helm/v3/cmd/helm")
	build.Dir = "../helm3"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build Helm 3: %v: %s", err, out)
	}
	return func(args ...string) string {
		t.Helper()
		args = append([]string{"--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "-n", namespace}, args...)
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("helm %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
}

// X39, X41: a release that Helm 3 installed, with the plan of an earlier installation, is taken over without an upgrade; the next change upgrades it, Helm 3
// reads what we have written, and a removal takes it all away.
func TestX39AReleaseThatHelm3WroteIsTakenOver(t *testing.T) {
	a, name := admin(t), unique("three")
	namespace := "extension-" + name
	plan, web := platformAPI+"/installplans/"+name, "/api/v1/namespaces/"+namespace+"/configmaps/shop-web"
	cli := helm3(t, namespace)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		push(t, name, version, shopChart(t, name, version, shopPermissions))
	}
	t.Cleanup(func() {
		for _, path := range []string{plan, "/api/v1/namespaces/" + namespace} {
			_, _ = a.do(context.Background(), http.MethodDelete, path, nil)
		}
	})
	a.create(t, "/api/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": namespace,
		"labels": obj{workspaceLabel: "system-workspace", "kubesphere.io/managed": "true", "kubesphere.io/extension-ref": name}}})
	raw, err := base64.StdEncoding.DecodeString(shopChart(t, name, "1.0.0", shopPermissions))
	if err != nil {
		t.Fatal(err)
	}
	chart := filepath.Join(t.TempDir(), "shop.tgz")
	if err := os.WriteFile(chart, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	const config = "greeting: before"
	cli("install", name, chart, "--set", "greeting=before")
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(config)) // it returns no error
	p := installPlan(name, "1.0.0", config, nil)
	p["status"] = obj{"state": "Installed", "version": "1.0.0", "enabled": true, "releaseName": name, "targetNamespace": namespace,
		"configHash": fmt.Sprintf("%x", hash.Sum64())}
	mustKubectlAt(t, encode(t, p), "create", "-f", "-") // so is a backup restored: nobody else writes a status

	eventually(t, "it is taken over", a.has(plan, `"kapis.dev/operation"`, `"state":"Installed"`))
	a.answers(t, web, `"greeting":"before"`)
	if history := cli("history", name); !strings.Contains(history, "deployed") || strings.Contains(history, "superseded") {
		t.Errorf("it was upgraded:\n%s", history)
	}
	a.must(t, http.StatusOK, http.MethodPatch, plan, obj{"spec": obj{"config": "greeting: after", "extension": obj{"version": "1.1.0"}}}, asMerge)
	eventually(t, "it is upgraded", a.conditionIs(plan, "Upgraded", "True", "1.1.0"))
	a.answers(t, web, `"greeting":"after"`, `"version":"1.1.0"`, `"kubesphere.io/extension-ref":"`+name+`"`)
	if history := cli("history", name); !strings.Contains(history, "superseded") || !strings.Contains(history, name+"-1.1.0") {
		t.Errorf("Helm 3 sees\n%s", history)
	}
	if manifest := cli("get", "manifest", name); !strings.Contains(manifest, `greeting: after`) {
		t.Errorf("Helm 3 sees\n%s", manifest)
	}
	a.must(t, http.StatusOK, http.MethodDelete, plan, nil)
	eventually(t, "the plan is gone", a.is(http.StatusNotFound, http.MethodGet, plan))
	a.must(t, http.StatusNotFound, http.MethodGet, web, nil)
	if list := cli("list", "--all", "--short"); strings.TrimSpace(list) != "" {
		t.Errorf("Helm 3 still sees %s", list)
	}
}
