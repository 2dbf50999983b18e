package apprelease_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// during is a Helm that does something while it installs or removes a release.
type during struct {
	*world
	do map[string]func()
}

func (d during) Run(ctx context.Context, r helm.Request, e func(helm.Event)) (*helm.Result, error) {
	if do := d.do[r.Name]; do != nil && r.Operation != helm.Status {
		do()
	}
	if r.Operation == helm.Status {
		return nil, &helm.Error{Reason: helm.ReasonNotFound, Message: "no record"}
	}
	return d.world.Run(ctx, r, e)
}

// X15, X33: two operations of the store run at once and one of a workspace, so that hooks that take their time hold neither extensions nor other
// workspaces; who has waited comes before who had a turn.
func TestX15OneWorkspaceDoesNotHoldTheOthers(t *testing.T) {
	w := newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "third", Labels: map[string]string{"kubesphere.io/workspace": "third"}}},
		version("redis-2", "other", v2.StateActive), version("redis-3", "third", v2.StateActive))
	do := func(name string) (waits bool) {
		t.Helper()
		result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		if err != nil {
			t.Error(err)
		}
		rel := &v2.ApplicationRelease{}
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: name}, rel); err != nil {
			t.Fatal(err)
		}
		if waits = rel.Status.SpecHash == ""; waits && (result.RequeueAfter == 0 || rel.Status.Message == "") {
			t.Errorf("%s: %+v, %+v", name, result, rel.Status)
		}
		return waits
	}
	for name, at := range map[string][3]string{"a1": {"shop", "web", "redis-1"}, "a2": {"shop", "web", "redis-1"}, "a3": {"shop", "web", "redis-1"},
		"b1": {"other", "other", "redis-2"}, "b2": {"other", "other", "redis-2"}, "c1": {"third", "third", "redis-3"}} {
		if err := w.client.Create(t.Context(), newRelease(func(r *v2.ApplicationRelease) {
			r.Name, r.UID, r.Finalizers, r.Spec.AppVersionID = name, types.UID(name), []string{v2.FinalizerRelease}, at[2]
			r.Labels[v2.LabelWorkspace], r.Labels[v2.LabelNamespace] = at[0], at[1]
		})); err != nil {
			t.Fatal(err)
		}
	}
	wait, work := func(name string) {
		t.Helper()
		if !do(name) {
			t.Errorf("%s does not wait", name)
		}
	}, func(name string) {
		t.Helper()
		if do(name) {
			t.Errorf("%s waits", name)
		}
	}
	w.r.Helm = during{w, map[string]func(){
		"a1": func() {
			wait("a2")
			work("b1")
			wait("b2") // after c1, which has waited longer
			work("c1")
			work("b2")
			wait("a2")
		},
		"b1": func() {
			wait("a3")
			wait("b2")
			wait("c1")
		},
	}}
	work("a1")
	work("a2")
	work("a3")
	if n := len(w.asked); n != 6 {
		t.Errorf("%d operations", n)
	}
}
