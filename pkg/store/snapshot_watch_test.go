package store

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// bounded is a context that ends long after everything that a test waits for.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func openWatch(t *testing.T, st *Store) *Watch {
	t.Helper()
	w, err := st.Watch(bounded(t), podsGVR)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestWatchSeesEverySnapshotThatMatters(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	st := newStore(t, srv)
	w := openWatch(t, st)
	if w.Snapshot().Len() != 1 {
		t.Fatalf("%d objects at the start", w.Snapshot().Len())
	}
	position, objects := w.Snapshot().Position(), map[string]*index.Record{"a/one": nil}
	srv.put(podsPath, storetest.Pod("a", "two"))
	srv.remove(podsPath, "a/one")
	for objects["a/two"] == nil || len(objects) != 1 {
		s, err := w.Next(bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if s != w.Snapshot() || !s.Changes(position, func(c *index.Change) bool {
			follow(t, objects, c)
			return true
		}) {
			t.Fatal("a snapshot does not follow the one before")
		}
		position = s.Position()
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	srv := newServer(t)
	st := newStore(t, srv)
	w := openWatch(t, st)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for { // the bookmark of the initial list may still be on its way
		if _, err := w.Next(ctx); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			return
		}
	}
}

func TestWatchEndsWithItsKind(t *testing.T) {
	srv := newServer(t)
	v1 := schema.GroupVersion{Version: "v1"}
	d := &discovered{kinds: map[schema.GroupVersion][]metav1.APIResource{v1: {{Name: "pods", Kind: "Pod"}}}}
	st := newStore(t, srv, func(o *Options) { o.Discovery = d })
	st.Catalog().Refresh(t.Context())
	w := openWatch(t, st)
	d.set(func() { d.kinds = nil })
	st.Catalog().Refresh(t.Context())
	for {
		if _, err := w.Next(bounded(t)); err != nil {
			if !errors.Is(err, ErrGone) {
				t.Errorf("got %v", err)
			}
			break
		}
	}
	again := openWatch(t, st) // the kind has a new cache, and an old watch is not of it
	if again.cache == w.cache {
		t.Error("a watch of a kind that is gone")
	}
}

func TestWatchKeepsAnIdleKind(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	c := clocktesting.NewFakeClock(time.Now())
	st := newStore(t, srv, func(o *Options) { o.Clock = c; o.IdleAfter = time.Minute; o.StallAfter = 24 * time.Hour })
	w := openWatch(t, st)
	other := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	rest := func(gvr schema.GroupVersionResource) { // until the store has looked for idle kinds, and found this one
		t.Helper()
		if _, err := st.Snapshot(bounded(t), gvr); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an idle kind is dropped", func() bool {
			c.Step(2 * time.Minute)
			_, ok := st.cache(gvr)
			return !ok
		})
	}
	rest(other)
	if kept, ok := st.cache(podsGVR); !ok || kept != w.cache {
		t.Fatal("the kind was dropped while it was watched")
	}
	w.Close()
	w.Close() // does nothing
	if n := w.cache.watchers.Load(); n != 0 {
		t.Errorf("%d watchers are left", n)
	}
	rest(podsGVR)
}

func TestWatchThatCouldNotBeginLetsGo(t *testing.T) {
	srv := newServer(t)
	srv.set(podsPath, fault{status: http.StatusForbidden})
	st := newStore(t, srv, func(o *Options) { o.SyncWait = 50 * time.Millisecond })
	if _, err := st.Watch(bounded(t), podsGVR); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
	if c, ok := st.cache(podsGVR); !ok || c.watchers.Load() != 0 {
		t.Error("somebody seems to watch")
	}
}

// U7: a thousand watches that are opened and closed leave nothing; the package's leak check sees goroutines.
func TestAbandonedWatchesLeaveNothing(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	st := newStore(t, srv)
	var all sync.WaitGroup
	for range 1000 {
		w := openWatch(t, st)
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			defer w.Close()
			for {
				if _, err := w.Next(ctx); err != nil {
					return
				}
			}
		})
		cancel()
	}
	all.Wait()
	if c, _ := st.cache(podsGVR); c.watchers.Load() != 0 {
		t.Errorf("%d watchers are left", c.watchers.Load())
	}
}

