package installplan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/auth/rbac/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/helm"
)

func TestAPlanIsInstalledOnce(t *testing.T) { // X20
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	p := w.get("shop")
	if got := states(p); got != "Preparing Installing Installed" || p.Status.Version != "1.0.0" || !p.Status.Enabled ||
		p.Status.TargetNamespace != "extension-shop" || p.Status.ReleaseName != "shop" || p.Status.ConfigHash == "" {
		t.Errorf("states %q, status %+v", got, p.Status)
	}
	for _, c := range []string{"Approved", "DependenciesMet", "Initialized", "Installed"} {
		if got := condition(p, c); !strings.HasPrefix(got, "True") {
			t.Errorf("condition %s: %q", c, got)
		}
	}
	if again := w.reconcile("shop"); again != 0 || condition(w.get("shop"), "Ready") != "True Ready" {
		t.Errorf("%q, again in %v", condition(w.get("shop"), "Ready"), again)
	}
	before := w.writes
	w.reconcile("shop")
	if len(w.applied) != 1 || w.writes != before {
		t.Errorf("a settled plan: %d operations, %d writes", len(w.applied), w.writes-before)
	}
	r := w.applied[0]
	if r.Name != "shop" || r.Namespace != "extension-shop" || r.Cluster.User != "kapis:installer:shop" ||
		!slices.Equal(r.Cluster.Groups, []string{"kapis:extension:shop"}) || r.Labels[v1alpha1.LabelExtension] != "shop" || r.DropStatusOf != "extensions.kubesphere.io" {
		t.Errorf("%+v", r)
	}
	var values map[string]any
	if err := yaml.Unmarshal(r.Values, &values); err != nil {
		t.Fatal(err)
	}
	tags, agent := values["tags"].(map[string]any), values["agent"].(map[string]any)
	if tags["extension"] != true || tags["agent"] != false || agent["enabled"] != false || values["replicas"] != float64(1) {
		t.Errorf("values %v", values)
	}
	namespace := &corev1.Namespace{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "extension-shop"}, namespace); err != nil ||
		namespace.Labels[v1alpha1.LabelExtension] != "shop" || namespace.Labels["kubesphere.io/workspace"] != "system-workspace" {
		t.Errorf("the namespace: %v %v", namespace.Labels, err)
	}
	log := &corev1.ConfigMap{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "extension-shop", Name: "shop-log"}, log); err != nil || log.Data["log"] == "" {
		t.Errorf("the log: %v %v", log.Data, err)
	}
	// An attempt that sees an older plan finds that it has been done already. The log is of the one that did it.
	w.unchanged = true
	w.change("shop", func(p *v1alpha1.InstallPlan) {
		delete(p.Annotations, v1alpha1.AnnotationOperation)
		p.Status.ConfigHash = ""
	})
	w.reconcile("shop")
	again := &corev1.ConfigMap{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(log), again); err != nil || len(w.applied) != 2 || again.ResourceVersion != log.ResourceVersion {
		t.Errorf("after %d operations the log is %v, %v", len(w.applied), again.Data, err)
	}
}

func TestNothingIsDoneWithoutAnApproval(t *testing.T) { // X18
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationApproved] = "another" })
	w.reconcile("shop")
	if p := w.get("shop"); condition(p, "Approved") != "False NotApproved" || p.Status.State != v1alpha1.StatePreparing || len(w.applied) > 0 {
		t.Errorf("%q in %q after %d operations", condition(p, "Approved"), p.Status.State, len(w.applied))
	}
	w.change("shop", func(*v1alpha1.InstallPlan) {})
	w.reconcile("shop")
	if len(w.applied) != 1 {
		t.Fatal("it is not installed once it is approved")
	}
	// Values decide what a chart does, too.
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "image: mine\n" })
	w.reconcile("shop")
	if p := w.get("shop"); condition(p, "Approved") != "False NotApproved" || len(w.applied) != 1 {
		t.Errorf("other values: %q, %d operations", condition(p, "Approved"), len(w.applied))
	}
	// Under the version that was approved, the repository has a chart that asks for more now; and the plan asks for something.
	v := &v1alpha1.ExtensionVersion{}
	v.Name = "shop-1.0.0"
	if err := w.client.Delete(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	w.version("shop", "1.0.0", permissions+"- {apiGroups: ['*'], resources: ['*'], verbs: ['*']}\n", nil)
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationRetry] = "now" })
	w.reconcile("shop")
	p := w.get("shop")
	if condition(p, "Approved") != "False NotApproved" || len(w.applied) != 1 || p.Status.State != v1alpha1.StateInstalled {
		t.Errorf("a chart that asks for more: %q, %d operations, %s", condition(p, "Approved"), len(w.applied), p.Status.State)
	}
}

