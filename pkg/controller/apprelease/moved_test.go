package apprelease_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// X28: a release whose namespace was moved to another workspace runs on, and is not changed; whoever gives it to that workspace, by its label, upgrades it with
// their own rights.
func TestX28AReleaseOfAMovedNamespaceIsGivenOnByWhoInstallsIt(t *testing.T) {
	w := newWorld(t, version("redis-2", "system-workspace", v2.StateActive), user("root", iamv1beta1.UserActive))
	if got := w.add(func(r *v2.ApplicationRelease) { r.Spec.AppVersionID = "redis-2" }); got.Status.State != v2.ReleaseCreated {
		t.Fatalf("%+v", got.Status)
	}
	namespace := &corev1.Namespace{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "web"}, namespace); err != nil {
		t.Fatal(err)
	}
	namespace.Labels[v2.LabelWorkspace] = "other"
	if err := w.client.Update(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w.reconcile()
	if got := w.get(); got.Status.State == v2.ReleaseFailed || w.gone() || len(w.asked) != 1 {
		t.Errorf("moved: %+v, %d operations", got.Status, len(w.asked))
	}
	got := w.change(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationRetry] = "1" })
	if got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, "has no namespace") || len(w.asked) != 1 {
		t.Errorf("changed: %+v, %d operations", got.Status, len(w.asked))
	}
	got = w.change(func(r *v2.ApplicationRelease) {
		r.Labels[v2.LabelWorkspace], r.Annotations[v2.AnnotationUser] = "other", "root"
	})
	if got.Status.State != v2.ReleaseUpgraded || len(w.asked) != 2 || w.asked[1].Cluster.User != "root" {
		t.Errorf("given on: %+v, %d operations", got.Status, len(w.asked))
	}
}
