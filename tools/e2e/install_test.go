package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/tools/stack"
)

// script runs a script of hack/ with kubectl and the admin's kubeconfig of s.
func script(ctx context.Context, s *stack.Stack, name string, env ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "bash", filepath.Join("hack", name))
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "KUBECTL="+s.Program("kubectl"), "KUBECONFIG="+filepath.Join(s.Dir, "kubeconfig"))
	cmd.Env = append(cmd.Env, env...)
	return cmd.CombinedOutput()
}

// The script tries each admission policy as people whom RBAC alone would let pass (S6 to S8).
func TestAdmissionPoliciesHold(t *testing.T) {
	proves(t, "S6", "S7", "S8")
	out, err := script(t.Context(), product, "verify-admission.sh")
	if err != nil || strings.Contains(string(out), "FAILED") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What runs in a cluster is accepted by one: nothing is started.
func TestWhatIsDeployedIsAccepted(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "kubeconfig"),
		"apply", "--server-side", "--dry-run=server", "--validate=strict", "-o", "name", "-k", filepath.Join("..", "..", "config", "default"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"deployment.apps/ks-apiserver", "deployment.apps/ks-controller-manager", "service/ks-apiserver",
		"service/ks-controller-manager"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %s in %s", want, out)
		}
	}
}

// What nobody has named images for is not deployed, and nothing is changed.
func TestNothingIsDeployedWithoutImages(t *testing.T) {
	out, err := script(t.Context(), product, "deploy.sh")
	if err == nil || !strings.Contains(string(out), "Nothing was changed") || strings.Contains(string(out), "Applying") {
		t.Errorf("got %v, want a refusal that says how to name images:\n%s", err, out)
	}
}

// One kind without its CRD concerns that kind alone, is shown, and heals (U15, U40).
func TestAMissingCRDConcernsItsKindAlone(t *testing.T) {
	a := admin(t)
	crd := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workspaceroles.iam.kubesphere.io"
	a.must(t, http.StatusOK, http.MethodDelete, crd, nil)
	t.Cleanup(func() {
		if out, err := script(context.Background(), product, "install.sh"); err != nil {
			t.Errorf("install again: %v\n%s", err, out)
		}
	})
	degraded := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := anonymous().do(ctx, http.MethodGet, "/readyz?verbose", nil)
			if err == nil && (r.code != http.StatusOK || strings.Contains(r.body, "[!]cache/workspaceroles.iam.kubesphere.io") != want) {
				err = fmt.Errorf("%d %s", r.code, r.body)
			}
			return err
		}
	}
	eventually(t, "/readyz shows it and stays ready", degraded(true))
	a.must(t, http.StatusOK, http.MethodGet, kapis+"/pods?limit=1", nil)
	loginAt(t, product.URL, "admin", product.AdminPassword)
	if r := newUser(t, unique("stillhere")).must(t, http.StatusForbidden, http.MethodGet, kapis+"/nodes", nil); !strings.Contains(r.body, "forbidden") {
		t.Errorf("a refusal: %s", r.body)
	}
	if out, err := script(t.Context(), product, "install.sh"); err != nil {
		t.Fatalf("install again: %v\n%s", err, out)
	}
	eventually(t, "it heals", degraded(false))
}