func TestAnOperationHasItsRightsWhileItRuns(t *testing.T) { // X21
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.objects = append(w.objects, helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "shop",
		Gives: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}})
	w.plan("shop", "1.0.0", nil)
	w.late = 2
	w.reconcile("shop")
	if len(w.asked) != 4 || w.asked[3].Namespace != "extension-shop" || w.asked[3].Verb == "" || w.asked[3].Resource != "configmaps" || w.asked[3].Name != "web" {
		t.Errorf("it is not waited for its rights: %v", w.asked)
	}
	rule := func(verb, group, resource, name string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: []string{name}}}
	}
	for _, c := range []struct {
		namespace string
		rules     []rbacv1.PolicyRule
		want      bool
	}{
		{"extension-shop", rule("update", "", "configmaps", "web"), true},
		{"extension-shop", rule("update", "", "configmaps", "other"), false},
		{"extension-shop", rule("get", "", "secrets", "any"), false},
		{"", rule("update", "rbac.authorization.k8s.io", "clusterroles", "shop"), true},
		{"", rule("escalate", "rbac.authorization.k8s.io", "clusterroles", "shop"), false},
		{"", rule("get", "", "nodes", "any"), true},
	} {
		if got, _ := validation.Covers(w.rights[c.namespace], c.rules); got != c.want {
			t.Errorf("%v in %q: got %v, want %v", c.rules, c.namespace, got, c.want)
		}
	}
	if left := w.leftRights(); len(left) > 0 {
		t.Errorf("after the operation: %q", left)
	}
	// An upgrade deletes what the former version had, and that one's approval may have been another.
	w.recorded = []helm.Object{{APIVersion: "v1", Kind: "ConfigMap", Name: "former"}, {APIVersion: "v1", Kind: "ConfigMap", Namespace: "other", Name: "former"}}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "replicas: 2\n" })
	w.reconcile("shop")
	for _, c := range []struct {
		namespace string
		rules     []rbacv1.PolicyRule
		want      bool
	}{
		{"extension-shop", rule("update", "", "configmaps", "former"), true},
		{"other", rule("delete", "", "configmaps", "former"), true},
		{"other", rule("update", "", "configmaps", "former"), false},
	} {
		if got, _ := validation.Covers(w.rights[c.namespace], c.rules); got != c.want {
			t.Errorf("in the upgrade, %v in %q: got %v, want %v", c.rules, c.namespace, got, c.want)
		}
	}
}

func TestAChartThatNeedsMoreThanItAsksForIsNotApplied(t *testing.T) { // X21
	for name, o := range map[string]helm.Object{
		"AnotherNamespace": {APIVersion: "v1", Kind: "ConfigMap", Namespace: "kube-system", Name: "stolen"},
		"AccessTokens":     {APIVersion: "v1", Kind: "ConfigMap", Name: "own", Forwards: true}, // as an APIService may ask for them
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.version("shop", "1.0.0", permissions, nil)
			w.objects = append(w.objects, o)
			w.plan("shop", "1.0.0", nil)
			w.reconcile("shop")
			p := w.get("shop")
			if len(w.applied) > 0 || p.Status.State != v1alpha1.StateInstallFailed || condition(p, "Installed") != "False BeyondPermissions" {
				t.Errorf("%d operations, %s, %q", len(w.applied), p.Status.State, condition(p, "Installed"))
			}
		})
	}
}

