package revalidate

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/recent"
)

// F39: nothing is remembered of asks whose callers have gone, also where the member never answers them.
func TestWhoHasGoneIsNotRemembered(t *testing.T) {
	s := &stream{now: time.Now, begun: make(chan struct{}), ended: make(chan struct{}), lines: make(chan []byte, 1), waiting: map[uint64]chan<- reply{}}
	close(s.begun)
	h, m := NewHub(t.Context(), time.Now), &cluster.Member{UID: "u"}
	h.streams = recent.NewMap[string, *stream](1)
	h.streams.Set(m.UID, s)
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-s.lines // it has been asked
			cancel()
		}()
		if _, same, err := h.Confirm(ctx, m, json.RawMessage("{}"), nil); same || !errors.Is(err, context.Canceled) {
			t.Fatal(same, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		t.Errorf("%d asks are waited for by nobody", len(s.waiting))
	}
}
