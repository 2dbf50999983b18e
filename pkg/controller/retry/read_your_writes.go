package retry

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// Stale is the pause before an object is read again whose last write the cache does not have yet. Mostly the watch is faster.
	Stale = time.Second
	// maxStale is how long a write is waited for. A database that was restored may never have it.
	maxStale = time.Minute
)

// Writes remembers in which version objects were written last, so that a controller does not take what its cache has of before for what an
// object says: an operation would be done once more. The zero value knows of none; a restart forgets all.
type Writes struct {
	mu sync.Mutex
	of map[string]write // by the name of the object
}

type write struct {
	version string
	at      time.Time
}

// Note records the version that an object has after it was written.
func (w *Writes) Note(o metav1.Object, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]write{}
	}
	w.of[o.GetName()] = write{o.GetResourceVersion(), now}
}

// Wait returns after which time an object is read again, since it is older than its last write; 0 where it is not.
func (w *Writes) Wait(o metav1.Object, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.of[o.GetName()]
	if !ok || now.Sub(last.at) >= maxStale {
		return 0
	}
	if order, err := resourceversion.CompareResourceVersion(o.GetResourceVersion(), last.version); err != nil || order >= 0 {
		return 0
	}
	return Stale
}

// Forget forgets an object, which is gone.
func (w *Writes) Forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of, name)
}
