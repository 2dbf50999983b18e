package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// helmPrograms are ks-controller-manager as it is shipped, since the race detector takes more memory than an operation may, and Helm's own CLI.
var helmPrograms struct {
	sync.Once
	manager, cli string
	err          error
}

func helmProgram(t *testing.T) (manager, cli string) {
	t.Helper()
	p := &helmPrograms
	p.Do(func() { p.err = buildHelmPrograms(filepath.Join(product.Dir, "helm"), &p.manager, &p.cli) })
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.manager, p.cli
}

// buildHelmPrograms builds Helm's CLI of the version that go.mod names, with a copy of go.mod: the product needs nothing of what it imports beyond the SDK.
func buildHelmPrograms(dir string, manager, cli *string) error {
	repo, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		raw, err := os.ReadFile(filepath.Join(repo, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			return err
		}
	}
	*manager, *cli = filepath.Join(dir, "ks-controller-manager"), filepath.Join(dir, "helm")
	for _, args := range [][]string{
		{"build", "-ldflags=-s", "-o", *manager, "./cmd/ks-controller-manager"},
		{"build", "-ldflags=-s", "-modfile=" + filepath.Join(dir, "go.mod"), "-mod=mod", "-o", *cli, "helm.sh/helm/v4/cmd/helm"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = repo
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// helmRelease is a release in a namespace of its own, applied as an installer that may do anything.
type helmRelease struct {
	t         *testing.T
	executor  *helm.Executor
	client    *kubernetes.Clientset
	config    *rest.Config
	namespace string
	user      string
	events    []helm.Event
	event     func(helm.Event)
}

func newHelmRelease(t *testing.T, o helm.Options) *helmRelease {
	t.Helper()
	cfg, err := product.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	name := unique("helm")
	r := &helmRelease{t: t, client: client, config: cfg, namespace: name, user: "system:serviceaccount:" + name + ":helm-executor"}
	r.limit(o)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "kapis:extension:" + name}}}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.RbacV1().ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	eventually(t, "kube-apiserver knows the installer's rights", func(ctx context.Context) error {
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: r.user, Groups: []string{"kapis:extension:" + name},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: name, Verb: "create", Resource: "configmaps"}}}, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = errors.New("none yet")
		}
		return err
	})
	return r
}

// limit has the operations that follow run with other options.
func (r *helmRelease) limit(o helm.Options) {
	r.t.Helper()
	manager, _ := helmProgram(r.t)
	o.Program = []string{manager, helm.Subcommand}
	r.executor = helm.New(o)
}

// run runs an operation on the release "shop", with its events noted.
func (r *helmRelease) run(ctx context.Context, q helm.Request) (*helm.Result, error) {
	cluster, err := helm.ConnectionOf(r.config, r.user, []string{"kapis:extension:" + r.namespace})
	if err != nil {
		return nil, err
	}
	q.Name, q.Namespace, q.Cluster = "shop", r.namespace, cluster
	q.Labels, q.DropStatusOf = map[string]string{"kubesphere.io/extension-ref": "shop"}, "extensions.kubesphere.io"
	r.events = nil
	return r.executor.Run(ctx, q, func(e helm.Event) {
		r.events = append(r.events, e)
		if r.event != nil {
			r.event(e)
		}
	})
}

func (r *helmRelease) must(q helm.Request) *helm.Result {
	r.t.Helper()
	result, err := r.run(r.t.Context(), q)
	if err != nil {
		r.t.Fatalf("%s: %v (%+v)", q.Operation, err, result)
	}
	return result
}

// refused runs an operation that fails with a reason, and a text in its message.
func (r *helmRelease) refused(q helm.Request, reason helm.Reason, says string) *helm.Result {
	r.t.Helper()
	result, err := r.run(r.t.Context(), q)
	var e *helm.Error
	if !errors.As(err, &e) || e.Reason != reason || !strings.Contains(e.Message, says) {
		r.t.Errorf("%s: %v, %v; want %s: %s", q.Operation, result, err, reason, says)
	}
	return result
}

