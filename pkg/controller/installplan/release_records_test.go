package installplan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/installplan"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// recorded returns what was noted of the release of a plan; nil for nothing.
func (w *world) noted() *extensionrelease.Note {
	w.t.Helper()
	m := &corev1.ConfigMap{}
	err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "kubesphere-system", Name: "extension-release-" + string(w.get("shop").UID)}, m)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	out := &extensionrelease.Note{}
	if err := json.Unmarshal([]byte(m.Data["release.json"]), out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// names returns the objects that rights of the last operation name.
func (w *world) names() (out []string) {
	for namespace, rules := range w.rights {
		for _, r := range rules {
			for _, name := range r.ResourceNames {
				out = append(out, namespace+"/"+name)
			}
		}
	}
	return out
}

// forged is a record that somebody else has written, as the newest revision.
func forged() *helm.Release {
	return &helm.Release{Name: "shop", Revision: 7, Status: "deployed", RecordDigest: "forged", BaseDigest: "forged", BaseDeployed: true}
}

// installed returns a world in which a plan is installed.
func installed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.version("shop", "1.0.0", permissions, nil)
	w.version("shop", "1.1.0", permissions, nil)
	w.plan("shop", "1.0.0", nil)
	w.reconcile("shop")
	if n := w.noted(); len(w.applied) != 1 || n == nil || n.RecordDigest != "shop 1" || n.BaseDigest != "shop 1" || len(n.Objects) != 1 {
		t.Fatalf("%d operations, noted %+v", len(w.applied), n)
	}
	return w
}

func (w *world) upgrade() helm.Request {
	w.t.Helper()
	before := len(w.applied)
	w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.1.0" })
	w.reconcile("shop")
	if len(w.applied) != before+1 {
		w.t.Fatalf("%d operations: %s", len(w.applied)-before, condition(w.get("shop"), "Upgraded"))
	}
	return w.applied[before]
}

// X21: what the records of a release were is noted, where only the platform writes; for records that are as noted an operation is what it was.
func TestX21RecordsThatAreAsTheyWereNotedAreBelieved(t *testing.T) {
	w := installed(t)
	if r := w.applied[0]; r.RecordDigest != helm.NoRecord || r.ID == "" || r.KeepFailed {
		t.Errorf("the first operation: %+v", r)
	}
	if r := w.upgrade(); r.RecordDigest != "shop 1" || r.BaseDigest != "shop 1" || r.ID == "" || r.KeepFailed {
		t.Errorf("the second: %+v", r)
	}
	if n := w.noted(); n.RecordDigest != "shop 2" {
		t.Errorf("noted: %+v", n)
	}
	w.deleted("shop")
	if r := w.removed[0]; !w.isGone("shop") || r.RecordDigest != "shop 2" || r.SkipHooks {
		t.Errorf("the removal: %+v", r)
	}
}