func TestAnInterruptedOperationLeavesNoRights(t *testing.T) { // X21, X26
	left := metav1.ObjectMeta{Name: "kubesphere:shop:helm-executor", Labels: map[string]string{"kapis.dev/installer": "shop"}}
	other := metav1.ObjectMeta{Name: "mine", Labels: map[string]string{"kapis.dev/installer": "shop"}}
	inNamespace := *left.DeepCopy()
	inNamespace.Namespace = "kube-system"
	w := newWorld(t, &rbacv1.ClusterRole{ObjectMeta: left}, &rbacv1.ClusterRoleBinding{ObjectMeta: left}, &rbacv1.RoleBinding{ObjectMeta: inNamespace},
		&rbacv1.ClusterRole{ObjectMeta: other})
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		p.Annotations[v1alpha1.AnnotationApproved] = ""
		p.Status.State, p.Status.TargetNamespace = v1alpha1.StateInstalling, "extension-shop"
	})
	w.reconcile("shop")
	if got := w.leftRights(); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("%q", got)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) {
		p.Annotations = map[string]string{v1alpha1.AnnotationApproved: w.stamp(p, "1.0.0")}
	})
	w.reconcile("shop")
	if p := w.get("shop"); len(w.applied) != 1 || p.Status.State != v1alpha1.StateInstalled {
		t.Errorf("it is not finished: %d operations, %s", len(w.applied), p.Status.State)
	}
}

func TestAChangeIsAnUpgrade(t *testing.T) { // X20, X25
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "1.1.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.1.0" })
	w.reconcile("shop")
	p := w.get("shop")
	if states(p) != "Preparing Installing Installed Upgrading Installed" || p.Status.Version != "1.1.0" || condition(p, "Upgraded") != "True Upgraded" {
		t.Errorf("%q, %s, %q", states(p), p.Status.Version, condition(p, "Upgraded"))
	}
	w.fails, w.rollsBack = []*helm.Error{{Reason: helm.ReasonFailed, Message: "a hook failed"}}, true
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "replicas: 7\n" })
	if again := w.reconcile("shop"); again != 0 {
		t.Errorf("it is done again in %v: nothing says that it would succeed then", again)
	}
	p = w.get("shop")
	if p.Status.State != v1alpha1.StateUpgradeFailed || condition(p, "RolledBack") != "True Failed" || condition(p, "Upgraded") != "False Failed" ||
		p.Status.Version != "1.1.0" {
		t.Errorf("%s, %q, %q", p.Status.State, condition(p, "RolledBack"), condition(p, "Upgraded"))
	}
	done := len(w.applied)
	w.reconcile("shop")
	if len(w.applied) != done {
		t.Error("what failed is done again, and nobody asked for it")
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationRetry] = "1" })
	w.reconcile("shop")
	if p = w.get("shop"); p.Status.State != v1alpha1.StateInstalled || condition(p, "RolledBack") != "" || len(w.applied) != done+1 {
		t.Errorf("after a retry: %s, %q", p.Status.State, condition(p, "RolledBack"))
	}
}

