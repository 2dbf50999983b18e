package installplan_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

func TestTheNamespaceOfSomebodyElseIsNotTaken(t *testing.T) { // X18
	const system = tenantv1beta1.SystemWorkspace
	for _, c := range []struct {
		claim, name, workspace, extension string
		taken                             bool
	}{
		{"OfAWorkspace", "extension-shop", "theirs", "", true},
		{"OfAWorkspaceWithItsLabel", "extension-shop", "theirs", "shop", true},
		{"LeftByAWorkspaceWithItsLabel", "extension-shop", "", "shop", true},
		{"OfThePlatformWithoutItsLabel", "extension-shop", system, "", true},
		{"OfAnotherExtension", "extension-shop", system, "pay", true},
		{"ItsOwn", "extension-shop", system, "shop", false},
		{"NamedByTheChartOfAWorkspace", "foo", "theirs", "shop", true},
		{"NamedByTheChartLeftByAWorkspace", "foo", "", "shop", true},
		{"NamedByTheChartOfThePlatform", "foo", system, "", false},
		{"NamedLikeOneOfTheSystemOfAWorkspace", "kubesphere-shop", "theirs", "", true},
		{"NamedLikeOneOfTheSystem", "kubesphere-shop", "", "", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			labels := map[string]string{}
			for key, value := range map[string]string{tenantv1beta1.LabelWorkspace: c.workspace, v1alpha1.LabelExtension: c.extension} {
				if value != "" {
					labels[key] = value
				}
			}
			w := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.name, Labels: labels}})
			w.version("shop", "1.0.0", permissions, func(v *v1alpha1.ExtensionVersion) {
				if c.name != v1alpha1.ExtensionNamespace("shop") {
					v.Spec.Namespace = c.name
				}
			})
			w.plan("shop", "1.0.0", nil)
			w.reconcile("shop")
			p, want := w.get("shop"), "True Initialized"
			if c.taken {
				want = "False NamespaceTaken"
			}
			if condition(p, "Initialized") != want || len(w.applied) > 0 == c.taken {
				t.Errorf("%q, %d", condition(p, "Initialized"), len(w.applied))
			}
		})
	}
}

// X18: what runs is upgraded where it is, whichever workspace an administrator has put that into; but not in a namespace that somebody made since.
func TestTheNamespaceThatItRunsInIsItsOwn(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, func(v *v1alpha1.ExtensionVersion) { v.Spec.Namespace = "foo" })
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	is := &corev1.Namespace{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "foo"}, is); err != nil {
		t.Fatal(err)
	}
	is.Labels[tenantv1beta1.LabelWorkspace] = "theirs"
	if err := w.client.Update(t.Context(), is); err != nil {
		t.Fatal(err)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "replicas: 2\n" })
	w.reconcile("shop")
	if len(w.applied) != 2 {
		t.Errorf("%d operations, %q", len(w.applied), condition(w.get("shop"), "Initialized"))
	}
	w.remake("foo")
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "replicas: 3\n" })
	w.reconcile("shop")
	if p := w.get("shop"); condition(p, "Initialized") != "False NamespaceTaken" || len(w.applied) != 2 {
		t.Errorf("%q, %d", condition(p, "Initialized"), len(w.applied))
	}
}

// X18, X27: what runs before a removal runs in the namespace of the installation, and in no other one that has its name since.
func TestX27NothingRunsInANamespaceOfSomebodyElseBeforeARemoval(t *testing.T) {
	w := newWorld(t)
	w.hookEnds, w.annotations = batchv1.JobComplete, removalImage
	w.version("shop", "1.0.0", permissions, func(v *v1alpha1.ExtensionVersion) { v.Spec.Namespace = "foo" })
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.remake("foo")
	w.deleted("shop")
	if !w.isGone("shop") || len(w.hooked) > 0 {
		t.Errorf("%d hooks", len(w.hooked))
	}
	if left := w.leftRights(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// remake deletes a namespace, and makes one of its name in somebody's workspace an hour later.
func (w *world) remake(name string) {
	w.t.Helper()
	of := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := w.client.Delete(w.t.Context(), of); err != nil {
		w.t.Fatal(err)
	}
	of = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(w.now.Add(time.Hour)),
		Labels: map[string]string{tenantv1beta1.LabelWorkspace: "theirs"}}}
	if err := w.client.Create(w.t.Context(), of); err != nil {
		w.t.Fatal(err)
	}
}
