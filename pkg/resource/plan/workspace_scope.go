package plan

import (
	"slices"
	"strconv"
	"sync"

	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// What is kept of a query in a workspace must not be dropped whenever a namespace changes somewhere, and yet depends on more than the
// workspace's own namespaces: an object that has the workspace's label in a namespace outside belongs to it until that namespace is another
// workspace's. Which namespaces those are only the objects tell. So whoever looks at such an object notes its namespace first, for good,
// and keys say of each that is noted whose it is:
//
//   - a key says more than before once another is noted, so nothing that was kept without is found any more;
//   - a query that was answered meanwhile is asked again (Service.List), since it may have found what somebody kept who knew
//     another state of that namespace;
//   - a watch compares what it went by with what is so now, for all that are noted.

// maxOutsiders is how many namespaces are noted, of all workspaces together. A workspace that would have more depends on all namespaces.
const maxOutsiders = 4096

// outsiders are the namespaces that are noted. They are ready without being initialized.
type outsiders struct {
	mu    sync.Mutex
	known map[string]*outsiderSet // by workspace
	count int
}

// outsiderSet has the namespaces that are noted for a workspace. It does not change. Nil is none.
type outsiderSet struct {
	namespaces []string // in order
	all        bool     // they were too many
}

// of returns those of a workspace, equal pointers while they are the same.
func (s *outsiders) of(workspace string) *outsiderSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[workspace]
}

// add notes a namespace.
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

// has tells whether a namespace is noted.
func (s *outsiderSet) has(namespace string) bool {
	if s == nil || s.all {
		return s != nil
	}
	_, ok := slices.BinarySearch(s.namespaces, namespace)
	return ok
}

// workspaceScope is what a plan goes by that is for the objects of a workspace, in all namespaces.
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

// appendKey appends what the outcome depends on. Each form begins with a byte of its own, so that it can be told where it ends.
func (x *workspaceScope) appendKey(key []byte) []byte {
	if x == nil {
		return append(key, '-')
	}
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

// adoptWorkspace goes on with what a plan knows that was made anew, and tells whether its outcome is that of b.
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