func TestRetriesEnd(t *testing.T) { // X25
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	var waits []time.Duration
	for range 10 {
		w.fails = append(w.fails, &helm.Error{Reason: helm.ReasonUnreachable, Message: "away", Transient: true})
	}
	for again := w.reconcile("shop"); again > 0; again = w.reconcile("shop") {
		waits = append(waits, again)
		n := len(w.applied)
		w.now = w.now.Add(again - time.Second)
		if left := w.reconcile("shop"); left != time.Second || len(w.applied) != n { // what is written of it brings it back at once
			t.Fatalf("a second too early it is applied again: %d times, and then in %v", len(w.applied), left)
		}
		w.now = w.now.Add(time.Second)
	}
	if want := []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 150 * time.Second, 5 * time.Minute}; !slices.Equal(waits, want) {
		t.Errorf("%v", waits)
	}
	if p := w.get("shop"); len(w.applied) != 6 || p.Status.State != v1alpha1.StateInstallFailed || condition(p, "Installed") != "False Unreachable" {
		t.Errorf("%d, %s, %q", len(w.applied), p.Status.State, condition(p, "Installed"))
	}
}

func TestAPlanWaitsForWhatItNeeds(t *testing.T) { // X20
	w := newWorld(t)
	w.version("base", "1.0.0", "", nil)
	w.version("base", "2.0.0", "", nil)
	w.version("shop", "1.0.0", "", func(v *v1alpha1.ExtensionVersion) {
		v.Spec.ExternalDependencies = []v1alpha1.ExternalDependency{{Name: "base", Type: "extension", Version: ">=2.0.0", Required: true}, {Name: "nice"}}
	})
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	waits := func(want string) {
		t.Helper()
		if p := w.get("shop"); condition(p, "DependenciesMet") != "False DependenciesMissing" || len(p.Status.Version) > 0 {
			t.Errorf("%s: %q", want, condition(p, "DependenciesMet"))
		}
	}
	waits("not installed")
	w.plan("base", "1.0.0", nil)
	w.reconcile("base")
	w.reconcile("shop")
	waits("too old")
	w.change("base", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version, p.Spec.Enabled = "2.0.0", false })
	w.reconcile("base")
	w.reconcile("shop")
	waits("disabled")
	w.change("base", func(p *v1alpha1.InstallPlan) { p.Spec.Enabled = true })
	w.reconcile("base")
	w.reconcile("shop")
	if p := w.get("shop"); p.Status.State != v1alpha1.StateInstalled {
		t.Errorf("%s, %q", p.Status.State, condition(p, "DependenciesMet"))
	}
	// It is not removed while it is needed.
	if err := w.client.Delete(t.Context(), w.get("base")); err != nil {
		t.Fatal(err)
	}
	w.reconcile("base")
	if p := w.get("base"); condition(p, "Uninstalled") != "False Required" || len(w.removed) > 0 {
		t.Errorf("%q, %d removals", condition(p, "Uninstalled"), len(w.removed))
	}
	if err := w.client.Delete(t.Context(), w.get("shop")); err != nil {
		t.Fatal(err)
	}
	w.reconcile("shop")
	w.reconcile("base")
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "base"}, &v1alpha1.InstallPlan{}); !apierrors.IsNotFound(err) || len(w.removed) != 2 {
		t.Errorf("%v, %d removals", err, len(w.removed))
	}
}

func TestARemovalNeedsNeitherChartNorVersion(t *testing.T) { // X27
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	if err := w.client.Delete(t.Context(), &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: "shop-1.0.0"}}); err != nil {
		t.Fatal(err)
	}
	clear(w.charts)
	if err := w.client.Delete(t.Context(), w.get("shop")); err != nil {
		t.Fatal(err)
	}
	w.objects = append(w.objects, helm.Object{APIVersion: "batch/v1", Kind: "Job", Name: "bye", Hook: true},
		helm.Object{APIVersion: "gone.example.com/v1", Kind: "Gone", Name: "gone"})
	w.fails = []*helm.Error{{Reason: helm.ReasonFailed, Message: "a hook failed"}}
	if again := w.reconcile("shop"); again == 0 {
		t.Error("a removal that failed is not tried again")
	}
	if p := w.get("shop"); p.Status.State != v1alpha1.StateUninstallFailed || condition(p, "Uninstalled") != "False Failed" {
		t.Errorf("%s, %q", p.Status.State, condition(p, "Uninstalled"))
	}
	create := []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"batch"}, Resources: []string{"jobs"}}}
	if ok, _ := validation.Covers(w.rights["extension-shop"], create); !ok {
		t.Errorf("its hook can't run: %v", w.rights)
	}
	w.reconcile("shop")
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop"}, &v1alpha1.InstallPlan{}); !apierrors.IsNotFound(err) || len(w.removed) != 2 {
		t.Errorf("%v after %d removals", err, len(w.removed))
	}
	if left := w.leftRights(); len(left) > 0 {
		t.Errorf("%q", left)
	}
	account := client.ObjectKey{Namespace: "extension-shop", Name: "helm-executor.shop"}
	if err := w.client.Get(t.Context(), account, &corev1.ServiceAccount{}); !apierrors.IsNotFound(err) {
		t.Errorf("the service account: %v", err)
	}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "extension-shop"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace stays, with what is in it: %v", err)
	}
}

