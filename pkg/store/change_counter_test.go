package store

import (
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
)

// The number grows after each change that readers see, of any kind, and after each that a sink was told: who has asked for it before they read
// learns of everything that they have not seen.
func TestChangesAreCountedWhenReadersSeeThem(t *testing.T) {
	s := newServer(t)
	s.put("/api/v1/pods", storetest.Pod("a", "one"))
	st, sink := newStore(t, s), newRecorder()
	st.Feed(podsGVR, sink)
	changes := ChangesOf(st)
	untilSnapshot(t, st, "the first list", func(snap *index.Snapshot) bool { return snap.Len() == 1 })
	sink.until(t, "the first list", func(all map[string]*Object) bool { return len(all) == 1 })
	for i, change := range []func(){
		func() { s.put("/api/v1/pods", storetest.Pod("a", "two")) },
		func() { s.put("/api/v1/pods", storetest.Pod("b", "three")) },
		func() { s.remove("/api/v1/pods", "a/two") },
	} {
		want := []int{2, 3, 2}[i]
		seen := func() bool {
			snap, err := st.Snapshot(t.Context(), podsGVR)
			sink.mu.Lock()
			defer sink.mu.Unlock()
			return err == nil && snap.Len() == want && len(sink.objects) == want
		}
		for end, asked := time.After(2*time.Minute), false; ; {
			n, next := changes()
			if !asked {
				asked = true
				change()
			}
			if seen() {
				break
			}
			select {
			case <-next:
				if now, _ := changes(); now == n {
					t.Fatalf("change %d: somebody was woken, and the number is %d still", i, n)
				}
			case <-end:
				t.Fatalf("change %d is not seen, and nobody was told of it", i)
			}
		}
	}
}
