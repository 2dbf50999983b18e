package resource

import (
	"sync"

	"kapis.dev/ks-apiserver/pkg/store"
)

// maxDerived is how many things are kept that were derived from the objects of other kinds.
const maxDerived = 256

// derivations keeps what plans read of the objects of another kind (the namespaces of a workspace, the users
// whom bindings name) while those stay the same. It is ready without being initialized.
type derivations struct {
	mu    sync.Mutex
	byKey map[any]derivation
}

type derivation struct {
	generation uint64
	value      any
}

// derive returns what make makes of a snapshot, which it asks only for a newer one. The key must tell the kind of
// the snapshot and everything else that make depends on. snap may be nil where it depends on no objects.
func derive[T any](d *derivations, key any, snap *store.Snapshot, make func() T) T {
	var generation uint64
	if snap != nil {
		generation = snap.Generation()
	}
	d.mu.Lock()
	known, ok := d.byKey[key]
	d.mu.Unlock()
	if ok && known.generation == generation {
		return known.value.(T)
	}
	made := make() // not under the lock: two that come at once make the same
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byKey == nil || len(d.byKey) >= maxDerived {
		d.byKey = map[any]derivation{} // they are made again in a moment
	}
	if d.byKey[key].generation <= generation {
		d.byKey[key] = derivation{generation, made}
	}
	return made
}