func TestSnapshotAtWaitsForAVersion(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one")) // version 101
	st := newStore(t, srv, func(o *Options) { o.VersionWait = 30 * time.Second })
	for _, version := range []string{"", "0", "99", "101"} {
		if s, err := st.SnapshotAt(bounded(t), podsGVR, version); err != nil || s.Len() != 1 {
			t.Fatalf("version %q: %v", version, err)
		}
	}
	got := make(chan *index.Snapshot, 1)
	go func() {
		s, err := st.SnapshotAt(bounded(t), podsGVR, "103")
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	srv.put(podsPath, storetest.Pod("a", "two"))
	srv.put(podsPath, storetest.Pod("a", "three"))
	if s := <-got; s == nil || s.Len() != 3 {
		t.Error("the snapshot is older than what was asked for")
	}
}

func TestSnapshotWithoutWaitsForADeletion(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	srv.put(podsPath, storetest.Pod("a", "two"))
	st := newStore(t, srv, func(o *Options) { o.VersionWait = 30 * time.Second })
	first, err := st.Snapshot(bounded(t), podsGVR)
	if err != nil {
		t.Fatal(err)
	}
	one, ok := first.Get("a", "one")
	if !ok {
		t.Fatal("nothing is there")
	}
	for _, c := range []struct{ name, uid string }{{"none", one.UID}, {"one", "of one before it"}} {
		if s, err := st.SnapshotWithout(bounded(t), podsGVR, "a", c.name, c.uid); err != nil || s.Len() != 2 {
			t.Errorf("%+v: %v", c, err)
		}
	}
	got := make(chan *index.Snapshot, 1)
	go func() {
		s, err := st.SnapshotWithout(bounded(t), podsGVR, "a", "one", one.UID)
		if err != nil {
			t.Error(err)
		}
		got <- s
	}()
	eventually(t, "somebody waits", func() bool { c, ok := st.cache(podsGVR); return ok && c.watchers.Load() > 0 })
	srv.remove(podsPath, "a/one")
	if s := <-got; s == nil || s.Len() != 1 {
		t.Error("the snapshot has what was deleted")
	}
	st.options.VersionWait = 50 * time.Millisecond
	two, _ := first.Get("a", "two")
	if _, err := st.SnapshotWithout(bounded(t), podsGVR, "a", "two", two.UID); apierrors.ReasonForError(err) != metav1.StatusReasonTimeout ||
		!strings.Contains(err.Error(), "the deletion of a/two") {
		t.Errorf("not deleted: %v", err)
	}
}

func TestSnapshotAtSaysWhyItEnds(t *testing.T) {
	v1 := schema.GroupVersion{Version: "v1"}
	d := &discovered{kinds: map[schema.GroupVersion][]metav1.APIResource{v1: {{Name: "pods", Kind: "Pod"}}}}
	srv := newServer(t)
	st := newStore(t, srv, func(o *Options) { o.VersionWait = 50 * time.Millisecond; o.Discovery = d })
	if _, err := st.SnapshotAt(bounded(t), podsGVR, "100000"); apierrors.ReasonForError(err) != metav1.StatusReasonTimeout ||
		!apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) || !strings.Contains(err.Error(), `"100000"`) {
		t.Errorf("too new: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := st.SnapshotAt(ctx, podsGVR, "100000"); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller left: %v", err)
	}
	st.options.VersionWait = 30 * time.Second
	st.Catalog().Refresh(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := st.SnapshotAt(bounded(t), podsGVR, "100000")
		failed <- err
	}()
	eventually(t, "somebody waits", func() bool { c, ok := st.cache(podsGVR); return ok && c.watchers.Load() > 0 })
	d.set(func() { d.kinds = nil })
	st.Catalog().Refresh(t.Context())
	if err := <-failed; !apierrors.IsServiceUnavailable(err) {
		t.Errorf("the kind is gone: %v", err)
	}
}

// follow applies a change, which must fit the objects.
func follow(t *testing.T, objects map[string]*index.Record, c *index.Change) {
	t.Helper()
	if c.New == nil {
		key := c.Old.Namespace + "/" + c.Old.Name
		if _, ok := objects[key]; !ok {
			t.Fatalf("%s is deleted and was not there", key)
		}
		delete(objects, key)
		return
	}
	key := c.New.Namespace + "/" + c.New.Name
	if _, ok := objects[key]; ok != (c.Old != nil) {
		t.Fatalf("a change of %s begins with what is not there", key)
	}
	objects[key] = c.New
}
