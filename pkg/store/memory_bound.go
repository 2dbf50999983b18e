package store

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/store/index"
)

// errTooMany is why a kind is refused. Users read it, so it does not say how many objects there are.
var errTooMany = errors.New("there are too many objects for the memory of this server")

// defaultMemorySetting is what Options.MemorySetting is by default.
const defaultMemorySetting = "its memory limit (GOMEMLIMIT) or resources.cacheMemory"

// tooMany is errTooMany with what to do.
func (s memoryBound) tooMany() error {
	return fmt.Errorf("%w: delete some of them, or raise %s", errTooMany, cmp.Or(s.options.MemorySetting, defaultMemorySetting))
}

const (
	// memoryCheckPart is how often memory is compared with Options.MemoryBytes: whenever a kind has read this part of it.
	memoryCheckPart = 1024
	// smallPart of Options.MemoryBytes is what a kind that is read for the first time may take although the others leave no
	// room. The largest kind makes room for it.
	smallPart = 64
	// unusedAfter is when a kind that nobody watches makes room for others.
	unusedAfter = int64(time.Minute / time.Second)
)

// memoryBound bounds the memory of all kinds of a Store together: Options.MemoryBytes.
type memoryBound struct{ *Store }

// admit is called before n bytes of a kind are stored. Where all kinds together have too much, room is made, or this
// kind is refused.
func (s memoryBound) admit(c *cache, n int) error {
	n += index.RecordBytes
	c.arriving.Add(int64(n))
	bound := s.options.MemoryBytes
	if c.unchecked.Add(int64(n)) < bound/memoryCheckPart {
		return nil
	}
	c.unchecked.Store(0)
	c.measure()
	if s.memory() <= bound {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.memory() > bound {
		v, unused := s.leastNeeded(c)
		switch {
		case v == nil: // what is left decides rights, and is never refused
			return nil
		case unused:
			s.stop(v)
			continue
		}
		err := s.tooMany()
		klog.ErrorS(err, "A kind is not cached any more", "resource", v.gvr.String(), "bytes", v.size.Load(),
			"bytesOfAll", s.memory(), "bound", bound)
		s.refuse(v, err)
		s.refused[v.gvr] = true
		if v == c {
			return err
		}
	}
	return nil
}

// measure sets size to what the objects take, or will where all are read again, since these replace the former ones.
func (c *cache) measure() int64 {
	size, arriving := c.coll.Size(), c.arriving.Load()
	if c.isCurrent() {
		size += arriving
	} else {
		size = max(size, arriving)
	}
	c.size.Store(size)
	return size
}

// memory is what all caches take, and those of other stores that share the bound.
func (s memoryBound) memory() int64 {
	if s.options.MemoryElsewhere == nil {
		return MemoryOf(s.Store)
	}
	return MemoryOf(s.Store) + s.options.MemoryElsewhere()
}

// MemoryOf returns roughly how many bytes all caches of a store take, where there is a bound.
func MemoryOf(s *Store) int64 {
	total := s.namespaceBytes()
	s.caches.Range(func(_, value any) bool {
		total += value.(*cache).size.Load()
		return true
	})
	return total
}

// leastNeeded returns the kind that makes room while c grows, and whether nobody uses it; nil where every kind feeds. A kind
// that is read for the first time takes no room from others, unless it is small and was never refused; then the largest kind
// makes room. It needs mu.
func (s memoryBound) leastNeeded(c *cache) (v *cache, unused bool) {
	first := c.coll.Snapshot() == nil && !c.hasSinks()
	if first && s.refused[c.gvr] {
		return c, false
	}
	var oldest, largest *cache
	s.caches.Range(func(_, value any) bool {
		k := value.(*cache)
		if k.refused != nil || k.hasSinks() {
			return true
		}
		if largest == nil || k.size.Load() > largest.size.Load() {
			largest = k
		}
		used := k.lastUsed.Load()
		if k != c && k.watchers.Load() == 0 && used < s.age()-unusedAfter && (oldest == nil || used < oldest.lastUsed.Load()) {
			oldest = k
		}
		return true
	})
	switch {
	case oldest != nil:
		return oldest, true
	case first && c.size.Load() > s.options.MemoryBytes/smallPart:
		return c, false
	}
	return largest, false
}

// refusal returns the error for queries of a kind or namespace that is too large to be cached, nil for any other.
func refusal(s *Store, c *cache) error {
	m, key := s.at(c)
	now, ok := m.Load(key)
	if !ok {
		return nil
	}
	_, err := now.(*cache).usable()
	return err
}

// MemoryFor returns how many bytes of memory the caches may take, 0 for any number: what is configured, or two fifths of the memory
// limit of the process, which is math.MaxInt64 where there is none. After an outage of kube-apiserver all objects are read again while
// the former ones are still in memory, so that twice as much is needed, and the rest is for everything else.
func MemoryFor(configured, limit int64) int64 {
	switch {
	case configured > 0:
		return configured
	case limit == math.MaxInt64:
		return 0
	}
	return limit / 5 * 2
}
