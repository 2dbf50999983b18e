package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
)

// A kind that was dropped and is watched again has new positions, even if the clock was set back in between.
func TestPositionsOfAnotherCacheAreRefused(t *testing.T) {
	srv := newServer(t)
	st := newStore(t, srv)
	st.mu.Lock()
	a, b := st.newCache(cacheKey{gvr: podsGVR}), st.newCache(cacheKey{gvr: podsGVR})
	st.mu.Unlock()
	for _, c := range []*cache{a, b} {
		c.coll.Replace(nil, "1")
		for i := range 20 {
			c.coll.Set(podNamed(t, fmt.Sprint("p", i), 2+i))
		}
		c.coll.Flush()
	}
	old, now := a.coll.Snapshot(), b.coll.Snapshot()
	if now.Position() <= old.Position() || now.Generation() <= old.Generation() {
		t.Errorf("positions %d and %d, generations %d and %d", old.Position(), now.Position(), old.Generation(), now.Generation())
	}
	none := func(*index.Change) bool { t.Error("a change of another history"); return false }
	if now.Changes(old.Position(), none) || old.Changes(now.Position(), none) {
		t.Error("a position of another cache is accepted")
	}
}

// O49: between an outage and the next list the state is as old as the outage. Neither a watch that was opened and is given up again nor a bookmark
// that came just before the error of a watch makes it complete.
func TestO49NothingIsCompleteBetweenAnOutageAndTheNextList(t *testing.T) {
	const events = `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"101"}}}` + "\n" +
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired","message":"too old"}}`
	for name, tc := range map[string]struct {
		fault     fault
		maxOutage time.Duration
		opens     bool
	}{
		"AWatchThatIsGivenUp":    {fault{noWatchList: true}, time.Nanosecond, false},
		"ABookmarkBeforeAnError": {fault{noWatchList: true, garbage: events}, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(t)
			srv.set(podsPath, tc.fault)
			st := newStore(t, srv, func(o *Options) { o.MaxOutage = tc.maxOutage })
			st.mu.Lock()
			c := st.newCache(cacheKey{gvr: podsGVR})
			st.mu.Unlock()
			c.cancel = func() {}
			st.caches.Store(podsGVR, c)
			complete, opened := Complete(st, podsGVR), false
			c.source.Opened = func() {
				opened = true
				c.opened()
			}
			err := c.attempt(t.Context()) // until the watch after the list has ended
			if _, streams := srv.counts(podsPath); streams != 1 || opened != tc.opens {
				t.Fatalf("%d watches were opened, which counts: %v; %v", streams, opened, err)
			}
			if complete() == nil {
				t.Error("the kind is complete before the next list")
			}
			if !tc.opens && condition(st, podsGVR).Err == nil {
				t.Error("its condition does not say why")
			}
		})
	}
}

// podNamed is a pod at a version, as a collection takes it.
func podNamed(t testing.TB, name string, version int) *index.Incoming {
	d, err := index.NewDecoder(podsGVR.GroupResource(), &index.Schema{}, func() bool { return false }).Decode(
		strings.ReplaceAll(storetest.Pod("a", name), "%RV%", fmt.Sprint(version)), "")
	if err != nil {
		t.Fatal(err)
	}
	return d.Incoming
}
