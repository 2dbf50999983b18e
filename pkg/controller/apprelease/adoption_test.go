package apprelease_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// earlierWorld is a world with the Helm release of an earlier installation.
func earlierWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.record = &helm.Result{Release: deployed("theirs"), Objects: w.applied}
	return w
}

// earlier makes a release one of an earlier installation, which noted no author.
func earlier(state string) func(*v2.ApplicationRelease) {
	return func(r *v2.ApplicationRelease) {
		r.Status = v2.ApplicationReleaseStatus{State: state, SpecHash: "5d41402a"}
		delete(r.Annotations, v2.AnnotationUser)
	}
}

// addUnread adds a release whose record can't be read, and verifies that this is said.
func (w *world) addUnread(change func(*v2.ApplicationRelease)) {
	w.t.Helper()
	w.r.Helm = broken{w, true}
	w.refusesToAdopt(change, "more memory")
}

// hold adds a release with its finalizer, and without a reconcile.
func (w *world) hold(change func(*v2.ApplicationRelease)) {
	w.t.Helper()
	r := newRelease(change)
	r.Finalizers = []string{v2.FinalizerRelease}
	status := r.Status
	if err := w.client.Create(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
	r.Status = status
	if err := w.client.Status().Update(w.t.Context(), r); err != nil {
		w.t.Fatal(err)
	}
}

// refusesToAdopt adds a release that can't be adopted, and verifies that why is said.
func (w *world) refusesToAdopt(change func(*v2.ApplicationRelease), why string) {
	w.t.Helper()
	w.hold(change)
	for range 2 { // what fails once is tried again
		_, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "cache"}})
		if got := w.get().Status; err == nil || !strings.HasPrefix(got.Message, "what an earlier installation has installed is not known yet: ") ||
			!strings.Contains(got.Message, why) {
			w.t.Errorf("%v, %+v", err, got)
		}
	}
}

// uninstalls verifies that the last operation removes the release, with its hooks if there is an author, and its objects by a role.
func (w *world) uninstalls(hooks bool) {
	w.t.Helper()
	if !w.gone() || len(w.asked) == 0 {
		w.t.Fatalf("gone is %v after %d operations", w.gone(), len(w.asked))
	}
	if last := w.asked[len(w.asked)-1]; last.Operation != helm.Uninstall || last.SkipHooks == hooks || last.Orphan ||
		w.roles["web/kapis:application-release:cache"] == nil {
		w.t.Errorf("removed by %+v with %v", last, w.roles)
	}
}