// configMap returns what is in a ConfigMap, nil where there is none.
func (r *helmRelease) configMap(name string) *corev1.ConfigMap {
	r.t.Helper()
	c, err := r.client.CoreV1().ConfigMaps(r.namespace).Get(r.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return c
}

// records returns the status of each revision.
func (r *helmRelease) records() []string {
	r.t.Helper()
	list, err := r.client.CoreV1().Secrets(r.namespace).List(r.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=shop"})
	if err != nil {
		r.t.Fatal(err)
	}
	var all []string
	for _, s := range list.Items {
		all = append(all, s.Labels["version"]+" "+s.Labels["status"])
	}
	slices.Sort(all)
	return all
}

func (r *helmRelease) wantRecords(want ...string) {
	r.t.Helper()
	if is := r.records(); !slices.Equal(is, want) {
		r.t.Errorf("the records are %v, want %v", is, want)
	}
}

// cli runs Helm's CLI as the cluster's administrator.
func (r *helmRelease) cli(args ...string) string {
	r.t.Helper()
	_, cli := helmProgram(r.t)
	cmd := exec.CommandContext(r.t.Context(), cli, append([]string{"--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "-n", r.namespace}, args...)...)
	cmd.Env = []string{"HOME=" + r.t.TempDir(), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("helm %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// packChart packs a chart named shop.
func packChart(t *testing.T, version string, files map[string]string) []byte {
	t.Helper()
	all := map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: " + version + "\n"}
	maps.Copy(all, files)
	return charttest.Pack(t, "shop", all)
}

// template returns the manifest of a ConfigMap with one value.
func configMapOf(name, value string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

func apply(chart []byte, id string) helm.Request {
	return helm.Request{Operation: helm.Apply, Chart: chart, ID: id}
}

// helmChildren returns the processes of operations that this test started.
func helmChildren(t *testing.T) (pids []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	manager, _ := helmProgram(t)
	for _, file := range found {
		raw, err := os.ReadFile(file)
		if err == nil && string(raw) == manager+"\x00"+helm.Subcommand+"\x00" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

const shopTemplates = `
{{- range $i := until 17 }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: shop-{{ $i }}}
data: {value: {{ $.Values.value | quote }}}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, labels: {kubesphere.io/extension-ref: other}}
spec:
  replicas: 1
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: example/shop}]}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: extensions.kubesphere.io/v1alpha1
kind: ReverseProxy
metadata: {name: {{ .Release.Namespace }}}
spec: {matcher: {path: /proxy/{{ .Release.Namespace }}/*, method: "*"}, upstream: {url: "https://shop.example.com"}}
status: {state: Disabled}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
data: {value: hook}
`

// X19, X41, X27: a release of 20 objects is installed, upgraded and uninstalled; its objects have our labels and states; Helm's CLI reads it, and each upgrades
// what the other one has applied.
func TestAReleaseIsOursAndHelms(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	files := map[string]string{"templates/all.yaml": shopTemplates, "values.yaml": "value: default\n"}
	first := packChart(t, "1.0.0", files)
	q := apply(first, "op-1")
	q.Values = []byte("value: one")
	result := r.must(q)
	if result.Release.Status != "deployed" || result.Release.Revision != 1 || result.Release.ID != "op-1" || result.Release.ChartVersion != "1.0.0" {
		t.Errorf("%+v", result.Release)
	}
	if c := r.configMap("shop-16"); c == nil || c.Data["value"] != "one" || c.Labels["kubesphere.io/extension-ref"] != "shop" {
		t.Errorf("%+v", c)
	}
	if c := r.configMap("hook"); c == nil || c.Labels["kubesphere.io/extension-ref"] != "shop" {
		t.Errorf("the hook is %+v", c)
	}
	d, err := r.client.AppsV1().Deployments(r.namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || d.Labels["kubesphere.io/extension-ref"] != "shop" || len(d.Spec.Selector.MatchLabels) != 1 || len(d.Spec.Template.Labels) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	rp, err := r.client.RESTClient().Get().AbsPath(extensionsAPI + "/reverseproxies/" + r.namespace).DoRaw(t.Context())
	if err != nil || strings.Contains(string(rp), "Disabled") || !strings.Contains(string(rp), `"kubesphere.io/extension-ref":"shop"`) {
		t.Errorf("%s, %v", rp, err)
	}
	// Once: an operation that is repeated changes nothing.
	if again := r.must(q); !again.Unchanged || again.Release.Revision != 1 {
		t.Errorf("%+v", again)
	}

	if list := r.cli("list"); !strings.Contains(list, "shop-1.0.0") || !strings.Contains(list, "deployed") {
		t.Error(list)
	}
	if manifest := r.cli("get", "manifest", "shop"); strings.Count(manifest, "kubesphere.io/extension-ref: ") != 20 || strings.Contains(manifest, "other") {
		t.Error(manifest)
	}
	dir := filepath.Join(t.TempDir(), "shop.tgz")
	if err := os.WriteFile(dir, packChart(t, "1.1.0", files), 0o600); err != nil {
		t.Fatal(err)
	}
	r.cli("upgrade", "shop", dir, "--set", "value=two")
	if c := r.configMap("shop-3"); c == nil || c.Data["value"] != "two" {
		t.Errorf("%+v", c)
	}
	if s := r.must(helm.Request{Operation: helm.Status}); s.Release.Revision != 2 || s.Release.ID != "" || s.Release.ChartVersion != "1.1.0" {
		t.Errorf("%+v", s.Release)
	}
	files["templates/all.yaml"] = strings.Replace(shopTemplates, "until 17", "until 15", 1)
	q = apply(packChart(t, "1.2.0", files), "op-2")
	q.Values = []byte("value: three")
	result = r.must(q)
	if result.Release.Revision != 3 || r.configMap("shop-16") != nil || r.configMap("shop-14").Data["value"] != "three" {
		t.Errorf("%+v", result.Release)
	}
	r.wantRecords("1 superseded", "2 superseded", "3 deployed")
	if back := r.must(helm.Request{Operation: helm.Rollback}); back.Release.Revision != 4 || r.configMap("shop-16").Data["value"] != "two" {
		t.Errorf("%+v", back.Release)
	}
	if result = r.must(helm.Request{Operation: helm.Uninstall}); len(result.Kept) != 0 || r.configMap("shop-1") != nil || len(r.records()) != 0 {
		t.Errorf("%+v, %v", result, r.records())
	}
	r.must(helm.Request{Operation: helm.Uninstall})
	r.refused(helm.Request{Operation: helm.Status}, helm.ReasonNotFound, "no record")

	// Installed by the CLI, by server-side apply: fields that we leave out are gone.
	r.cli("install", "shop", dir, "--set", "value=two")
	files["templates/all.yaml"] = strings.Replace(shopTemplates, "ports: [{port: 80}]", "ports: [{port: 81}]", 1)
	result = r.must(apply(packChart(t, "1.3.0", files), "op-3"))
	if result.Release.Revision != 2 || r.configMap("shop-1").Data["value"] != "default" {
		t.Errorf("%+v", result.Release)
	}
	s, err := r.client.CoreV1().Services(r.namespace).Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Port != 81 {
		t.Errorf("%+v, %v", s, err)
	}
	r.must(helm.Request{Operation: helm.Uninstall, Orphan: true})
	if r.configMap("shop-1") == nil || len(r.records()) != 0 {
		t.Error("the objects of an orphaned release are gone, or its records are not")
	}
}

// X25: after a failed upgrade the former version runs, unless it shall not.
func TestAFailedUpgradeLeavesTheFormerVersion(t *testing.T) {
	r := newHelmRelease(t, helm.Options{HistoryMax: 3})
	r.must(apply(packChart(t, "1.0.0", map[string]string{"templates/a.yaml": configMapOf("a", "one") + configMapOf("b", "one")}), ""))
	// kube-apiserver refuses the second object, after the first was changed.
	broken := packChart(t, "2.0.0", map[string]string{"templates/a.yaml": configMapOf("a", "two") +
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {clusterIP: nonsense, ports: [{port: 80}]}\n"})
	result := r.refused(apply(broken, "op"), helm.ReasonFailed, "nonsense")
	if !result.RolledBack || result.Release.ChartVersion != "1.0.0" || result.Release.Status != "deployed" {
		t.Errorf("%+v", result.Release)
	}
	if r.configMap("a").Data["value"] != "one" || r.configMap("b") == nil {
		t.Error("the former version does not run")
	}
	r.wantRecords("1 superseded", "2 failed", "3 deployed")
	q := apply(broken, "op")
	q.KeepFailed = true
	if result = r.refused(q, helm.ReasonFailed, "nonsense"); result.RolledBack || result.Release.Status != "failed" || r.configMap("a").Data["value"] != "two" {
		t.Errorf("%+v", result.Release)
	}
	r.must(apply(packChart(t, "3.0.0", map[string]string{"templates/a.yaml": configMapOf("a", "three")}), ""))
	if c := r.configMap("a"); c.Data["value"] != "three" || r.configMap("b") != nil {
		t.Errorf("%+v", c)
	}
	if n := len(r.records()); n != 3 {
		t.Errorf("%d records, want 3", n)
	}
	// Uninstalled after a failed upgrade: what only the former version has goes, too.
	r.must(apply(packChart(t, "4.0.0", map[string]string{"templates/a.yaml": configMapOf("a", "four") + configMapOf("c", "four")}), ""))
	r.refused(q, helm.ReasonFailed, "nonsense")
	if r.configMap("c") == nil {
		t.Error("the failed upgrade has deleted what it does not have")
	}
	r.must(helm.Request{Operation: helm.Uninstall})
	if r.configMap("a") != nil || r.configMap("c") != nil {
		t.Error("an object is left")
	}
}

const neverEndingHook = `{{ if .Values.wait }}
apiVersion: batch/v1
kind: Job
metadata: {name: wait, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: wait, image: example/wait}]}}}
{{ end }}`

const neverEndingLoop = `{{ if .Values.loop }}{{ range $a := until 100000 }}{{ range $b := until 100000 }}{{ end }}{{ end }}{{ end }}`

// X26: an operation whose process is killed, at whichever step, is finished by the next one.
func TestAKilledOperationIsFinished(t *testing.T) {
	r := newHelmRelease(t, helm.Options{})
	files := map[string]string{"templates/all.yaml": shopTemplates, "templates/wait.yaml": neverEndingHook, "templates/loop.yaml": neverEndingLoop,
		"values.yaml": "value: default\nwait: false\nloop: false\n"}
	chart := packChart(t, "1.0.0", files)
	kill := func(pids []int) {
		for _, pid := range pids {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
	// run runs an operation whose process, and not that of the next one, is killed in the phase of applying as soon as now is true.
	run := func(q helm.Request, now func() bool) error {
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		r.event = func(e helm.Event) {
			if e.Phase != helm.PhaseApplying {
				return
			}
			pids := helmChildren(t)
			watching.Go(func() {
				if waitFor(ctx, now) == nil {
					kill(pids)
				}
			})
		}
		_, err := r.run(t.Context(), q)
		r.event = nil
		cancel()
		watching.Wait()
		return err
	}
	killed := func(when string, err error) {
		t.Helper()
		var e *helm.Error
		if !errors.As(err, &e) || e.Reason != helm.ReasonInterrupted || !e.Transient {
			t.Errorf("killed %s: %v", when, err)
		}
	}
	waits := func(id string) helm.Request {
		q := apply(chart, id)
		q.Values = []byte("wait: true")
		return q
	}
	pending := func(status string) func() bool {
		return func() bool {
			return slices.ContainsFunc(r.records(), func(s string) bool { return strings.Contains(s, status) })
		}
	}
	q := apply(chart, "op")
	q.Values = []byte("loop: true") // it renders until it is killed
	r.event = func(e helm.Event) {
		if e.Phase == helm.PhaseRendering {
			kill(helmChildren(t))
		}
	}
	_, err := r.run(t.Context(), q)
	r.event = nil
	killed("before anything", err)
	r.wantRecords()
	killed("while it installed", run(waits("op"), pending("pending-install")))
	r.wantRecords("1 pending-install")
	if result := r.must(apply(chart, "op")); result.Release.Revision != 2 || r.configMap("shop-3") == nil {
		t.Errorf("%+v", result.Release)
	}
	r.wantRecords("1 failed", "2 deployed")
	if result := r.must(apply(chart, "op")); !result.Unchanged {
		t.Errorf("it was done twice: %+v", result.Release)
	}
	chart = packChart(t, "2.0.0", files)
	killed("while it upgraded", run(waits("op-2"), pending("pending-upgrade")))
	q = apply(chart, "op-2")
	q.Values = []byte("value: two")
	if result := r.must(q); result.Release.ChartVersion != "2.0.0" || r.configMap("shop-3").Data["value"] != "two" {
		t.Errorf("%+v", result.Release)
	}
	// While it changes objects: after the one, and after the last.
	for i, name := range []string{"hook", "shop-0", "shop-7", "shop-9"} {
		version := "3.0." + strconv.Itoa(i)
		q := apply(packChart(t, version, files), "op-"+version)
		q.Values = []byte("value: " + strconv.Quote(version))
		before := r.configMap(name).ResourceVersion
		err := run(q, func() bool { c := r.configMap(name); return c != nil && c.ResourceVersion != before })
		t.Logf("killed after %s was written: %v, %v", name, err, r.records()) // it may have been faster
		if result := r.must(q); result.Release.ChartVersion != version || result.Release.Status != "deployed" {
			t.Errorf("%+v", result.Release)
		}
		for i := range 17 {
			if c := r.configMap("shop-" + strconv.Itoa(i)); c == nil || c.Data["value"] != version {
				t.Errorf("%s: %+v", version, c)
			}
		}
	}
	for _, s := range r.records() {
		if strings.Contains(s, "pending") {
			t.Errorf("left: %s", s)
		}
	}
	r.must(helm.Request{Operation: helm.Uninstall})
	if r.configMap("shop-1") != nil || len(r.records()) != 0 {
		t.Error("something is left")
	}
}

// waitFor polls until f is true.
func waitFor(ctx context.Context, f func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
