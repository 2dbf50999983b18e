package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// U14: a server that never ends its initial events is asked for a list.
func TestMissingBookmarkFallsBackToAList(t *testing.T) {
	srv := newServer(t)
	srv.set(podsPath, fault{noBookmark: true})
	srv.put(podsPath, storetest.Pod("a", "one"))
	st := newStore(t, srv, func(o *Options) { o.StallAfter = stall })
	untilSnapshot(t, st, "the list", func(s *index.Snapshot) bool { return s.Len() == 1 })
	if lists, _ := srv.counts(podsPath); lists == 0 {
		t.Error("no list was asked for")
	}
}

func TestBrokenKindsAreUnavailableAloneAndHeal(t *testing.T) {
	for name, f := range map[string]fault{
		"Hangs": {noWatchList: true, hang: true}, "Forbidden": {status: 403}, "Missing": {status: 404}, "Down": {status: 503},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(podsPath, f)
			srv.put(podsPath, storetest.Pod("a", "one"))
			srv.put("/api/v1/nodes", strings.Replace(storetest.Pod("", "n1"), `"kind":"Pod"`, `"kind":"Node"`, 1))
			st := newStore(t, srv, func(o *Options) { o.StallAfter, o.SyncWait = 200*time.Millisecond, 100*time.Millisecond })
			_, err := st.Snapshot(context.Background(), podsGVR)
			if !apierrors.IsServiceUnavailable(err) {
				t.Fatalf("got %v", err)
			}
			var s *apierrors.StatusError
			if !errors.As(err, &s) || s.ErrStatus.Details.RetryAfterSeconds == 0 || strings.Contains(s.ErrStatus.Message, "127.0.0.1") {
				t.Errorf("the answer: %+v", err)
			}
			untilOther(t, st)
			srv.set(podsPath, fault{})
			untilSnapshot(t, st, "healing", func(s *index.Snapshot) bool { return s.Len() == 1 })
			for _, c := range st.Conditions() {
				if c.GVR == podsGVR && (c.Err != nil || !c.Synced || c.Objects != 1) {
					t.Errorf("condition: %+v", c)
				}
			}
		})
	}
}

func untilOther(t *testing.T, st *Store) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		snap, err := st.Snapshot(context.Background(), schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
		if err == nil && snap.Len() == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("another kind is not served: %v", err)
		}
	}
}

func TestStreamsThatMakeNoSenseAreListedAnew(t *testing.T) {
	for name, garbage := range map[string]string{
		"NotJSON": "<html>", "HalfAnObject": `{"type":"ADDED","object":{"metadata":{"name":1}}}`, "UnknownType": `{"type":"X","object":{}}`,
		"Brackets": "}}}}", "NoObject": `{"type":"MODIFIED"}`,
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(podsPath, fault{noWatchList: true, garbage: garbage})
			srv.put(podsPath, storetest.Pod("a", "one"))
			st := newStore(t, srv)
			untilSnapshot(t, st, "the list", func(s *index.Snapshot) bool { return s.Len() == 1 })
			srv.set(podsPath, fault{})
			srv.put(podsPath, storetest.Pod("a", "two"))
			untilSnapshot(t, st, "what came behind it", func(s *index.Snapshot) bool { return s.Len() == 2 })
		})
	}
}

func TestExpiredWatchIsListedAnew(t *testing.T) {
	srv := newServer(t)
	srv.set(podsPath, fault{expired: true})
	srv.put(podsPath, storetest.Pod("a", "one"))
	st := newStore(t, srv)
	untilSnapshot(t, st, "the objects", func(s *index.Snapshot) bool { return s.Len() == 1 })
}

// kube-apiserver accepts objects that are nested 10000 deep. A user who creates one must not stop its kind for everyone.
func TestObjectsAsDeepAsKubeAPIServerTakesThemAreServed(t *testing.T) {
	const levels = 9_999
	deep := strings.Replace(storetest.Pod("a", "deep"), `"nodeName":"n1"`, `"x":`+strings.Repeat(`{"a":`, levels-1)+"1"+strings.Repeat("}", levels-1), 1)
	for name, f := range map[string]fault{"WatchList": {}, "PlainList": {noWatchList: true}} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(podsPath, f)
			srv.put(podsPath, storetest.Pod("a", "one"))
			srv.put(podsPath, deep)
			st := newStore(t, srv)
			sink := newRecorder()
			st.Feed(podsGVR, sink)
			serves(t, st, "[a/deep a/one]")
			srv.put(podsPath, strings.Replace(deep, `"name":"deep"`, `"name":"deeper"`, 1)) // by the watch
			srv.put(podsPath, storetest.Pod("a", "two"))
			serves(t, st, "[a/deep a/deeper a/one a/two]")
			sink.until(t, "all of them", func(m map[string]*Object) bool { return len(m) == 4 })
			if c := condition(st, podsGVR); c.Err != nil {
				t.Errorf("condition: %+v", c)
			}
		})
	}
}

// What a cache lacks is said to be missing in the cluster only while the cache has all that is there: not before its first list, nor while its watch
// can't be opened, and of a kind that the cluster does not have.
func TestWhatIsNotCachedMayExistWhileACacheIsNotComplete(t *testing.T) {
	srv := newServer(t)
	srv.set(podsPath, fault{noBookmark: true, hang: true})
	srv.set(nodesPath, fault{status: 404})
	nodes := schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	st := newStore(t, srv, func(o *Options) { o.StallAfter = stall })
	pods, both, missing := Complete(st, podsGVR), Complete(st, podsGVR, nodes), Complete(st, nodes)
	if pods() == nil || missing() == nil {
		t.Error("a kind that nobody has asked for is complete")
	}
	sink := newRecorder()
	st.Feed(podsGVR, sink)
	st.Feed(nodes, newRecorder())
	eventually(t, "the kind that the cluster does not have", func() bool { return missing() == nil })
	if pods() == nil || both() == nil {
		t.Error("a kind is complete before its first list")
	}
	srv.set(podsPath, fault{})
	eventually(t, "the list", func() bool { return pods() == nil && both() == nil })
	srv.stop()
	eventually(t, "the outage", func() bool { return pods() != nil })
	srv.start(t)
	eventually(t, "the end of the outage", func() bool { return pods() == nil })
	st.Feed(podsGVR, newRecorder())
	eventually(t, "another sink", func() bool { return pods() == nil })
}
