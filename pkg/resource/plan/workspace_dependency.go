package plan

import (
	"slices"
	"strconv"
	"sync"

	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// What is cached for a query in a workspace must not be dropped whenever a namespace changes somewhere, and yet depends on
// more than the workspace's own namespaces: an object that has the workspace's label in a namespace outside belongs to the
// workspace until that namespace is in another one. Only the objects show which namespaces those are. So the test of such an
// object first records its namespace, permanently, and keys contain the workspace of each recorded namespace:
//
//   - a key changes once another namespace is recorded, so results that were cached without it are no longer found;
//   - a query that was answered meanwhile is run again (Service.List), since it may have found a result that was cached
//     in another state of that namespace;
//   - a watch compares the state that it was built from with the present one, for all recorded namespaces.

// maxOutsiders is how many namespaces are recorded, of all workspaces together. A workspace that would have more depends on
// all namespaces.
const maxOutsiders = 4096

// outsiders are the recorded namespaces. The zero value is ready.
type outsiders struct {
	mu    sync.Mutex
	known map[string]*outsiderSet // by workspace
	count int
}

// outsiderSet has the namespaces that are recorded for a workspace. It does not change. Nil is the empty set.
type outsiderSet struct {
	namespaces []string // in order
	all        bool     // they were too many
}

// of returns those of a workspace: equal pointers while they are the same.
func (s *outsiders) of(workspace string) *outsiderSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[workspace]
}

// add records a namespace.
func (s *outsiders) add(workspace, namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.known[workspace]
	if now.has(namespace) {
		return
	}
	next := &outsiderSet{}
	if now != nil {
		next.namespaces = slices.Clone(now.namespaces)
	}
	at, _ := slices.BinarySearch(next.namespaces, namespace)
	next.namespaces = slices.Insert(next.namespaces, at, namespace)
	if s.count++; s.count > maxOutsiders {
		s.count -= len(next.namespaces)
		next = &outsiderSet{all: true}
	}
	if s.known == nil {
		s.known = map[string]*outsiderSet{}
	}
	s.known[workspace] = next
}

// has reports whether a namespace is recorded.
func (s *outsiderSet) has(namespace string) bool {
	if s == nil || s.all {
		return s != nil
	}
	_, ok := slices.BinarySearch(s.namespaces, namespace)
	return ok
}

// workspaceScope is the state that a plan for the objects of a workspace, in all namespaces, depends on.
type workspaceScope struct {
	*namespaceOwners
	workspace string
	known     *outsiderSet
}

// belongsToWorkspace checks one object.
func (b *Builder) belongsToWorkspace(r *index.Record) bool {
	x := b.workspace
	if x.of[r.Namespace] == x.workspace {
		return true
	}
	if label, _ := r.Labels.Get(WorkspaceLabel); label != x.workspace {
		return false
	}
	if !x.known.has(r.Namespace) {
		b.Planner.outsiders.add(x.workspace, r.Namespace)
	}
	return x.of[r.Namespace] == ""
}

// appendKey appends what the outcome depends on. Each form begins with a byte of its own, so that its end is known; "-" is that of no
// workspace.
func (x *workspaceScope) appendKey(key []byte) []byte {
	own := x.digests[x.workspace]
	key = append(append(key, '+'), own[:]...)
	switch {
	case x.known == nil:
	case x.known.all:
		key = append(append(key, '*'), x.digest...)
	default:
		for _, namespace := range x.known.namespaces {
			foreign := x.of[namespace] != "" && x.of[namespace] != x.workspace
			key = strconv.AppendBool(lru.AppendPart(append(key, ' '), namespace), foreign)
		}
	}
	return append(key, '.')
}

// adoptWorkspace takes over the state of a plan that was built again, and reports whether its outcome is that of b.
func (b *Builder) adoptWorkspace(again *Builder) bool {
	before, now := b.workspace, again.workspace
	if before == nil || now == nil {
		return before == now
	}
	before.known = now.known
	if string(before.appendKey(nil)) != string(now.appendKey(nil)) {
		return false
	}
	b.workspace = now
	return true
}
