package installplan_test

import (
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// X21, X24: an image that was approved runs before the operation, told which and where, with the approved rights while it runs and none
// afterwards; pages find its log by the Job's name.
func TestAHookImageRunsBeforeTheOperation(t *testing.T) {
	w := newWorld(t)
	w.hookEnds = batchv1.JobComplete
	w.annotations = "executor-hook-image.kubesphere.io/install: registry.example/first:1, executor-hook-image.kubesphere.io: registry.example/all:1"
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "1.1.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	if len(w.hooked) != 1 || len(w.applied) != 1 {
		t.Fatalf("%d hooks, %d operations: %+v", len(w.hooked), len(w.applied), w.get("shop").Status)
	}
	env := func(j *batchv1.Job) map[string]string {
		out := map[string]string{"image": j.Spec.Template.Spec.Containers[0].Image}
		for _, e := range j.Spec.Template.Spec.Containers[0].Env {
			out[e.Name] = e.Value
		}
		return out
	}
	job := w.hooked[0]
	if got := env(job); got["HOOK_ACTION"] != "install" || got["CLUSTER_ROLE"] != "host" || got["CLUSTER_NAME"] != "host" ||
		got["image"] != "registry.example/first:1" || job.Namespace != "extension-shop" || w.get("shop").Status.JobName != job.Name ||
		job.Spec.Template.Spec.ServiceAccountName != "helm-executor.shop" {
		t.Errorf("the hook is %v, %+v", got, job)
	}
	if !slices.Contains(w.hookRights, "kubesphere:shop:helm-executor-hook") {
		t.Errorf("while it ran there were %q", w.hookRights)
	}
	if left := w.leftRights(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.1.0" })
	w.reconcile("shop")
	if len(w.hooked) != 2 || env(w.hooked[1])["HOOK_ACTION"] != "upgrade" || env(w.hooked[1])["image"] != "registry.example/all:1" {
		t.Errorf("%d hooks", len(w.hooked))
	}
	w.hookEnds = batchv1.JobFailed
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "replicas: 3\n" })
	w.reconcile("shop")
	if p := w.get("shop"); len(w.applied) != 2 || p.Status.State != v1alpha1.StateUpgradeFailed || condition(p, "Upgraded") != "False HookFailed" {
		t.Errorf("%d operations, %s, %s", len(w.applied), p.Status.State, condition(p, "Upgraded"))
	}
	if left := w.leftRights(); len(left) > 0 {
		t.Errorf("left by a failed one: %q", left)
	}
}

// X21: in a member the image is told so, and a Job of somebody else is left alone.
func TestAHookImageTakesNobodysJob(t *testing.T) {
	w := newWorld(t)
	w.r.Member, w.hookEnds, w.annotations = true, batchv1.JobComplete, "executor-hook-image.kubesphere.io: registry.example/all:1"
	w.version("shop", "1.0.0", permissions, nil)
	other := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "extension-shop", Name: "shop-agent-hook"}}
	w.hookEnds = ""
	if err := w.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.hookEnds = batchv1.JobComplete
	w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) {
		p.Labels = map[string]string{clusterv1alpha1.LabelFleet: "u-hub"}
		p.Annotations[v1alpha1.AnnotationAgentCluster] = "m1"
	})
	w.reconcile("shop")
	if p := w.get("shop"); len(w.hooked) > 0 || len(w.applied) > 0 || condition(p, "Installed") != "False HookFailed" {
		t.Errorf("%d hooks, %d operations, %s", len(w.hooked), len(w.applied), condition(p, "Installed"))
	}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(other), &batchv1.Job{}); err != nil {
		t.Errorf("somebody's Job: %v", err)
	}
	if err := w.client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationRetry] = "1" })
	w.reconcile("shop")
	if len(w.hooked) != 1 || !slices.Contains(w.hooked[0].Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "CLUSTER_NAME", Value: "m1"}) ||
		!slices.Contains(w.hooked[0].Spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: "CLUSTER_ROLE", Value: "member"}) {
		t.Errorf("%+v", w.hooked)
	}
}
