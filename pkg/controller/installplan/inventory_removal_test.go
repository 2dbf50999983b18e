package installplan_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// ofRelease returns a ClusterRole that says of which release it is.
func ofRelease(name, release string, more ...string) *rbacv1.ClusterRole {
	out := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"meta.helm.sh/release-name": release,
		"meta.helm.sh/release-namespace": "extension-shop"}}}
	for i := 0; i < len(more); i += 2 {
		out.Annotations[more[i]] = more[i+1]
	}
	return out
}

// X27: what a release had outside of its namespace goes with the plan, also where that was deleted, and Helm's record of it with that: webhooks, roles and
// bindings of the cluster would be left. What is another's by now, or says that it stays, stays.
func TestX27WhatAReleaseHadGoesWhereItsRecordIsGone(t *testing.T) {
	for name, force := range map[string]bool{"removed": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.version("shop", "1.0.0", permissions+`- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: ["*"]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [escalate]}
`, nil)
			for _, role := range []string{"shop", "theirs", "keeps", "gone"} {
				w.objects = append(w.objects, helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role})
			}
			w.objects = append(w.objects, helm.Object{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "things.a.example"})
			w.plan("shop", "1.0.0", nil)
			w.reconcile("shop")
			if len(w.applied) != 1 {
				t.Fatalf("%d operations: %s", len(w.applied), condition(w.get("shop"), "Installed"))
			}
			for _, o := range []client.Object{ofRelease("shop", "shop"), ofRelease("theirs", "other"), ofRelease("keeps", "shop", "helm.sh/resource-policy", "keep")} {
				if err := w.client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "extension-shop"}}); err != nil {
				t.Fatal(err)
			}
			w.noRelease = true
			if force {
				w.changeUnapproved("shop", func(p *v1alpha1.InstallPlan) { p.Annotations[v1alpha1.AnnotationForceDelete] = "" })
			}
			w.deleted("shop")
			want := []string{"keeps", "theirs"}
			if force { // what is installed stays
				want = []string{"keeps", "shop", "theirs"}
			}
			left := w.leftRights()
			if slices.Sort(left); !slices.Equal(left, want) || !w.isGone("shop") || len(w.removed) > 0 {
				t.Errorf("left are %q, want %q; the plan is gone: %v", left, want, w.isGone("shop"))
			}
			for _, asked := range w.asked {
				if asked.Resource == "customresourcedefinitions" && asked.Verb == "delete" {
					t.Error("a definition would be deleted")
				}
			}
		})
	}
}

// X27: what an attempt made that failed goes once another one has succeeded that does not have it, or with the plan: no record of Helm's has it then. What is
// another's stays.
func TestX27WhatAFailedAttemptMadeGoes(t *testing.T) {
	for name, fails := range map[string]bool{"once another one succeeds": false, "with the plan": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.version("shop", "1.0.0", permissions+"- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [escalate]}\n", nil)
			web := w.objects
			for _, role := range []string{"shop", "theirs", "never-made"} {
				w.objects = append(w.objects, helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: role})
			}
			w.fails = []*helm.Error{{Reason: helm.ReasonFailed, Message: "half of it is there"}}
			w.plan("shop", "1.0.0", nil)
			w.reconcile("shop")
			for _, o := range []client.Object{ofRelease("shop", "shop"), ofRelease("theirs", "other")} {
				if err := w.client.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			w.objects = web
			if fails {
				w.fails = []*helm.Error{{Reason: helm.ReasonFailed, Message: "half of it is there"}}
			}
			w.change("shop", func(p *v1alpha1.InstallPlan) { p.Spec.Config = "replicas: 2\n" })
			w.reconcile("shop")
			if fails {
				w.deleted("shop")
			} else if n := w.noted(); len(n.Objects) != 1 {
				t.Errorf("noted are %v", n.Objects)
			}
			if left := w.leftRights(); len(w.applied) != 2 || !slices.Equal(left, []string{"theirs"}) {
				t.Errorf("after %d operations there are %q", len(w.applied), left)
			}
		})
	}
}