func TestAForcedRemovalEndsAtOnce(t *testing.T) { // X27
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationForceDelete] = "true" })
	if err := w.client.Delete(t.Context(), w.get("shop")); err != nil {
		t.Fatal(err)
	}
	w.fails = []*helm.Error{{Reason: helm.ReasonUnreachable, Message: "away"}}
	w.reconcile("shop")
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop"}, &v1alpha1.InstallPlan{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if len(w.removed) != 1 || !w.removed[0].Orphan || !w.removed[0].SkipHooks || len(w.rights) > 0 {
		t.Errorf("%+v with %v", w.removed, w.rights)
	}
}

func TestAReleaseThatIsGoneIsRemoved(t *testing.T) { // X27
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.noRelease = true
	if err := w.client.Delete(t.Context(), w.get("shop")); err != nil {
		t.Fatal(err)
	}
	w.reconcile("shop")
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop"}, &v1alpha1.InstallPlan{}); !apierrors.IsNotFound(err) || len(w.removed) > 0 {
		t.Errorf("%v, %d", err, len(w.removed))
	}
}

func TestWhatIsInstalledAlreadyIsAdopted(t *testing.T) { // X39
	w := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "extension-shop", Labels: map[string]string{v1alpha1.LabelExtension: "shop"}}})
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		p.Status.State, p.Status.Version, p.Status.ConfigHash = v1alpha1.StateInstalled, "1.0.0", "e74229919cd0363d"
		p.Status.TargetNamespace = "extension-shop"
	})
	w.reconcile("shop")
	if p := w.get("shop"); len(w.applied) > 0 || p.Status.State != v1alpha1.StateInstalled || p.Status.ConfigHash != "e74229919cd0363d" {
		t.Errorf("%d operations, %+v", len(w.applied), p.Status)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "replicas: 3\n" })
	w.reconcile("shop")
	if len(w.applied) != 1 {
		t.Errorf("%d operations after a change", len(w.applied))
	}
}

