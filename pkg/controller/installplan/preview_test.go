package installplan_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// shown returns the preview that there is.
func (w *world) shown() string {
	w.t.Helper()
	m := &corev1.ConfigMap{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "kubesphere-system", Name: "shop-preview"}, m); err != nil {
		w.t.Fatal(err)
	}
	return m.Data["preview.yaml"]
}

func (w *world) shows(claim string, texts ...string) {
	w.t.Helper()
	is := w.shown()
	for _, text := range texts {
		if !strings.Contains(is, text) {
			w.t.Errorf("%s: %q is not in\n%s", claim, text, is)
		}
	}
}

// X23: as long as a plan has the annotation, it is looked at and not done: before it is approved, before its namespace is there, and before
// an upgrade. A preview is made once for what a plan asks for.
func TestX23APreviewChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.objects = append(w.objects, helm.Object{APIVersion: "batch/v1", Kind: "Job", Name: "before", Hook: true})
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		p.Annotations[v1alpha1.AnnotationPreview], p.Annotations[v1alpha1.AnnotationApproved] = "1", "nobody's"
	})
	w.reconcile("shop")
	w.shows("not approved", "approved: false", "version: 1.0.0", "nobody has approved this", "do: create", "ConfigMap web (v1)",
		"Job before (batch/v1)", "level: cluster")
	p := w.get("shop")
	if condition(p, "Previewed") != "True Previewed" || p.Status.State != v1alpha1.StatePreparing || len(w.applied)+len(w.previewed) > 0 ||
		len(w.leftRights()) > 0 {
		t.Errorf("%q in %s: %d operations, %d questions", condition(p, "Previewed"), p.Status.State, len(w.applied), len(w.previewed))
	}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "extension-shop"}, &corev1.Namespace{}); err == nil {
		t.Error("the namespace is made")
	}
	before := w.writes
	if w.reconcile("shop"); w.writes != before {
		t.Errorf("%d writes of a plan that was previewed", w.writes-before)
	}
	w.change("shop", func(*v1alpha1.InstallPlan) {})
	w.reconcile("shop")
	w.shows("approved", "approved: true", "the namespace extension-shop is not there yet", "create configmaps", "extension-shop:")
	if len(w.applied)+len(w.previewed) > 0 {
		t.Error("something is asked for in a namespace that is not there")
	}

	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { delete(p.Annotations, v1alpha1.AnnotationPreview) })
	w.reconcile("shop")
	if p = w.get("shop"); len(w.applied) != 1 || condition(p, "Previewed") != "" || p.Annotations[v1alpha1.AnnotationPreviewed] != "" ||
		p.Status.State != v1alpha1.StateInstalled {
		t.Errorf("without the annotation: %d operations, %q, %s", len(w.applied), condition(p, "Previewed"), p.Status.State)
	}

	w.changes = []helm.Change{{Do: helm.DoChange, Object: helm.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "extension-shop", Name: "web"},
		Fields: []string{"data.greeting"}}, {Do: helm.DoCreate, Object: helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "NOT"}, Problem: "422 Invalid"}}
	w.version("shop", "1.1.0", permissions, nil)
	w.change("shop", func(p *v1alpha1.InstallPlan) {
		p.Annotations[v1alpha1.AnnotationPreview], p.Spec.Extension.Version, p.Spec.Config, p.Spec.Enabled = "2", "1.1.0", "password: canary\n", false
	})
	w.reconcile("shop")
	w.shows("an upgrade", "version: 1.1.0", "installed: 1.0.0", "do: change", "ConfigMap extension-shop/web (v1)", "data.greeting", "problem: 422 Invalid")
	if strings.Contains(w.shown(), "canary") {
		t.Error(w.shown())
	}
	p = w.get("shop")
	if len(w.applied) != 1 || len(w.previewed) != 1 || w.previewed[0].Operation != helm.Preview || p.Status.Version != "1.0.0" ||
		!p.Status.Enabled || len(w.leftRights()) > 0 {
		t.Errorf("%d operations, %d questions, version %s, rights %q", len(w.applied), len(w.previewed), p.Status.Version, w.leftRights())
	}
	if len(w.rights["extension-shop"]) == 0 {
		t.Error("kube-apiserver is asked without rights")
	}
}

// X23: what is wrong is a part of the preview.
func TestX23APreviewSaysWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.objects = append(w.objects, helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "wide",
		Gives: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}})
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationPreview] = "1" })
	w.reconcile("shop")
	w.shows("more than is asked for", "permissions.yaml does not ask for", "beyond:", "ClusterRole wide")
	again := func(n string, config string) {
		w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationPreview], p.Spec.Config = n, config })
		w.reconcile("shop")
	}
	w.objects = []helm.Object{{APIVersion: "v9", Kind: "Nothing", Name: "a"}}
	again("2", "")
	w.shows("a kind that there is not", "no such kinds")
	again("3", "- no mapping\n")
	w.shows("values", "no YAML mapping")
	w.charts["shop-1.0.0"] = []byte("no chart")
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationPreview] = "4" })
	w.reconcile("shop")
	w.shows("a broken chart", "the chart is not valid")
	if len(w.applied)+len(w.previewed) > 0 {
		t.Error("something is asked for")
	}
}

// X23: a preview whose chart can't be read is made once it can be.
func TestX23APreviewWaitsForItsChart(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationPreview] = "1" })
	w.r.Charts = &slowCharts{}
	if again := w.reconcile("shop"); again != time.Minute || condition(w.get("shop"), "Initialized") != "False ChartNotRead" ||
		condition(w.get("shop"), "Previewed") != "" {
		t.Errorf("again in %v, %q, %q", again, condition(w.get("shop"), "Initialized"), condition(w.get("shop"), "Previewed"))
	}
	w.r.Charts = w.charts
	w.reconcile("shop")
	if w.shows("its chart is there", "version: 1.0.0", "ConfigMap web (v1)"); condition(w.get("shop"), "Previewed") != "True Previewed" || len(w.applied) > 0 {
		t.Errorf("%q, %d operations", condition(w.get("shop"), "Previewed"), len(w.applied))
	}
}

// X23: a ConfigMap of the preview's name that is somebody else's stays as it is.
func TestX23APreviewTakesNobodysConfigMap(t *testing.T) {
	w := newWorld(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kubesphere-system", Name: "shop-preview"},
		Data: map[string]string{"preview.yaml": "mine"}})
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationPreview] = "1" })
	if again := w.reconcile("shop"); w.shown() != "mine" || condition(w.get("shop"), "Previewed") != "False NameTaken" || again == 0 {
		t.Errorf("%q, %q, again in %v", w.shown(), condition(w.get("shop"), "Previewed"), again)
	}
}