// X21: a record that somebody else wrote gives the installer no right to what it says, nor is it gone back to, or its hooks run.
func TestX21ARecordThatSomebodyElseWroteGivesNothing(t *testing.T) {
	outside := helm.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "other", Name: "victim"}
	ofCluster := helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "victim"}
	within := helm.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "bystander"}
	for name, object := range map[string]helm.Object{"of another namespace": outside, "of the cluster": ofCluster} {
		t.Run("an upgrade with an object "+name, func(t *testing.T) {
			w := installed(t)
			w.records["shop"], w.recorded = forged(), []helm.Object{object}
			w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Extension.Version = "1.1.0" })
			w.reconcile("shop")
			p := w.get("shop")
			if len(w.applied) != 1 || condition(p, "Upgraded") != "False Invalid" || len(w.leftRights()) > 0 || w.noted().RecordDigest != "shop 1" {
				t.Errorf("%d operations, %q, noted %+v", len(w.applied), condition(p, "Upgraded"), w.noted())
			}
		})
		t.Run("a Secret of somebody else before the installation, with an object "+name, func(t *testing.T) {
			w := newWorld(t)
			w.version("shop", "1.0.0", permissions, nil)
			w.plan("shop", "1.0.0", nil)
			w.records["shop"], w.recorded = forged(), []helm.Object{object}
			w.reconcile("shop")
			if p := w.get("shop"); len(w.applied) != 0 || condition(p, "Installed") != "False Invalid" || len(w.leftRights()) > 0 {
				t.Errorf("%d operations, %q", len(w.applied), condition(p, "Installed"))
			}
		})
		t.Run("a removal with an object "+name, func(t *testing.T) {
			w := installed(t)
			mine := w.objects
			w.records["shop"], w.objects = forged(), append(slices.Clone(mine), object, within,
				helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "hook", Hook: true})
			w.deleted("shop")
			if len(w.removed) != 1 || !w.removed[0].SkipHooks || w.removed[0].RecordDigest != "forged" || w.removed[0].Orphan {
				t.Fatalf("%+v", w.removed)
			}
			if got := fmt.Sprint(w.names()); got != "[extension-shop/web]" {
				t.Errorf("rights on %s: only what was noted is the release's", got)
			}
		})
	}
	t.Run("within the namespace", func(t *testing.T) {
		w := installed(t)
		w.records["shop"], w.recorded = forged(), []helm.Object{within}
		// It is neither believed that the operation is done, nor gone back to; what it says is not deleted.
		if r := w.upgrade(); r.ID != "" || !r.KeepFailed || r.RecordDigest != "forged" || slices.Contains(w.names(), "extension-shop/bystander") {
			t.Errorf("%+v, rights on %q", r, w.names())
		}
		if n := w.noted(); n.RecordDigest != "shop 8" || n.BaseDigest != "shop 8" {
			t.Errorf("noted: %+v", n)
		}
	})
	t.Run("a former revision that was put back", func(t *testing.T) {
		w := installed(t)
		w.upgrade()
		w.records["shop"] = deployed("shop", 1)
		w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "replicas: 2\n" })
		w.reconcile("shop")
		if r := w.applied[2]; r.ID != "" || !r.KeepFailed || r.RecordDigest != "shop 1" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a revision to go back to", func(t *testing.T) {
		w := installed(t)
		w.records["shop"].BaseDigest = "forged"
		if r := w.upgrade(); r.ID != "" || !r.KeepFailed || r.BaseDigest != "forged" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("what an operation that began has left", func(t *testing.T) {
		w := installed(t)
		half := forged()
		half.Status, half.BaseDigest = "failed", "shop 1"
		w.records["shop"] = half
		w.fails = []*helm.Error{{Reason: helm.ReasonRender, Message: "nothing was written"}}
		if r := w.upgrade(); r.ID == "" || r.KeepFailed || r.RecordDigest != "forged" {
			t.Errorf("%+v", r)
		}
		if n := w.noted(); n.RecordDigest != "shop 1" {
			t.Errorf("what an operation that wrote nothing has found is noted as its own: %+v", n)
		}
		half.Status, half.BaseDigest = "deployed", "forged"
		w.deleted("shop")
		if last := w.removed[0]; !last.SkipHooks {
			t.Errorf("%+v", last)
		}
	})
}

// X21: what was installed before records were noted is noted at the start, once; what is written into them afterwards is not believed.
func TestX21WhatWasInstalledBeforeIsNotedAtTheStart(t *testing.T) {
	w := installed(t)
	if err := w.client.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace("kubesphere-system")); err != nil {
		t.Fatal(err)
	}
	was := w.r
	w.r = &installplan.Reconciler{Client: was.Client, Live: was.Live, Workloads: was.Workloads, Mapper: was.Mapper, Config: was.Config, Events: was.Events,
		Now: was.Now, Options: was.Options}
	w.objects = append(w.objects, helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "shop"})
	w.reconcile("shop")
	n := w.noted()
	if n == nil || n.RecordDigest != "shop 1" || n.Namespace != "extension-shop" || len(n.Objects) != 2 || len(w.applied) != 1 {
		t.Fatalf("noted %+v after %d operations", n, len(w.applied))
	}
	before := w.writes
	w.reconcile("shop")
	if w.writes != before {
		t.Errorf("a settled one: %d writes", w.writes-before)
	}
	// An administrator has upgraded it by Helm's CLI: what was noted of the cluster is the release's still.
	w.records["shop"], w.recorded = forged(), w.objects
	if r := w.upgrade(); r.ID != "" || !r.KeepFailed || !strings.Contains(fmt.Sprint(w.names()), "/shop") {
		t.Errorf("%+v, rights on %q", r, w.names())
	}
}
