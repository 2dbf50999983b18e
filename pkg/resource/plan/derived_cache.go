package plan

import (
	"sync"

	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// maxMemo is how many values are cached that were derived from the objects of other kinds.
const maxMemo = 256

// memo caches what plans read of the objects of another kind (the namespaces of a workspace, the users whom bindings name)
// while those stay the same. Its zero value is ready.
type memo struct {
	mu    sync.Mutex
	byKey *recent.Map[any, memoEntry]
}

type memoEntry struct {
	generation uint64
	value      any
}

// Memoize returns what make returns for a snapshot, and calls it only for a newer one. The key must contain the kind of the
// snapshot and everything else that make depends on. snap may be nil where it depends on no objects.
func Memoize[T any](d *memo, key any, snap *index.Snapshot, make func() T) T {
	var generation uint64
	if snap != nil {
		generation = snap.Generation()
	}
	d.mu.Lock()
	if d.byKey == nil {
		d.byKey = recent.NewMap[any, memoEntry](maxMemo)
	}
	known, ok := d.byKey.Use(key)
	d.mu.Unlock()
	if ok && known.generation == generation {
		return known.value.(T)
	}
	made := make() // not under the lock: two that come at once make the same
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, _ = d.byKey.Get(key); known.generation <= generation {
		d.byKey.Set(key, memoEntry{generation, made})
	}
	return made
}