func TestAutomaticFollowsWhatIsApproved(t *testing.T) { // X20
	w := newWorld(t, &v1alpha1.Extension{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "1.1.0", permissions, nil)
	w.version("shop", "1.2.0", permissions+"- {apiGroups: [''], resources: [secrets], verbs: [get]}\n", nil)
	w.version("shop", "2.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Spec.UpgradeStrategy = v1alpha1.UpgradeAutomatic })
	recommend := func(version string) *v1alpha1.InstallPlan {
		t.Helper()
		e := &v1alpha1.Extension{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop"}, e); err != nil {
			t.Fatal(err)
		}
		e.Status.RecommendedVersion = version
		if err := w.client.Update(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		w.reconcile("shop")
		return w.get("shop")
	}
	for _, c := range []struct{ recommended, runs, condition string }{
		{"1.0.0", "1.0.0", ""}, {"1.1.0", "1.1.0", ""}, {"1.2.0", "1.1.0", "True NotApproved"}, {"2.0.0", "1.1.0", ""}, {"1.0.0", "1.1.0", ""},
	} {
		if p := recommend(c.recommended); p.Status.Version != c.runs || condition(p, "UpgradeAvailable") != c.condition {
			t.Errorf("recommended %s: %s runs, %q", c.recommended, p.Status.Version, condition(p, "UpgradeAvailable"))
		}
	}
}

func TestADisabledExtensionIsNotServed(t *testing.T) { // X20
	labels := map[string]string{v1alpha1.LabelExtension: "shop"}
	available := extensionsv1alpha1.Status{State: extensionsv1alpha1.StateAvailable}
	w := newWorld(t, &extensionsv1alpha1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.shop", Labels: labels}, Status: available},
		&extensionsv1alpha1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.other"}, Status: available},
		&extensionsv1alpha1.JSBundle{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: labels}, Status: extensionsv1alpha1.JSBundleStatus{Status: available}})
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Spec.Enabled = false })
	w.reconcile("shop")
	state := func(name string) string {
		t.Helper()
		o := &extensionsv1alpha1.APIService{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: name}, o); err != nil {
			t.Fatal(err)
		}
		return o.Status.State
	}
	bundle := &extensionsv1alpha1.JSBundle{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop"}, bundle); err != nil || bundle.Status.State != "Disabled" {
		t.Errorf("%v %v", bundle.Status, err)
	}
	if state("v1.shop") != "Disabled" || state("v1.other") != "Available" || w.get("shop").Status.Enabled {
		t.Errorf("%s, %s", state("v1.shop"), state("v1.other"))
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Enabled = true })
	w.reconcile("shop")
	if state("v1.shop") != "Available" || len(w.applied) != 1 {
		t.Errorf("%s after %d operations", state("v1.shop"), len(w.applied))
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) { // X20, X22
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "- not\n- a mapping\n" })
	w.reconcile("shop")
	if got := condition(w.get("shop"), "Initialized"); got != "False InvalidConfig" {
		t.Error(got)
	}
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config, p.Spec.Extension.Version = "", "9.9.9" })
	w.reconcile("shop")
	if got := condition(w.get("shop"), "Initialized"); got != "False VersionNotFound" {
		t.Error(got)
	}
	w.charts["shop-1.0.0"] = []byte("no chart")
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.0.0" })
	w.reconcile("shop")
	if got := condition(w.get("shop"), "Initialized"); got != "False ChartBroken" {
		t.Error(got)
	}
	delete(w.charts, "shop-1.0.0")
	if again := w.reconcile("shop"); condition(w.get("shop"), "Initialized") != "False ChartNotRead" || again == 0 {
		t.Errorf("%q, again in %v", condition(w.get("shop"), "Initialized"), again)
	}
	if len(w.applied) > 0 {
		t.Error("something is applied")
	}
}

func TestAChangeThatIsTakenBackWasNone(t *testing.T) { // X20
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "9.9.9" })
	w.reconcile("shop")
	if p := w.get("shop"); condition(p, "Initialized") != "False VersionNotFound" || p.Status.State != v1alpha1.StateInstalled {
		t.Errorf("%q, %s", condition(p, "Initialized"), p.Status.State)
	}
	clear(w.charts) // what is done needs no chart
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.0.0" })
	w.reconcile("shop")
	if p := w.get("shop"); condition(p, "Initialized") != "True Settled" || len(w.applied) != 1 {
		t.Errorf("%q after %d operations", condition(p, "Initialized"), len(w.applied))
	}
}

func TestSecretValuesAreApart(t *testing.T) { // X20, X40
	w := newWorld(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "extension-shop", Name: "mine", Labels: map[string]string{v1alpha1.LabelValues: "shop"}},
		Data: map[string][]byte{"values.yaml": []byte("password: canary")}})
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.approveValues("shop")
	w.reconcile("shop")
	if len(w.applied) != 1 || string(w.applied[0].SecretValues) != "password: canary" || strings.Contains(string(w.applied[0].Values), "canary") {
		t.Errorf("%+v", w.applied)
	}
	p := w.get("shop")
	if text := p.Annotations[v1alpha1.AnnotationOperation] + p.Status.ConfigHash; strings.Contains(text, "canary") {
		t.Error(text)
	}
}

