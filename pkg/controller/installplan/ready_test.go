package installplan_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

func deployment(namespace, name, extension string, available int32) *appsv1.Deployment {
	one := int32(1)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1,
		Labels: map[string]string{v1alpha1.LabelExtension: extension}},
		Spec: appsv1.DeploymentSpec{Replicas: &one}, Status: appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1,
			ReadyReplicas: available, AvailableReplicas: available, Conditions: []appsv1.DeploymentCondition{{Type: "Available", Status: "True"},
				{Type: "Progressing", Status: "True", Reason: "NewReplicaSetAvailable"}}}}
}

// X20: an extension is ready when its workloads are, and says which one is not; those that somebody else has labelled don't count. Nothing
// is written while that stays the same.
func TestAnExtensionIsReadyWhenItsWorkloadsAre(t *testing.T) {
	w := newWorld(t, deployment("elsewhere", "web", "shop", 0), deployment("extension-shop", "web", "other", 0))
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	if again := w.reconcile("shop"); again == 0 || condition(w.get("shop"), "Ready") != "False Applied" {
		t.Errorf("a moment after its installation: %q, again in %v", condition(w.get("shop"), "Ready"), again)
	}
	is := func(claim, want, says string) {
		t.Helper()
		w.reconcile("shop")
		p := w.get("shop")
		if got := condition(p, "Ready"); got != want {
			t.Errorf("%s: %q", claim, got)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == "Ready" && !strings.Contains(c.Message, says) {
				t.Errorf("%s: %q", claim, c.Message)
			}
		}
		before := w.writes
		if w.reconcile("shop"); w.writes != before {
			t.Errorf("%s: %d writes of a settled plan", claim, w.writes-before)
		}
	}
	is("only others have workloads", "True Ready", "no workloads")
	web := deployment("extension-shop", "page", "shop", 0)
	if err := w.client.Create(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	is("a pod is not ready", "False InProgress", "Deployment page: ")
	web.Status.ReadyReplicas, web.Status.AvailableReplicas = 1, 1
	if err := w.client.Status().Update(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	is("all pods are ready", "True Ready", "all its workloads")
	if len(w.applied) != 1 {
		t.Errorf("%d operations", len(w.applied))
	}
}

// X20: an extension whose namespace was deleted is not ready, says how to have it again, and is installed again by that.
func TestX20AnExtensionWithoutItsNamespaceIsNotReady(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.reconcile("shop")
	if err := w.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "extension-shop"}}); err != nil {
		t.Fatal(err)
	}
	w.reconcile("shop")
	p := w.get("shop")
	if c := meta.FindStatusCondition(p.Status.Conditions, "Ready"); c == nil || c.Reason != "NamespaceMissing" ||
		!strings.Contains(c.Message, v1alpha1.AnnotationRetry) {
		t.Errorf("%+v", c)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationRetry] = "1" })
	w.reconcile("shop")
	w.reconcile("shop")
	if p := w.get("shop"); condition(p, "Ready") != "True Ready" || len(w.applied) != 2 {
		t.Errorf("%q after %d operations", condition(p, "Ready"), len(w.applied))
	}
}
