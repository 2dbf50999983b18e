package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// system is where the platform's own objects are, as a path.
const system = "/api/v1/namespaces/kubesphere-system"

// shell runs a script of bash with kubectl in the path, as the cluster's admin.
func shell(ctx context.Context, text string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-euo", "pipefail", "-c", text, "bash"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(product.Dir, "kubeconfig"),
		"PATH="+filepath.Dir(product.Program("kubectl"))+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// mustShell is shell, which has to work.
func mustShell(t *testing.T, text string, args ...string) string {
	t.Helper()
	out, err := shell(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
	return out
}

// A role that shows everything but Secrets shows nothing of the configuration, in which there may be passwords and keys.
func TestWhoMayNotReadSecretsReadsNoConfiguration(t *testing.T) {
	a, name := admin(t), unique("viewer")
	viewer := newUser(t, name)
	members := iamRoutes + "/clustermembers"
	a.must(t, http.StatusOK, http.MethodPost, members, []obj{{"username": name, "roleRef": "cluster-viewer"}})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, members+"/"+name, nil) })
	eventually(t, "the role counts", viewer.is(http.StatusOK, http.MethodGet, system+"/configmaps"))
	for _, path := range []string{system + "/configmaps", "/kapi/v1/namespaces/kubesphere-system/configmaps", kapis + "/namespaces/kubesphere-system/configmaps"} {
		if r := viewer.must(t, http.StatusOK, http.MethodGet, path, nil); strings.Contains(r.body, "kubesphere.yaml") {
			t.Errorf("%s shows the configuration", path)
		}
	}
	for _, path := range []string{system + "/secrets/kubesphere-config", kapis + "/namespaces/kubesphere-system/secrets/kubesphere-config"} {
		viewer.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		a.must(t, http.StatusOK, http.MethodGet, path, nil)
	}
}

// pkg/config reads the file in the folder, and else the one below configmap/.
func TestTheDeploymentsMountTheSecretBeforeTheConfigMap(t *testing.T) {
	programs := 0
	for _, document := range strings.Split(mustShell(t, "kubectl kustomize config/default"), "\n---\n") {
		var d appsv1.Deployment
		if !strings.Contains(document, "\nkind: Deployment\n") {
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(document), &d); err != nil {
			t.Fatal(err)
		}
		programs++
		pod := d.Spec.Template.Spec
		m := pod.Containers[0].VolumeMounts
		if len(m) == 0 || m[0].MountPath != "/etc/kubesphere" || !m[0].ReadOnly || len(pod.Volumes) != len(m) || pod.Volumes[0].Projected == nil {
			t.Fatalf("%s mounts %+v of %+v", d.Name, m, pod.Volumes)
		}
		for i, v := range pod.Volumes[1:] { // uploads of files wait there
			if m[i+1].MountPath != "/tmp" || v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil {
				t.Errorf("%s mounts %+v of %+v, want a bounded folder at /tmp", d.Name, m[i+1], v)
			}
		}
		sources := pod.Volumes[0].Projected.Sources
		if len(sources) != 2 || sources[0].Secret == nil || sources[1].ConfigMap == nil {
			t.Fatalf("%s: %+v", d.Name, sources)
		}
		s, c := sources[0].Secret, sources[1].ConfigMap
		if s.Name != "kubesphere-config" || s.Optional == nil || !*s.Optional || s.Items != nil {
			t.Errorf("%s: %+v", d.Name, s)
		}
		if c.Name != "kubesphere-config" || c.Optional == nil || !*c.Optional || len(c.Items) != 1 ||
			c.Items[0] != (corev1.KeyToPath{Key: "kubesphere.yaml", Path: "configmap/kubesphere.yaml"}) {
			t.Errorf("%s: %+v", d.Name, c)
		}
	}
	if programs != 2 {
		t.Errorf("%d deployments", programs)
	}
}

// Installing again leaves a configuration as it is. The ConfigMap of an older installation counts until the commands of docs/existing.md move it into a Secret.
func TestTheConfigurationOfAnInstallationMovesIntoASecret(t *testing.T) {
	const text = "authentication:\n  issuer:\n    url: https://old.example\n    jwtSecret: \"pT4kZs1wQ8vN3xLb7RcY2mHd6JfG9aEu\"\n"
	drop := func(ctx context.Context) {
		if out, err := shell(ctx, "kubectl -n kubesphere-system delete --ignore-not-found secret/kubesphere-config configmap/kubesphere-config"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	t.Cleanup(func() {
		drop(context.Background())
		if out, err := shell(context.Background(), "hack/install.sh"); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	debugged := func() string {
		folder := t.TempDir()
		mustShell(t, `hack/local-debug.sh --kubeconfig "$KUBECONFIG" --output "$1"`, folder)
		b, err := os.ReadFile(filepath.Join(folder, "kubesphere.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := debugged(); !strings.Contains(got, "url: https://ks-apiserver.kubesphere-system.svc") {
		t.Errorf("what make install writes is not fetched: %s", got)
	}
	mustShell(t, `kubectl -n kubesphere-system patch secret kubesphere-config -p '{"stringData":{"kubesphere.yaml":"# edited"}}' && hack/install.sh`)
	if got := debugged(); got != "# edited" {
		t.Errorf("installing again has made it %q", got)
	}
	drop(t.Context())
	mustShell(t, `kubectl -n kubesphere-system create configmap kubesphere-config --from-literal=kubesphere.yaml="$1"`, text)

	const none = "kubectl -n kubesphere-system get secret kubesphere-config --ignore-not-found -o name"
	if out := mustShell(t, "hack/install.sh"); !strings.Contains(out, "left as it is: ConfigMap kubesphere-config") || mustShell(t, none) != "" {
		t.Errorf("a Secret would count in the place of the ConfigMap; said was\n%s", out)
	}
	if got := debugged(); got != text {
		t.Errorf("fetched %q", got)
	}

	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "existing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(docs), "## Its configuration")
	_, after, _ = strings.Cut(after, "\n```\n")
	commands, _, found := strings.Cut(after, "\n```\n")
	if !found {
		t.Fatal("docs/existing.md has no commands")
	}
	mustShell(t, commands)
	if left := mustShell(t, "kubectl -n kubesphere-system get configmap kubesphere-config --ignore-not-found -o name"); left != "" {
		t.Error("the ConfigMap is still there")
	}
	for _, install := range []string{"true", "hack/install.sh", "ADOPT=yes hack/install.sh"} {
		mustShell(t, install)
		if got := debugged(); got != text {
			t.Errorf("after %s it is %q", install, got)
		}
	}
}
