package resourcequota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// usageCounter has the use of all objects of one kind, by namespace. A reflector fills it; of each object it stores the UID and a
// pointer to its use, which objects with equal use share.
type usageCounter struct {
	measure func(o any) *use
	// changed is called for each namespace in which the use changed, with whether it increased.
	changed func(namespace string, more bool)
	now     func() time.Time
	begun   time.Time
	synced  atomic.Bool
	failed  atomic.Pointer[error] // of the last attempt to read the objects

	mu     sync.Mutex
	spaces map[string]*space
	uses   map[string]*shared
	// arrivals are the recent increases of use, oldest first; last is the number of the newest.
	arrivals []arrival
	last     uint64
}

// space is what a namespace uses.
type space struct {
	objects map[types.UID]*shared
	count   map[*shared]int64
}

// shared is the use of refs objects.
type shared struct {
	use
	key  string
	refs int
}

// arrival is a new object, or one that uses more than before.
type arrival struct {
	number        uint64
	at            time.Time
	namespace     string
	before, after *shared // before is nil for a new object
}

func newUsageCounter(measure func(any) *use, changed func(string, bool), now func() time.Time) *usageCounter {
	return &usageCounter{measure: measure, changed: changed, now: now, begun: now(), spaces: map[string]*space{}, uses: map[string]*shared{}}
}

// tell records the result of an attempt to read the objects.
func (t *usageCounter) tell(err error) {
	if err == nil {
		t.failed.Store(nil)
		return
	}
	t.failed.Store(&err)
}

// late returns, for a usage counter that is not complete, the reason or when to check again.
func (t *usageCounter) late() (wait time.Duration, err error) {
	age := t.now().Sub(t.begun)
	if failed := t.failed.Load(); failed != nil && age >= syncTimeout {
		return 0, *failed
	}
	return min(max(age/10, syncRetry), uncountedRetry), nil
}

// Add adds an object. It is part of cache.ReflectorStore.
func (t *usageCounter) Add(o any) error { return t.Update(o) }

// Update adds or updates an object.
func (t *usageCounter) Update(o any) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("count an object: %w", err)
	}
	t.mu.Lock()
	more, changed := t.set(m.GetNamespace(), m.GetUID(), t.measure(o), true)
	t.mu.Unlock()
	if changed {
		t.changed(m.GetNamespace(), more)
	}
	return nil
}

// Delete removes an object.
func (t *usageCounter) Delete(o any) error {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("count an object: %w", err)
	}
	t.mu.Lock()
	changed := t.drop(m.GetNamespace(), m.GetUID())
	t.mu.Unlock()
	if changed {
		t.changed(m.GetNamespace(), false)
	}
	return nil
}

// Replace replaces all objects. The objects of the first list don't count as arrivals: they existed before.
func (t *usageCounter) Replace(objects []any, _ string) error {
	listed := make(map[string]map[types.UID]bool, len(t.spaces))
	touched := map[string]bool{}
	log := t.synced.Load()
	t.mu.Lock()
	for _, o := range objects {
		m, err := meta.Accessor(o)
		if err != nil {
			t.mu.Unlock()
			return fmt.Errorf("count an object: %w", err)
		}
		namespace := m.GetNamespace()
		if listed[namespace] == nil {
			listed[namespace] = map[types.UID]bool{}
		}
		listed[namespace][m.GetUID()] = true
		if _, changed := t.set(namespace, m.GetUID(), t.measure(o), log); changed {
			touched[namespace] = true
		}
	}
	for namespace, s := range t.spaces {
		for uid := range s.objects {
			if !listed[namespace][uid] {
				t.drop(namespace, uid)
				touched[namespace] = true
			}
		}
	}
	t.mu.Unlock()
	t.synced.Store(true)
	for namespace := range touched {
		t.changed(namespace, false)
	}
	return nil
}

// Resync does nothing: no event is lost.
func (t *usageCounter) Resync() error { return nil }

