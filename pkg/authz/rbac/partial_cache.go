package rbac

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/request"
)

// maxPartialNames bounds the partial lists in memory, in names of namespaces and workspaces: 16 bytes for each, as the names themselves
// are the index's.
const maxPartialNames = 1 << 20

// partialOverhead is what a partial list counts besides its names.
const partialOverhead = 16

// partialKey stands for a user and a request; see newPartialKey.
type partialKey [sha256.Size]byte

// partialCache caches partial lists until the index changes.
type partialCache struct {
	mu      sync.Mutex
	changes uint64 // of the index, when these were true
	byKey   *recent.Map[partialKey, *authz.PartialList]
}

func newPartialCache(names int) *partialCache {
	return &partialCache{byKey: recent.NewWeightedMap[partialKey](names, func(p *authz.PartialList) int {
		if p == nil {
			return partialOverhead
		}
		return partialOverhead + len(p.Namespaces) + len(p.Workspaces)
	})}
}

// get returns the partial list of key as it is after that many changes.
func (c *partialCache) get(key partialKey, changes uint64) (*authz.PartialList, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changes != c.changes {
		return nil, false
	}
	return c.byKey.Use(key)
}

// put caches a partial list that was found after that many changes; older ones are dropped. It may have been found during the next
// change: when that one is counted, the partial list is dropped too.
func (c *partialCache) put(key partialKey, changes uint64, p *authz.PartialList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case changes < c.changes:
		return
	case changes > c.changes:
		c.changes = changes
		c.byKey.Clear()
	}
	c.byKey.Set(key, p)
}

// newPartialKey returns a hash of everything that rules and conditions can read of a request: equal for two requests only if they are the
// same to every role. The groups that conditions read can differ between sessions of one user.
func newPartialKey(u user.Info, r *request.Info, read ...string) partialKey {
	text := make([]byte, 0, 512)
	add := func(s string) { text = append(binary.AppendUvarint(text, uint64(len(s))), s...) }
	addAll := func(list []string) {
		text = binary.AppendUvarint(text, uint64(len(list)))
		for _, s := range list {
			add(s)
		}
	}
	for _, s := range [...]string{u.GetName(), u.GetUID(), r.Verb, r.Path, r.Cluster, r.APIPrefix, r.APIGroup, r.APIVersion, r.Resource} {
		add(s)
	}
	addAll(u.GetGroups())
	addAll(read)
	extra := u.GetExtra()
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		add(k)
		addAll(extra[k])
	}
	return sha256.Sum256(text)
}