// X39: a release of an earlier installation is adopted in whatever state it was left: it is upgraded, and removed with what it has.
func TestX39AReleaseIsAdoptedInEveryState(t *testing.T) {
	for state, want := range map[string]string{v2.ReleaseActive: v2.ReleaseActive, v2.ReleaseCreated: v2.ReleaseActive, v2.ReleaseUpgraded: v2.ReleaseActive,
		v2.ReleaseTimeout: v2.ReleaseActive, v2.ReleaseDeployFailed: v2.ReleaseActive, v2.ReleaseFailed: v2.ReleaseFailed,
		// They were interrupted, are done again, and there is no author: this is said.
		v2.ReleaseCreating: v2.ReleaseFailed, v2.ReleaseUpgrading: v2.ReleaseFailed} {
		t.Run(state, func(t *testing.T) {
			w := earlierWorld(t)
			got := w.add(earlier(state))
			if got.Status.State != want || len(w.asked) > 0 || w.inventory() == nil || w.inventory().RecordDigest != "theirs" || !release.IsDone(got) {
				t.Fatalf("%+v, %d operations, noted %+v", got.Status, len(w.asked), w.inventory())
			}
			got = w.change(func(r *v2.ApplicationRelease) { r.Annotations = map[string]string{v2.AnnotationUser: "bob"} })
			if got.Status.State != v2.ReleaseUpgraded || len(w.asked) != 1 || w.asked[0].RecordDigest != "theirs" || w.asked[0].Cluster.User != "bob" {
				t.Errorf("%+v, asked %+v", got.Status, w.asked)
			}
			w.remove()
			w.uninstalls(true)

			w = earlierWorld(t)
			w.add(earlier(state))
			w.remove()
			w.uninstalls(false)

			w = earlierWorld(t) // saved before it was adopted
			got = w.add(func(r *v2.ApplicationRelease) {
				earlier(state)(r)
				r.Annotations = map[string]string{v2.AnnotationUser: "bob", v2.AnnotationSaved: "true"}
			})
			if got.Status.State != v2.ReleaseUpgraded || len(w.asked) != 1 || w.asked[0].RecordDigest != "theirs" || w.asked[0].Cluster.User != "bob" {
				t.Errorf("saved before: %+v, asked %+v", got.Status, w.asked)
			}
			if state == v2.ReleaseCreating || state == v2.ReleaseUpgrading {
				return
			}
			w = earlierWorld(t) // an earlier installation may name an author, too
			got = w.add(func(r *v2.ApplicationRelease) {
				earlier(state)(r)
				r.Annotations[v2.AnnotationUser] = "bob"
			})
			if len(w.asked) > 0 || w.inventory() == nil || !release.IsDone(got) {
				t.Errorf("with an author: %+v, asked %+v", got.Status, w.asked)
			}
		})
	}
	t.Run("its record can't be read yet", func(t *testing.T) {
		w := earlierWorld(t)
		w.addUnread(earlier(v2.ReleaseActive))
		if got := w.get().Status; got.State != v2.ReleaseActive || got.SpecHash != "5d41402a" {
			t.Errorf("%+v", got)
		}
		w.r.Helm = w
		w.reconcile()
		if got := w.get(); got.Status.State != v2.ReleaseActive || got.Status.Message != "" || !release.IsDone(got) || len(w.asked) > 0 {
			t.Errorf("read: %+v, asked %+v", got.Status, w.asked)
		}
	})
	t.Run("deleted before it was adopted", func(t *testing.T) {
		w := earlierWorld(t)
		w.hold(func(r *v2.ApplicationRelease) {
			r.Status = v2.ApplicationReleaseStatus{State: v2.ReleaseActive, SpecHash: "5d41402a"}
		})
		w.remove()
		w.uninstalls(true)
	})
	t.Run("its record can't be read", func(t *testing.T) {
		w := earlierWorld(t)
		w.hold(func(r *v2.ApplicationRelease) {
			r.Status = v2.ApplicationReleaseStatus{State: v2.ReleaseActive, SpecHash: "5d41402a"}
		})
		w.r.Helm = broken{w, true}
		w.remove()
		for range 10 {
			if !w.gone() {
				w.now = w.now.Add(w.reconcile().RequeueAfter)
			}
		}
		if said := w.said(); !w.gone() || !strings.Contains(said, "what an earlier installation has installed: ") {
			t.Errorf("gone is %v: %s", w.gone(), said)
		}
	})
}

// unlabelled is a ConfigMap as an earlier installation has applied it, and labelled one that an administrator has given to the release.
func unlabelled(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"web"}}`, name)
}

func labelled(name string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"web","labels":{%q:"cache"}}}`, name, v2.LabelRelease)
}