// looseCRD is a definition as an older installation has it: several versions, and a schema that asks nothing.
func looseCRD(group, kind, plural string, versions ...string) map[string]any {
	var vs []any
	for i, v := range versions {
		vs = append(vs, map[string]any{"name": v, "served": true, "storage": i == len(versions)-1, "schema": map[string]any{
			"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + "." + group},
		"spec": map[string]any{"group": group, "scope": "Cluster", "versions": vs,
			"names": map[string]any{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"}},
	}
}

// A cluster that has the CRDs and objects of an installation, without sub-resources and with loose schemas, is
// served as it is: its admin logs in with his old password, and its roles count.
func TestAnExistingInstallationIsServedAsItIs(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	dir := newPlane(t)
	create := func(object string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(dir, "kubeconfig"), "apply", "--server-side", "-f", "-")
		cmd.Stdin = strings.NewReader(object)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, c := range []map[string]any{
		looseCRD("iam.kubesphere.io", "User", "users", "v1alpha2", "v1beta1"),
		looseCRD("iam.kubesphere.io", "GlobalRole", "globalroles", "v1alpha2", "v1beta1"),
		looseCRD("iam.kubesphere.io", "GlobalRoleBinding", "globalrolebindings", "v1alpha2", "v1beta1"),
		looseCRD("tenant.kubesphere.io", "Workspace", "workspaces", "v1alpha1", "v1beta1"),
	} {
		create(encode(t, c))
	}
	wait := exec.CommandContext(
		t.Context(),
		product.Program("kubectl"),
		"--kubeconfig",
		filepath.Join(dir, "kubeconfig"),
		"wait",
		"--for=condition=Established",
		"crd",
		"--all",
		"--timeout=240s",
	)
	if out, err := wait.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const hash = "$2a$10$TZjAN835Tmr/KE4.8zb.hetCut1ZDadYLBU54agr8Nkphy6D.gthO" // of P@88w0rd
	create(
		`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"User","metadata":{"name":"admin","annotations":{"iam.kubesphere.io/globalrole":"platform-admin","someone.example.com/own":"kept"}},
"spec":{"email":"admin@kubesphere.io","password":"` + hash + `"},"status":{"state":"Active"}}`,
	)
	create(
		`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"GlobalRole","metadata":{"name":"platform-admin"},"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]},{"nonResourceURLs":["*"],"verbs":["*"]}]}`,
	)
	create(
		`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"GlobalRoleBinding","metadata":{"name":"admin"},"roleRef":{"apiGroup":"iam.kubesphere.io","kind":"GlobalRole","name":"platform-admin"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"admin"}]}`,
	)
	create(`{"apiVersion":"tenant.kubesphere.io/v1beta1","kind":"Workspace","metadata":{"name":"old"},"spec":{"manager":"admin"}}`)

	options := options
	options.Dir = dir
	options.Env = []string{"ADMIN_PASSWORD=P@88w0rd"}
	served, err := stack.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = served.Stop() })
	a := loginAt(t, served.URL, "admin", "P@88w0rd")
	if l := a.list(t, "/kapis/tenant.kubesphere.io/v1beta1/workspaces"); !slices.Contains(l.names(), "old") {
		t.Errorf("workspaces %v", l.names())
	}
	eventually(t, "its platform-admin counts at kube-apiserver", a.is(http.StatusOK, http.MethodGet, "/api/v1/nodes"))
	kube, err := served.KubeClient()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := kube.RESTClient().Get().AbsPath(iamAPI + "/users/admin").DoRaw(t.Context())
	if err != nil || !strings.Contains(string(kept), hash) || !strings.Contains(string(kept), "someone.example.com/own") {
		t.Errorf("the admin was changed: %s %v", clip(string(kept)), err)
	}
	if out := a.must(t, http.StatusOK, http.MethodGet, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/users.iam.kubesphere.io",
		nil); strings.Contains(out.body, `"subresources"`) {
		t.Error("its CRD was taken over without being asked to")
	}
}

// consoleClient is what the Secret of the console's client says, "" where there is none.
func consoleClient(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(dir, "kubeconfig"), "-n", "kubesphere-system",
		"get", "secret", "oauthclient-kubesphere", "--ignore-not-found", "-o", `go-template={{index .data "configuration.yaml" | base64decode}}`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// S76. A new cluster gets a secret of its own. Installing again keeps it, and so does taking over what was there before.
func TestAnInstallationMakesASecretForTheConsole(t *testing.T) {
	proves(t, "S76")
	t.Parallel() // it has a control plane of its own
	dir := newPlane(t)
	install := func(env ...string) string {
		t.Helper()
		out, err := script(t.Context(), &stack.Stack{}, "install.sh", append([]string{
			"KUBECTL=" + product.Program("kubectl"), "KUBECONFIG=" + filepath.Join(dir, "kubeconfig")}, env...)...)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	secretOf := func() string {
		t.Helper()
		var c struct{ Name, Secret string }
		if err := yaml.Unmarshal([]byte(consoleClient(t, dir)), &c); err != nil || c.Name != "kubesphere" {
			t.Fatalf("%+v, %v", c, err)
		}
		return c.Secret
	}
	said := install()
	made := secretOf()
	if len(made) < 43 || strings.Contains(said, made) || !strings.Contains(said, "made: the console's OAuth client") {
		t.Errorf("a secret of %d characters; said was\n%s", len(made), strings.ReplaceAll(said, made, "(the secret)"))
	}
	for _, env := range []string{"ADOPT=no", "ADOPT=yes"} {
		if said := install(env); secretOf() != made || strings.Contains(said, made) || strings.Contains(said, "WARNING") {
			t.Errorf("%s: another secret, or said was\n%s", env, strings.ReplaceAll(said, made, "(the secret)"))
		}
	}
	kubectl := func(stdin string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(
			t.Context(),
			product.Program("kubectl"),
			append([]string{"--kubeconfig", filepath.Join(dir, "kubeconfig"), "-n", "kubesphere-system"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	kubectl("", "delete", "secret", "oauthclient-kubesphere")
	install()
	if again := secretOf(); again == made || len(again) < 43 {
		t.Errorf("deleted and made again it has %d characters, or is the same", len(again))
	}
	kubectl("", "delete", "secret", "oauthclient-kubesphere")
	kubectl(encode(t, obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": "oauthclient-kubesphere"}, "type": "config.kubesphere.io/oauthclient",
		"stringData": obj{"configuration.yaml": "name: kubesphere\nsecret: kubesphere\ntrusted: true\n"}}), "apply", "-f", "-")
	for _, env := range []string{"ADOPT=no", "ADOPT=yes"} {
		if said := install(env); secretOf() != "kubesphere" || !strings.Contains(said, "WARNING") {
			t.Errorf("%s: an existing secret was replaced, or its weakness not named:\n%s", env, said)
		}
	}
}
