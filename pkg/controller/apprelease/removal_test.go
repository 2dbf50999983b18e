package apprelease_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
			said := w.said()
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
	said := w.said()
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

// X28: a namespace that was deleted and made again is somebody else's: a release of the former one ends, and touches nothing in this one, as
// a Helm release of the same name.
func TestX28ANamespaceThatWasMadeAgainIsAnotherOne(t *testing.T) {
	for name, c := range map[string]struct {
		ofYAML  bool
		deleted bool // the release, before anything of the namespace was seen
	}{
		"ANamespaceEndsIt":   {},
		"AHelmReleaseIsLeft": {deleted: true},
		"DocumentsAreLeft":   {ofYAML: true, deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, change := newWorld(t), (func(*v2.ApplicationRelease))(nil)
			if c.ofYAML {
				w, change = yamlWorld(t, documents), ofYAML("")
			}
			w.add(change)
			asked, has := len(w.asked), w.has("web")
			w.makeNamespaceAgain(time.Time{})
			if c.deleted {
				if err := w.client.Delete(t.Context(), w.get()); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if !w.gone() {
					w.reconcile()
				}
			}
			if !w.gone() || w.inventory() != nil {
				t.Errorf("it stays: its inventory is %+v", w.inventory())
			}
			if said := w.said(); !strings.Contains(said, "the namespace web, which was made again") {
				t.Errorf("it said %s", said)
			}
			if len(w.asked) != asked || !slices.Equal(w.has("web"), has) {
				t.Errorf("Helm was asked for %+v, and of %q there are %q", w.asked[asked:], has, w.has("web"))
			}
		})
	}
	t.Run("NoOperationRunsInIt", func(t *testing.T) {
		w := newWorld(t)
		w.add(func(r *v2.ApplicationRelease) { r.CreationTimestamp = metav1.NewTime(w.now) })
		w.makeNamespaceAgain(w.now.Add(-time.Minute)) // by another clock
		got := w.change(func(r *v2.ApplicationRelease) { r.Annotations[v2.AnnotationRetry] = "1" })
		if got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, "this is another one") || len(w.asked) != 1 {
			t.Errorf("%+v, %d operations", got.Status, len(w.asked))
		}
	})
}

// makeNamespaceAgain deletes the namespace of the release, and makes another one of its name.
func (w *world) makeNamespaceAgain(at time.Time) {
	w.t.Helper()
	former := &corev1.Namespace{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "web"}, former); err != nil {
		w.t.Fatal(err)
	}
	if err := w.client.Delete(w.t.Context(), former); err != nil {
		w.t.Fatal(err)
	}
	next := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "another", Labels: former.Labels, CreationTimestamp: metav1.NewTime(at)}}
	if err := w.client.Create(w.t.Context(), next); err != nil {
		w.t.Fatal(err)
	}
}

// said returns the events until now, which are not returned again.
func (w *world) said() (all string) {
	for len(w.events.Events) > 0 {
		all += <-w.events.Events + "\n"
	}
	return all
}