// X39: YAML documents of an earlier installation are adopted by the values. Those that have been given the release's label are upgraded, and
// removed. What has none is somebody else's, and named.
func TestX39DocumentsOfAnEarlierInstallationAreAdopted(t *testing.T) {
	const of = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: web}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n"
	adopted := func(t *testing.T, values string) *world {
		t.Helper()
		w := yamlWorld(t, of)
		for _, name := range []string{"one", "two"} {
			w.put(configMaps, labelled(name))
		}
		w.put(configMaps, unlabelled("theirs"))
		got := w.add(func(r *v2.ApplicationRelease) {
			ofYAML(values)(r)
			earlier(v2.ReleaseActive)(r)
		})
		if got.Status.State != v2.ReleaseActive || w.inventory() == nil || len(w.as) > 0 {
			t.Fatalf("%+v, noted %+v, written as %q", got.Status, w.inventory(), w.as)
		}
		return w
	}
	t.Run("Upgraded", func(t *testing.T) {
		w := adopted(t, of)
		got := w.change(func(r *v2.ApplicationRelease) {
			ofYAML(strings.Replace(of, "name: two", "name: three", 1))(r)
			r.Annotations = map[string]string{v2.AnnotationUser: "bob"}
		})
		if has := w.has("web"); got.Status.State != v2.ReleaseUpgraded || !slices.Equal(has, []string{"one", "theirs", "three"}) || w.inventory().Earlier {
			t.Errorf("%+v, there are %q, noted %+v", got.Status, has, w.inventory())
		}
		one, err := w.objects.Resource(configMaps).Namespace("web").Get(t.Context(), "one", metav1.GetOptions{})
		if err != nil || one.GetLabels()[v2.LabelRelease] != "cache" {
			t.Errorf("%v %v", one, err)
		}
		w.remove()
		if has := w.has("web"); !w.gone() || !slices.Equal(has, []string{"theirs"}) {
			t.Errorf("after the removal %q", has)
		}
	})
	t.Run("Removed", func(t *testing.T) {
		w := adopted(t, of+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs}\n")
		w.remove()
		said := w.said()
		if has := w.has("web"); !w.gone() || !slices.Equal(has, []string{"theirs"}) || !strings.Contains(said, "ConfigMap web/theirs") ||
			strings.Contains(said, "web/one") {
			t.Errorf("there are %q: %s", has, said)
		}
	})
	t.Run("NotTaken", func(t *testing.T) {
		w := adopted(t, of)
		got := w.change(func(r *v2.ApplicationRelease) {
			ofYAML(strings.Replace(of, "name: two", "name: theirs", 1))(r)
			r.Annotations = map[string]string{v2.AnnotationUser: "bob"}
		})
		if got.Status.State != v2.ReleaseFailed || !strings.Contains(got.Status.Message, "not this release's: it has not the label "+v2.LabelRelease+"=cache") {
			t.Errorf("%+v", got.Status)
		}
	})
	t.Run("NothingReadable", func(t *testing.T) {
		w := adopted(t, "\t{")
		w.remove()
		if said := w.said(); !w.gone() || !strings.Contains(said, "what an earlier installation has applied: ") {
			t.Errorf("gone is %v: %s", w.gone(), said)
		}
	})
}

