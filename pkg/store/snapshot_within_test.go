package store

import (
	"context"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/storetest"
)

func TestWhatAnAnswerCanDoWithoutIsNotWaitedForInVain(t *testing.T) {
	srv := newServer(t)
	srv.put(podsPath, storetest.Pod("a", "one"))
	st := newStore(t, srv)
	if snap := st.SnapshotWithin(t.Context(), podsGVR, time.Minute); snap == nil || snap.Len() != 1 {
		t.Fatalf("a kind that is just begun: %v", snap)
	}
	if snap := st.SnapshotWithin(t.Context(), podsGVR, 0); snap == nil {
		t.Error("a kind that is there is not")
	}

	hangs := newServer(t)
	hangs.set(podsPath, fault{noWatchList: true, hang: true})
	st = newStore(t, hangs)
	if snap := st.SnapshotWithin(t.Context(), podsGVR, time.Millisecond); snap != nil {
		t.Error("a list that nobody answered is there")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if snap := st.SnapshotWithin(gone, podsGVR, time.Hour); snap != nil {
		t.Error("a client that is gone is answered")
	}

	broken := newServer(t)
	broken.set(podsPath, fault{status: 403})
	st = newStore(t, broken)
	st.SnapshotWithin(t.Context(), podsGVR, 0)
	eventually(t, "the failure is known", func() bool {
		c, _ := st.cache(podsGVR)
		return c.lastError() != nil
	})
	if snap := st.SnapshotWithin(t.Context(), podsGVR, time.Hour); snap != nil { // and it returns
		t.Error("a kind that can't be read is there")
	}
}
