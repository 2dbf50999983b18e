package apprelease_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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

// turnsWorld returns a world with releases of three workspaces, which wait or work as they are told.
func turnsWorld(t *testing.T) (w *world, wait, work func(name string)) {
	t.Helper()
	w = newWorld(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "third", Labels: map[string]string{"kubesphere.io/workspace": "third"}}},
		version("redis-2", "other", v2.StateActive), version("redis-3", "third", v2.StateActive))
	for name, at := range map[string][3]string{"a1": {"shop", "web", "redis-1"}, "a2": {"shop", "web", "redis-1"}, "a3": {"shop", "web", "redis-1"},
		"b1": {"other", "other", "redis-2"}, "b2": {"other", "other", "redis-2"}, "c1": {"third", "third", "redis-3"}} {
		if err := w.client.Create(t.Context(), newRelease(func(r *v2.ApplicationRelease) {
			r.Name, r.UID, r.Finalizers, r.Spec.AppVersionID = name, types.UID(name), []string{v2.FinalizerRelease}, at[2]
			r.Labels[v2.LabelWorkspace], r.Labels[v2.LabelNamespace] = at[0], at[1]
		})); err != nil {
			t.Fatal(err)
		}
	}
	do := func(name string) (waits bool) {
		t.Helper()
		result, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		if err != nil {
			t.Error(err)
		}
		rel := w.named(name)
		if waits = rel.Status.SpecHash == ""; waits && (result.RequeueAfter == 0 || rel.Status.Message == "") {
			t.Errorf("%s: %+v, %+v", name, result, rel.Status)
		}
		return waits
	}
	wait = func(name string) {
		t.Helper()
		if !do(name) {
			t.Errorf("%s does not wait", name)
		}
	}
	work = func(name string) {
		t.Helper()
		if do(name) {
			t.Errorf("%s waits", name)
		}
	}
	return w, wait, work
}

// named returns a release.
func (w *world) named(name string) *v2.ApplicationRelease {
	w.t.Helper()
	rel := &v2.ApplicationRelease{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, rel); err != nil {
		w.t.Fatal(err)
	}
	return rel
}

// X15, X33: two operations of the store run at once and one of a workspace, so that hooks that take their time hold neither extensions nor other
// workspaces; who has waited comes before who had a turn.
func TestX15OneWorkspaceDoesNotHoldTheOthers(t *testing.T) {
	w, wait, work := turnsWorld(t)
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

// X15: a workspace that wants its turn no more, as that of a release which was deleted, holds the others for seconds.
func TestX15WhoDoesNotComeBackHoldsNobody(t *testing.T) {
	w, wait, work := turnsWorld(t)
	w.r.Helm = during{w, map[string]func(){
		"a1": func() {
			work("b1")
			wait("b2") // c1 is before it
			w.now = w.now.Add(4 * time.Second)
			work("b2")
		},
		"b1": func() { wait("c1") },
	}}
	work("a1")
}

// X15: what a release waited for is said of it no more once its change is taken back, and why one has failed stays said meanwhile. A removal that waits
// for its turn reads nothing of kube-apiserver.
func TestX15WhoWaitsSaysWhatHolds(t *testing.T) {
	w, _, work := turnsWorld(t)
	reads := 0
	w.r.Live = interceptor.NewClient(w.client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, opts...)
		}})
	w.r.Helm = during{w, nil}
	work("a2")
	change := func(name string, by func(*v2.ApplicationRelease)) *v2.ApplicationRelease {
		rel := w.named(name)
		by(rel)
		if err := w.client.Update(t.Context(), rel); err != nil {
			t.Fatal(err)
		}
		if _, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
			t.Fatal(err)
		}
		return w.named(name)
	}
	w.fails = []error{&helm.Error{Reason: helm.ReasonInvalid, Message: "the values are not valid"}}
	work("a3")
	w.now = w.now.Add(time.Minute)
	for _, name := range []string{"a2", "a3"} {
		change(name, func(*v2.ApplicationRelease) {})
	}
	active, failed := w.named("a2").Status, w.named("a3").Status
	if active.State != v2.ReleaseActive && active.State != v2.ReleaseCreated || failed.State != v2.ReleaseFailed {
		t.Fatalf("%+v and %+v", active, failed)
	}
	w.r.Helm = during{w, map[string]func(){
		"a1": func() {
			for name, was := range map[string]v2.ApplicationReleaseStatus{"a2": active, "a3": failed} {
				waiting := change(name, func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationRetry] = "1" }).Status
				if waits := strings.Contains(waiting.Message, "it waits"); waits != (name == "a2") || waiting.State != was.State {
					t.Errorf("%s waits: %+v", name, waiting)
				}
				now := change(name, func(r *v2.ApplicationRelease) { delete(r.Annotations, v2.AnnotationRetry) }).Status
				if now.Message != was.Message || now.State != was.State {
					t.Errorf("%s, whose change is taken back: %+v", name, now)
				}
			}
			if err := w.client.Delete(t.Context(), w.named("a2")); err != nil {
				t.Fatal(err)
			}
			reads = 0
			if got := change("a2", func(*v2.ApplicationRelease) {}).Status; got.State != v2.ReleaseDeleting || !strings.Contains(got.Message, "it waits") || reads > 0 {
				t.Errorf("a removal that waits: %+v, %d reads", got, reads)
			}
		},
	}}
	work("a1")
}
