package apprelease_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// X33: a removal ends where Helm's record can't be read, or not be forgotten, however often that is tried; what it leaves is named.
func TestX33ARemovalEndsWhateverItsRecordIs(t *testing.T) {
	for claim, reading := range map[string]bool{"it can't be read": true, "it can't be forgotten": false} {
		t.Run(claim, func(t *testing.T) {
			w := newWorld(t)
			w.add(nil)
			w.r.Helm = broken{w, reading}
			w.remove()
			for range 10 {
				if w.gone() {
					break
				}
				w.now = w.now.Add(w.reconcile().RequeueAfter)
			}
			if !w.gone() {
				t.Fatalf("it is not gone: %+v", w.get().Status)
			}
			said := ""
			for len(w.events.Events) > 0 {
				said += <-w.events.Events + "\n"
			}
			if !strings.Contains(said, "left in the cluster") || !strings.Contains(said, "ConfigMap web/redis") {
				t.Error(said)
			}
		})
	}
}

// broken is a Helm that needs more memory than it may take: for reading a record, or for each removal.
type broken struct {
	*world
	reading bool
}

func (b broken) Run(ctx context.Context, r helm.Request, e func(helm.Event)) (*helm.Result, error) {
	if r.Operation == helm.Uninstall || b.reading {
		return nil, &helm.Error{Reason: helm.ReasonMemory, Message: "it took more memory than it may, and was killed"}
	}
	return b.world.Run(ctx, r, e)
}

// A release ends with the namespace that it was installed in; what it has outside of that is named. One that waits for its namespace stays.
func TestAReleaseEndsWithItsNamespace(t *testing.T) {
	w := newWorld(t)
	w.applied = append(w.applied, helm.Object{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "outside"})
	w.add(nil)
	if err := w.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	asked := len(w.asked)
	w.reconcile() // deletes it
	if w.get().DeletionTimestamp.IsZero() {
		t.Fatalf("it stays: %+v", w.get().Status)
	}
	w.reconcile() // lets it go
	if !w.gone() || w.inventory() != nil || len(w.asked) != asked {
		t.Errorf("gone is %v, it leaves %+v, and Helm was asked for %+v", w.gone(), w.inventory(), w.asked[asked:])
	}
	said := ""
	for len(w.events.Events) > 0 {
		said += <-w.events.Events + "\n"
	}
	if !strings.Contains(said, "NamespaceGone") || !strings.Contains(said, "k8s.io outside") || strings.Contains(said, "ConfigMap") {
		t.Error(said)
	}

	w = newWorld(t)
	if err := w.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	if r := w.add(nil); !r.DeletionTimestamp.IsZero() || r.Status.State != v2.ReleaseFailed {
		t.Errorf("one that was never installed is %+v", r)
	}
}
