package installplan_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// needs returns a change of a version that makes it need another extension.
func needs(other string) func(*v1alpha1.ExtensionVersion) {
	return func(v *v1alpha1.ExtensionVersion) {
		v.Spec.ExternalDependencies = []v1alpha1.ExternalDependency{{Name: other, Type: "extension", Version: ">=1.0.0", Required: true}}
	}
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), w.get(name)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) gone(name string) bool {
	return apierrors.IsNotFound(w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &v1alpha1.InstallPlan{}))
}

// X20, X27: extensions that need one another are not installed, and the message names them; where they came to that by an upgrade, and all of them are
// deleted, they go. While one of them stays, the other one does.
func TestX27ExtensionsThatNeedOneAnotherAreRemoved(t *testing.T) {
	w := newWorld(t)
	w.version("base", "1.0.0", "", nil)
	w.version("base", "1.1.0", "", needs("shop"))
	w.version("shop", "1.0.0", "", needs("base"))
	w.plan("base", "1.1.0", nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	if c := meta.FindStatusCondition(w.get("shop").Status.Conditions, "DependenciesMet"); c == nil || !strings.Contains(c.Message, "shop needs base needs shop") {
		t.Errorf("%+v", c)
	}
	w.change("base", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.0.0" })
	w.reconcile("base")
	w.reconcile("shop")
	w.change("base", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.1.0" })
	w.reconcile("base")
	if base, shop := w.get("base").Status, w.get("shop").Status; base.Version != "1.1.0" || shop.Version != "1.0.0" {
		t.Fatalf("%+v, %+v", base, shop)
	}
	w.delete("base")
	w.reconcile("base")
	if w.gone("base") || condition(w.get("base"), "Uninstalled") != "False Required" {
		t.Errorf("base is removed while shop needs it: %v", w.gone("base"))
	}
	w.delete("shop")
	w.reconcile("base")
	w.reconcile("shop")
	if !w.gone("base") || !w.gone("shop") || len(w.removed) != 2 {
		t.Errorf("gone: %v, %v after %d removals", w.gone("base"), w.gone("shop"), len(w.removed))
	}
}

// X27: what another extension merely names, and does not need as an extension, is removed.
func TestX27ADependencyOfAnotherTypeHoldsNobody(t *testing.T) {
	w := newWorld(t)
	w.version("base", "1.0.0", "", nil)
	w.version("shop", "1.0.0", "", func(v *v1alpha1.ExtensionVersion) {
		v.Spec.ExternalDependencies = []v1alpha1.ExternalDependency{{Name: "base", Type: "chart", Required: true}}
	})
	for _, name := range []string{"base", "shop"} {
		w.plan(name, "1.0.0", nil)
		w.reconcile(name)
	}
	w.delete("base")
	if w.reconcile("base"); !w.gone("base") {
		t.Errorf("%q", condition(w.get("base"), "Uninstalled"))
	}
}
