package store

import (
	"fmt"
	"strings"
	"testing"

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

// podNamed is a pod at a version, as a collection takes it.
func podNamed(t testing.TB, name string, version int) *index.Incoming {
	d, err := index.NewDecoder(podsGVR.GroupResource(), &index.Schema{}, func() bool { return false }).Decode(
		strings.ReplaceAll(storetest.Pod("a", name), "%RV%", fmt.Sprint(version)), "")
	if err != nil {
		t.Fatal(err)
	}
	return d.Incoming
}
