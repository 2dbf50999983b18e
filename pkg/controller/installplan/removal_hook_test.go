package installplan_test

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const removalImage = "executor-hook-image.kubesphere.io/uninstall: registry.example/last:1"

// deleted deletes a plan, and works on that until it is gone, or nothing more is to be done at once.
func (w *world) deleted(name string) {
	w.t.Helper()
	if err := w.client.Delete(w.t.Context(), w.get(name)); err != nil {
		w.t.Fatal(err)
	}
	w.reconcile(name)
}

func (w *world) isGone(name string) bool {
	return apierrors.IsNotFound(w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &v1alpha1.InstallPlan{}))
}

func environment(j *batchv1.Job) map[string]string {
	out := map[string]string{"image": j.Spec.Template.Spec.Containers[0].Image}
	for _, e := range j.Spec.Template.Spec.Containers[0].Env {
		out[e.Name] = e.Value
	}
	return out
}

// X27: the image that was approved for it runs before a removal, with what was approved while it runs, although neither its chart nor its
// version is there any more; nothing of it is left but the Job, with its log.
func TestX27AnImageRunsBeforeARemoval(t *testing.T) {
	w := newWorld(t)
	w.hookEnds, w.annotations = batchv1.JobComplete, removalImage
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	if len(w.hooked) > 0 || len(w.applied) != 1 {
		t.Fatalf("%d hooks before the installation", len(w.hooked))
	}
	v := &v1alpha1.ExtensionVersion{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "shop-1.0.0"}, v); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	clear(w.charts)
	w.deleted("shop")
	if !w.isGone("shop") || len(w.removed) != 1 || len(w.hooked) != 1 {
		t.Fatalf("%d hooks, %d removals", len(w.hooked), len(w.removed))
	}
	job := w.hooked[0]
	if got := environment(job); got["image"] != "registry.example/last:1" || got["HOOK_ACTION"] != "uninstall" || got["CLUSTER_ROLE"] != "host" ||
		job.Namespace != "extension-shop" || *job.Spec.ActiveDeadlineSeconds != 300 {
		t.Errorf("%v, %+v", got, job)
	}
	if !slices.Contains(w.hookRights, "kubesphere:shop:helm-executor-hook") {
		t.Errorf("while it ran there were %q", w.hookRights)
	}
	maps := &corev1.ConfigMapList{}
	if err := w.client.List(t.Context(), maps, client.InNamespace("kubesphere-system")); err != nil || len(maps.Items) > 0 {
		t.Errorf("left: %d ConfigMaps, %v", len(maps.Items), err)
	}
	if left := w.leftRights(); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// X27: a removal goes on however the image ends, and does not run it again where Helm fails afterwards; by force none is run.
func TestX27ARemovalEndsWhateverItsImageDoes(t *testing.T) {
	w := newWorld(t)
	w.hookEnds, w.annotations = batchv1.JobFailed, removalImage
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.fails = []*helm.Error{{Reason: helm.ReasonFailed, Message: "a webhook is away", Transient: true}}
	w.deleted("shop")
	if p := w.get("shop"); p.Status.State != v1alpha1.StateUninstallFailed || len(w.hooked) != 1 || p.Status.JobName != "shop-hook" {
		t.Fatalf("%+v, %d hooks", p.Status, len(w.hooked))
	}
	w.reconcile("shop")
	if !w.isGone("shop") || len(w.hooked) != 1 || len(w.removed) != 2 {
		t.Errorf("%d hooks, %d removals", len(w.hooked), len(w.removed))
	}
	t.Run("by force", func(t *testing.T) {
		w := newWorld(t)
		w.hookEnds, w.annotations = batchv1.JobComplete, removalImage
		w.version("shop", "1.0.0", permissions, nil)
		w.plan("shop", "1.0.0", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationForceDelete] = "true" })
		w.reconcile("shop")
		w.deleted("shop")
		if !w.isGone("shop") || len(w.hooked) > 0 {
			t.Errorf("%d hooks", len(w.hooked))
		}
	})
}

// X18, X27: what runs before a removal is what was approved with the version that is installed, whatever the plan asks for since then.
func TestX27WhatRunsBeforeARemovalIsWhatWasApproved(t *testing.T) {
	w := newWorld(t)
	w.hookEnds, w.annotations = batchv1.JobComplete, removalImage
	w.version("shop", "1.0.0", permissions, nil)
	w.annotations = strings.Replace(removalImage, "last", "other", 1)
	w.version("shop", "1.1.0", permissions, nil)
	w.annotations = ""
	w.version("shop", "1.2.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.1.0" })
	w.reconcile("shop")
	w.deleted("shop")
	if len(w.hooked) != 1 || environment(w.hooked[0])["image"] != "registry.example/last:1" {
		t.Errorf("%d hooks", len(w.hooked))
	}
	t.Run("a version without one", func(t *testing.T) {
		w.plan("shop", "1.0.0", nil)
		w.reconcile("shop")
		w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.2.0" })
		w.reconcile("shop")
		w.deleted("shop")
		if len(w.hooked) != 1 || !w.isGone("shop") {
			t.Errorf("%d hooks", len(w.hooked))
		}
	})
}