// X18, X21: who may write Secrets of the namespace does not say what is done with what was approved: other values, and none, wait, and what runs goes on.
func TestX18ASecretWithValuesWaitsForItsApproval(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "extension-shop", Name: "mine", Labels: map[string]string{v1alpha1.LabelValues: "shop"}},
		Data: map[string][]byte{"values.yaml": []byte("image: mine")}}
	waits := func(what string, operations int) {
		t.Helper()
		w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationRetry] = what })
		w.reconcile("shop")
		p := w.get("shop")
		if condition(p, "Approved") != "False ValuesNotApproved" || len(w.applied) != operations || p.Status.State != v1alpha1.StateInstalled ||
			condition(p, "Ready") != "True Ready" {
			t.Errorf("%s: %q, %q, %d operations, %s", what, condition(p, "Approved"), condition(p, "Ready"), len(w.applied), p.Status.State)
		}
	}
	follows := func(what, values string, operations int) {
		t.Helper()
		w.approveValues("shop")
		w.reconcile("shop")
		if p := w.get("shop"); condition(p, "Approved") != "True Approved" || len(w.applied) != operations ||
			string(w.applied[operations-1].SecretValues) != values {
			t.Errorf("%s: %q, %d operations", what, condition(p, "Approved"), len(w.applied))
		}
	}
	if err := w.client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	waits("a new one", 1)
	follows("an approved one", "image: mine", 2)
	secret.Data["values.yaml"] = []byte("image: other")
	if err := w.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	waits("one that was changed", 2)
	follows("the changed one, once it is approved", "image: other", 3)
	if err := w.client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	waits("none any more", 3)
	follows("none, once that is approved", "", 4)
}

// X20: what is approved for other clusters, and hosts of backends, change nothing of the release here.
func TestX20AnApprovalAloneIsNoUpgrade(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.change("shop", func(p *v1alpha1.InstallPlan) {
		p.Spec.ClusterScheduling = &v1alpha1.ClusterScheduling{Overrides: map[string]string{"member-1": "replicas: 3\n"}}
	})
	w.reconcile("shop")
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationUpstreams] = "api.example.com" })
	w.reconcile("shop")
	if len(w.applied) != 1 {
		t.Errorf("%d operations", len(w.applied))
	}
	// What has failed may succeed by it: the backend of the chart is at a host that was not approved.
	w.fails = []*helm.Error{{Reason: helm.ReasonFailed, Message: "the webhook refuses a host"}}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "backend: other.example.com\n" })
	w.reconcile("shop")
	w.reconcile("shop")
	if p := w.get("shop"); len(w.applied) != 2 || p.Status.State != v1alpha1.StateUpgradeFailed {
		t.Errorf("%d operations, %s", len(w.applied), p.Status.State)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationUpstreams] = "other.example.com" })
	w.reconcile("shop")
	if p := w.get("shop"); len(w.applied) != 3 || p.Status.State != v1alpha1.StateInstalled {
		t.Errorf("once its host is approved: %d operations, %s", len(w.applied), p.Status.State)
	}
	// A chart that is replaced under its version counts by its approval.
	w.annotations = "some: change"
	if err := w.client.Delete(t.Context(), &v1alpha1.ExtensionVersion{ObjectMeta: metav1.ObjectMeta{Name: "shop-1.0.0"}}); err != nil {
		t.Fatal(err)
	}
	w.version("shop", "1.0.0", permissions, nil)
	w.reconcile("shop")
	if len(w.applied) != 3 {
		t.Errorf("a replaced chart that nobody has approved: %d operations", len(w.applied))
	}
	w.change("shop", func(*v1alpha1.InstallPlan) {})
	w.reconcile("shop")
	if len(w.applied) != 4 {
		t.Errorf("a replaced chart: %d operations", len(w.applied))
	}
}

