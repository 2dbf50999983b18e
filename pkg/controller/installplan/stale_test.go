package installplan_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

// X20: what the cache has of a plan from before its last write is waited for: by that, the chart would be rendered and applied once more, and what came of it
// written over.
func TestX20APlanIsNotDoneAgainByWhatTheCacheHasOfBefore(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "1.1.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	if _, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "shop"}}); err != nil { // the finalizer
		t.Fatal(err)
	}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = version })
		before := w.get("shop")
		w.reconcile("shop")
		operations, renderings, writes := len(w.applied), w.renderings, w.writes
		w.stale = before
		if again := w.reconcile("shop"); again != retry.Stale || len(w.applied) != operations || w.renderings != renderings || w.writes != writes {
			t.Errorf("%s: again in %v, %d operations, %d renderings, %d writes", version, again, len(w.applied)-operations, w.renderings-renderings,
				w.writes-writes)
		}
		w.stale = nil
		w.reconcile("shop")
		p := w.get("shop")
		if len(w.applied) != operations || w.renderings != renderings || p.Status.Version != version || p.Status.State != v1alpha1.StateInstalled {
			t.Errorf("%s: %d operations more, %s of %s", version, len(w.applied)-operations, p.Status.State, p.Status.Version)
		}
	}
	if len(w.applied) != 2 {
		t.Errorf("%d operations", len(w.applied))
	}
}

// X20: what somebody changes between the moment that the controller reads a plan and its next write stays, and is done after that.
func TestX20WhatIsChangedDuringAnOperationStays(t *testing.T) {
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "greeting: one\n" })
	w.stale = w.get("shop")
	w.change("shop", func(p *v1alpha1.InstallPlan) {
		p.Spec.Config = "greeting: two\n"
		p.Labels = map[string]string{"example.com/by": "somebody"}
	})
	operations := len(w.applied)
	w.reconcile("shop")
	w.stale = nil
	if p := w.get("shop"); p.Spec.Config != "greeting: two\n" || p.Labels["example.com/by"] != "somebody" || len(w.applied) != operations+1 {
		t.Errorf("after the operation the plan has %q and %v, %d operations", p.Spec.Config, p.Labels, len(w.applied)-operations)
	}
	w.reconcile("shop")
	if p := w.get("shop"); len(w.applied) != operations+2 || p.Spec.Config != "greeting: two\n" || p.Status.State != v1alpha1.StateInstalled {
		t.Errorf("%d operations, %s, the plan has %q", len(w.applied)-operations, p.Status.State, p.Spec.Config)
	}
}