// ownWeb makes the namespace of the release one of a workspace, or of none.
func (w *world) ownWeb(workspace string) {
	w.t.Helper()
	n := &corev1.Namespace{}
	err := w.client.Get(w.t.Context(), client.ObjectKey{Name: "web"}, n)
	if n.Labels = map[string]string{v2.LabelWorkspace: workspace}; err == nil {
		err = w.client.Update(w.t.Context(), n)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// toAdopt makes a release one of which a hub says that an earlier installation has installed it here.
func toAdopt(r *v2.ApplicationRelease) {
	sentByHub(r)
	delete(r.Annotations, v2.AnnotationFleetPackage)
	r.Annotations[v2.AnnotationUser], r.Annotations[v2.AnnotationAdopt] = release.Nobody, "true"
}

// X39: a member adopts what its hub says an earlier installation has installed there, without an operation, and removes it with what it has.
func TestX39AMemberAdoptsWhatItsHubSays(t *testing.T) {
	t.Run("Removed", func(t *testing.T) {
		w := earlierWorld(t)
		w.r.Sent, w.r.Host = brought{}, ""
		if got := w.add(toAdopt); got.Status.State != v2.ReleaseActive || !release.IsDone(got) || len(w.asked) > 0 || w.inventory().RecordDigest != "theirs" {
			t.Fatalf("%+v, %d operations, noted %+v", got.Status, len(w.asked), w.inventory())
		}
		w.remove()
		w.uninstalls(false)
	})
	t.Run("RemovedAtOnce", func(t *testing.T) {
		w := earlierWorld(t)
		w.r.Sent, w.r.Host = brought{}, ""
		if err := w.client.Create(t.Context(), newRelease(func(r *v2.ApplicationRelease) {
			toAdopt(r)
			r.Finalizers = []string{v2.FinalizerRelease}
		})); err != nil {
			t.Fatal(err)
		}
		w.remove()
		w.uninstalls(false)
	})
	t.Run("SavedSince", func(t *testing.T) {
		w := earlierWorld(t)
		w.r.Sent, w.r.Host = brought{}, ""
		if err := w.client.Create(t.Context(), ofFleet("ann", "u-hub", "")); err != nil {
			t.Fatal(err)
		}
		got := w.add(func(r *v2.ApplicationRelease) {
			sentByHub(r)
			r.Annotations[v2.AnnotationUser], r.Annotations[v2.AnnotationAdopt] = "ann", "true"
		})
		if got.Status.State != v2.ReleaseUpgraded || len(w.asked) != 1 || w.asked[0].RecordDigest != "theirs" || w.asked[0].Cluster.User != "ann" {
			t.Errorf("%+v, asked %+v", got.Status, w.asked)
		}
	})
	t.Run("ItsRecordCantBeReadYet", func(t *testing.T) {
		w := earlierWorld(t)
		w.r.Sent, w.r.Host = brought{}, ""
		w.addUnread(toAdopt)
		if got := w.get().Status; got.State != v2.ReleaseCreating || got.SpecHash != "" {
			t.Errorf("%+v", got)
		}
		w.r.Helm = w
		w.reconcile()
		if got := w.get(); got.Status.State != v2.ReleaseActive || got.Status.Message != "" || !release.IsDone(got) || len(w.asked) > 0 {
			t.Errorf("read: %+v, asked %+v", got.Status, w.asked)
		}
	})
	// The namespace becomes one of the workspace after the member was told: until then nothing is known, and nothing ends.
	notYet := func(t *testing.T) *world {
		t.Helper()
		w := earlierWorld(t)
		w.r.Sent, w.r.Host = brought{}, ""
		w.ownWeb("")
		w.refusesToAdopt(toAdopt, "not one of the workspace")
		if got := w.get().Status; got.State != v2.ReleaseCreating || got.SpecHash != "" || w.inventory() != nil {
			t.Fatalf("%+v, noted %+v", got, w.inventory())
		}
		return w
	}
	t.Run("NotYetTheWorkspaces", func(t *testing.T) {
		w := notYet(t)
		w.ownWeb("shop")
		w.reconcile()
		if got := w.get(); got.Status.State != v2.ReleaseActive || got.Status.Message != "" || !release.IsDone(got) || len(w.asked) > 0 || w.inventory() == nil {
			t.Errorf("%+v, %d operations, noted %+v", got.Status, len(w.asked), w.inventory())
		}
		w.remove()
		w.uninstalls(false)
	})
	t.Run("NotYetTheWorkspacesAndRemoved", func(t *testing.T) {
		w := notYet(t)
		w.remove()
		if said := w.said(); !w.gone() || len(w.asked) > 0 ||
			!strings.Contains(said, "Kept left in the cluster: what an earlier installation has installed: ") {
			t.Errorf("gone is %v, asked %+v: %s", w.gone(), w.asked, said)
		}
	})
	for name, change := range map[string]func(*world, *v2.ApplicationRelease){
		"NothingIsThere":            func(w *world, _ *v2.ApplicationRelease) { w.record = nil },
		"NoNamespace":               func(_ *world, r *v2.ApplicationRelease) { r.Labels[v2.LabelNamespace] = "gone" },
		"TheHubSaysNothing":         func(_ *world, r *v2.ApplicationRelease) { delete(r.Annotations, v2.AnnotationAdopt) },
		"SomebodyOfTheMemberSaysIt": func(_ *world, r *v2.ApplicationRelease) { delete(r.Labels, clusterv1alpha1.LabelFleet) },
		"NoMember":                  func(w *world, _ *v2.ApplicationRelease) { w.r.Sent = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := earlierWorld(t)
			w.r.Sent, w.r.Host = brought{}, "host"
			got := w.add(func(r *v2.ApplicationRelease) {
				toAdopt(r)
				change(w, r)
			})
			if got.Status.State != v2.ReleaseFailed || w.inventory() != nil {
				t.Errorf("%+v, noted %+v", got.Status, w.inventory())
			}
			// What is there later is somebody else's.
			w.record = &helm.Result{Release: deployed("theirs"), Objects: w.applied}
			w.now = w.now.Add(time.Hour)
			w.remove()
			if said := w.said(); !w.gone() || len(w.asked) > 0 || strings.Contains(said, "Kept ") {
				t.Errorf("gone is %v, asked %+v: %s", w.gone(), w.asked, said)
			}
		})
	}
}