// X39: what runs by an operation that was noted before charts were approved apart is not installed once more.
func TestX39WhatRunsByAFormerOperationGoesOn(t *testing.T) {
	labels := map[string]string{v1alpha1.LabelValues: "shop"}
	w := newWorld(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "extension-shop", Name: "mine", Labels: labels},
		Data: map[string][]byte{"values.yaml": []byte("password: canary")}})
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.approveValues("shop")
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { delete(p.Annotations, v1alpha1.AnnotationApprovedChart) })
	w.reconcile("shop")
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { delete(p.Annotations, v1alpha1.AnnotationApprovedValues) })
	w.reconcile("shop")
	former := w.get("shop").Annotations[v1alpha1.AnnotationOperation]
	w.change("shop", func(*v1alpha1.InstallPlan) {})
	w.reconcile("shop")
	if p := w.get("shop"); len(w.applied) != 1 || p.Annotations[v1alpha1.AnnotationOperation] == former || former == "" {
		t.Errorf("%d operations, noted %q, before %q", len(w.applied), p.Annotations[v1alpha1.AnnotationOperation], former)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationUpstreams] = "api.example.com" })
	w.reconcile("shop")
	if len(w.applied) != 1 {
		t.Errorf("after another approval: %d operations", len(w.applied))
	}
}

// X25, X27: a release stays in its namespace: a version that is for another one waits, and the removal finds what is installed.
func TestX27AReleaseStaysInItsNamespace(t *testing.T) {
	for name, fails := range map[string][]*helm.Error{"installed": nil, "failed": {{Reason: helm.ReasonFailed, Message: "half of it is there"}}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.version("shop", "1.0.0", permissions, nil)
			w.version("shop", "2.0.0", permissions, func(v *v1alpha1.ExtensionVersion) { v.Spec.Namespace = "shop-system" })
			w.fails = fails
			w.plan("shop", "1.0.0", nil)
			w.reconcile("shop")
			w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "2.0.0" })
			w.reconcile("shop")
			p := w.get("shop")
			if len(w.applied) != 1 || condition(p, "Initialized") != "False NamespaceChanged" || p.Status.TargetNamespace != "extension-shop" ||
				w.noted().Namespace != "extension-shop" {
				t.Errorf("%d operations, %q, in %s, noted %+v", len(w.applied), condition(p, "Initialized"), p.Status.TargetNamespace, w.noted())
			}
			if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop-system"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
				t.Errorf("the other namespace: %v", err)
			}
			w.deleted("shop")
			if len(w.removed) != 1 || w.removed[0].Namespace != "extension-shop" || !w.isGone("shop") {
				t.Errorf("removed: %+v", w.removed)
			}
		})
	}
}

// X20: the log is written over no ConfigMap that is somebody else's, or the chart's.
func TestX20TheLogTakesNobodysConfigMap(t *testing.T) {
	for name, of := range map[string]metav1.ObjectMeta{
		"somebody else's": {},
		"the chart's": {Labels: map[string]string{v1alpha1.LabelExtension: "shop"},
			Annotations: map[string]string{"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "extension-shop"}},
	} {
		of.Namespace, of.Name = "extension-shop", "shop-log"
		w := newWorld(t, &corev1.ConfigMap{ObjectMeta: of, Data: map[string]string{"log": "mine"}})
		w.version("shop", "1.0.0", permissions, nil)
		w.plan("shop", "1.0.0", nil)
		w.reconcile("shop")
		is := &corev1.ConfigMap{}
		err := w.client.Get(t.Context(), client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, is)
		if err != nil || is.Data["log"] != "mine" || len(w.applied) != 1 {
			t.Errorf("%s after %d operations: %v %v", name, len(w.applied), is.Data, err)
		}
	}
}
