package rbac

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// partsRemembered bounds the parts in memory, in names of namespaces and workspaces: 16 bytes for
// each, as the names themselves are the index's.
const partsRemembered = 1 << 20

// partOverhead is what a part counts beside its names.
const partOverhead = 16

// partKey stands for who asks for what; see newPartKey.
type partKey [sha256.Size]byte

// parts remembers parts of lists until the index changes. What is used moves to the young
// generation, which becomes the old one when it is full, and what was not used for a generation is
// dropped: that is near to LRU without a list.
type parts struct {
	mu         sync.Mutex
	changes    uint64 // of the index, when these parts were true
	young, old map[partKey]*authz.PartialList
	weight     int // of the young ones
	most       int // of one generation
}

func newParts(names int) *parts {
	return &parts{young: map[partKey]*authz.PartialList{}, most: names / 2}
}

// Get returns the part of key as it is after that many changes.
func (c *parts) get(key partKey, changes uint64) (*authz.PartialList, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if changes != c.changes {
		return nil, false
	}
	p, ok := c.young[key]
	if !ok {
		if p, ok = c.old[key]; ok {
			c.keep(key, p)
		}
	}
	return p, ok
}

// Put remembers a part that was found after that many changes; older ones are dropped. It may have
// been found while the next change went on: then that change is soon counted, and it is dropped too.
func (c *parts) put(key partKey, changes uint64, p *authz.PartialList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case changes < c.changes:
		return
	case changes > c.changes:
		c.changes, c.young, c.old, c.weight = changes, map[partKey]*authz.PartialList{}, nil, 0
	}
	c.keep(key, p)
}

func (c *parts) keep(key partKey, p *authz.PartialList) {
	weight := partOverhead
	if p != nil {
		weight += len(p.Namespaces) + len(p.Workspaces)
	}
	if c.weight+weight > c.most {
		c.old, c.young, c.weight = c.young, map[partKey]*authz.PartialList{}, 0
	}
	delete(c.old, key)
	c.young[key] = p
	c.weight += weight
}

// newPartKey is a hash of all that rules and conditions can ask about a request: equal for two
// requests only if they are the same to every role.
func newPartKey(u user.Info, r *request.Info) partKey {
	text := make([]byte, 0, 512)
	add := func(s string) { text = append(binary.AppendUvarint(text, uint64(len(s))), s...) }
	addAll := func(list []string) {
		text = binary.AppendUvarint(text, uint64(len(list)))
		for _, s := range list {
			add(s)
		}
	}
	for _, s := range [...]string{
		u.GetName(), u.GetUID(), r.Verb, r.Path, r.Cluster, r.APIPrefix, r.APIGroup, r.APIVersion, r.Resource,
	} {
		add(s)
	}
	addAll(u.GetGroups())
	extra := u.GetExtra()
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		add(k)
		addAll(extra[k])
	}
	return sha256.Sum256(text)
}