// set stores what an object uses. The lock is held, as in all functions below.
func (t *usageCounter) set(namespace string, uid types.UID, u *use, log bool) (more, changed bool) {
	s := t.spaces[namespace]
	if s == nil {
		s = &space{objects: map[types.UID]*shared{}, count: map[*shared]int64{}}
		t.spaces[namespace] = s
	}
	before := s.objects[uid]
	key := u.key()
	if before != nil && before.key == key {
		return false, false
	}
	after := t.uses[key]
	if after == nil {
		after = &shared{use: *u, key: key}
		t.uses[key] = after
	}
	after.refs++
	s.objects[uid] = after
	s.count[after]++
	if before != nil {
		t.release(s, before)
	}
	if more = before == nil || len(growth(&before.use, u, u.amounts)) > 0; more && log {
		t.note(arrival{namespace: namespace, before: before, after: after})
	}
	return more, true
}

func (t *usageCounter) drop(namespace string, uid types.UID) bool {
	s := t.spaces[namespace]
	if s == nil || s.objects[uid] == nil {
		return false
	}
	t.release(s, s.objects[uid])
	delete(s.objects, uid)
	if len(s.objects) == 0 {
		delete(t.spaces, namespace)
	}
	return true
}

func (t *usageCounter) release(s *space, u *shared) {
	if s.count[u]--; s.count[u] == 0 {
		delete(s.count, u)
	}
	if u.refs--; u.refs == 0 {
		delete(t.uses, u.key)
	}
}

// note stores an arrival for as long as a reservation could wait for it.
func (t *usageCounter) note(a arrival) {
	a.at = t.now()
	t.last++
	a.number = t.last
	old := slices.IndexFunc(t.arrivals, func(b arrival) bool { return a.at.Sub(b.at) < reservationTimeout })
	switch {
	case old < 0:
		t.arrivals = t.arrivals[:0]
	case old > len(t.arrivals)/2: // not each time, so that an arrival has a constant cost however many there are
		t.arrivals = slices.Clone(t.arrivals[old:])
	}
	t.arrivals = append(t.arrivals, a)
}

// sum returns what namespaces use of the resources that a quota limits, how much of it arrived after the arrival number since
// in the namespaces that were selected before, and the number of the newest arrival.
func (t *usageCounter) sum(namespaces []string, q *corev1.ResourceQuotaSpec, limited []corev1.ResourceName, since uint64,
	before map[string]bool,
) (used map[string]corev1.ResourceList, came corev1.ResourceList, last uint64) {
	used, came = make(map[string]corev1.ResourceList, len(namespaces)), corev1.ResourceList{}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, namespace := range namespaces {
		list := corev1.ResourceList{}
		if s := t.spaces[namespace]; s != nil {
			for u, n := range s.count {
				if scoped(q, &u.use) {
					u.add(list, n, limited)
				}
			}
		}
		used[namespace] = list
	}
	for i := len(t.arrivals) - 1; i >= 0 && t.arrivals[i].number > since; i-- {
		a := &t.arrivals[i]
		if !before[a.namespace] || !scoped(q, &a.after.use) {
			continue
		}
		old := (*use)(nil)
		if a.before != nil && scoped(q, &a.before.use) {
			old = &a.before.use
		}
		(&use{amounts: growth(old, &a.after.use, a.after.amounts)}).add(came, 1, limited)
	}
	return used, came, t.last
}

// key returns a key that is equal for equal use, and for nothing else: names of resources and of priority classes are quoted, since
// they may be any texts.
func (u *use) key() string {
	var b strings.Builder
	if u.of != nil {
		fmt.Fprintf(&b, "%t %t %t %q ", u.of.terminating, u.of.bestEffort, u.of.crossNamespace, u.of.priorityClass)
	}
	for _, name := range slices.Sorted(maps.Keys(u.amounts)) {
		amount := u.amounts[name]
		fmt.Fprintf(&b, "%q=%s,", name, &amount)
	}
	return b.String()
}
