// Package rbac decides by roles and their bindings at four scopes, from an index that it keeps up to date.
package rbac

import (
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/cel"

	"kapis.dev/ks-apiserver/pkg/authz/rbac/callergroup"
	"kapis.dev/ks-apiserver/pkg/authz/rbac/lockfree"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Index has every role and binding, by subject and scope. It is an authz.Authorizer.
//
// A decision takes no lock and allocates nothing, and costs the same however many bindings there are: it reads only the user's own, and
// those of the user's groups, at the scopes in question. A change costs as much as what it changes, and holds for the next decision.
type Index struct {
	conditions *conditions
	rules      interned[rules]
	compiled   interned[compiled]
	compile    func(text string) (Policy, error) // nil where policies are ignored
	policies   atomic.Int64                      // roles that have one
	groups     callergroup.Groups                // what conditions and policies read

	// What decisions read.
	global, cluster subjects
	workspaces      lockfree.Map[*subjects] // by the workspace's name
	namespaces      lockfree.Map[*subjects] // by the namespace's name
	workspaceOf     lockfree.Map[string]    // by the namespace's name; empty for one that is in no workspace
	placements      atomic.Uint64           // incremented when workspaceOf has changed

	// The scopes in which each subject is bound, from which partial lists are made.
	scopesOfUsers, scopesOfGroups lockfree.Map[*subjectScopes] // by the subject's name
	changes                       atomic.Uint64                // incremented when a change is complete
	parts                         *partialCache

	// What changes need: where each role and binding was put.
	mu       sync.Mutex
	roles    map[roleKey]*role
	bindings map[bindingKey]*binding
}

// NewIndex returns an empty index, which allows nothing.
func NewIndex() (*Index, error) {
	c, err := newConditions()
	if err != nil {
		return nil, err
	}
	return &Index{conditions: c, parts: newPartialCache(maxPartialNames), roles: map[roleKey]*role{}, bindings: map[bindingKey]*binding{}}, nil
}

// roleKey identifies a role; namespace is empty except for a role of a namespace.
type roleKey struct {
	scope           request.Scope
	namespace, name string
}

// role stands for a role from the first time that a binding or the role itself is seen until neither is left. Bindings point at it, so
// that a decision doesn't look it up.
type role struct {
	content atomic.Pointer[content] // nil where there is no such role
	bound   int                     // bindings that refer to it, under Index.mu
}

// content is what a role says. It is immutable once it is in a role.
type content struct {
	rules     *rules
	workspace string              // of a role of a workspace, where it says which
	groups    *callergroup.Groups // what its condition and policy read
	condition cel.Program         // nil for none
	group     string              // the synthetic group where there is a condition
	failed    sync.Once           // to log once that the condition can't be evaluated
	name      string              // for that line
	scope     request.Scope       // and that
	rego      bool                // it carries a policy in Rego, usable or not
	policy    *policy             // that policy, nil where it can't be used

	expression string // the condition as it is written, to be shown
}

type bindingKey struct {
	scope           request.Scope
	namespace, name string
}

// binding is what a binding says. It is immutable once it is in the index.
type binding struct {
	key       bindingKey
	scopeName string // the workspace or the namespace that it is for
	role      *role
	roleKey   roleKey
	group     string // the synthetic group of the role at this scope
	subjects  []subject
}

// subject is a subject of a binding: in the table of users by the name that authentication gives, or in that of groups.
type subject struct {
	kind string // as the binding calls it
	name string
}

func (s subject) isGroup() bool { return s.kind == "Group" }

// subjects are the bindings of one scope, by subject.
type subjects struct {
	users, groups lockfree.Map[*link]
}

// link is one of a subject's bindings at one scope, and the rest of its list.
type link struct {
	*bound
	next *link
}

// bound is one subject of a binding.
type bound struct {
	*binding
	subject subject
	reason  atomic.Pointer[string] // made on first use
}

func (s *subjects) table(who subject) *lockfree.Map[*link] {
	if who.isGroup() {
		return &s.groups
	}
	return &s.users
}

// add adds b, which belongs to the scope of s, to the bindings of each of its subjects.
func (x *Index) add(s *subjects, b *binding) {
	for _, who := range b.subjects {
		t := s.table(who)
		next, _ := t.Get(who.name)
		l := &link{bound: &bound{binding: b, subject: who}, next: next}
		t.Put(who.name, l)
		x.setPlace(who, b, l)
	}
}

// remove removes b from the bindings of each of its subjects.
func (x *Index) remove(s *subjects, b *binding) {
	for _, who := range b.subjects {
		t := s.table(who)
		old, ok := t.Get(who.name)
		if !ok {
			continue
		}
		rest := old.without(b)
		if rest != nil {
			t.Put(who.name, rest)
		} else {
			t.Delete(who.name)
		}
		x.setPlace(who, b, rest)
	}
}

func (s *subjects) empty() bool {
	return s.users.Len() == 0 && s.groups.Len() == 0
}

// without returns the links less those of b.
func (l *link) without(b *binding) *link {
	var first *link
	last := &first
	for ; l != nil; l = l.next {
		if l.binding != b {
			*last = &link{bound: l.bound}
			last = &(*last).next
		}
	}
	return first
}

// setRole replaces the content of a role and returns the old one; nil means that there is no role.
func (x *Index) setRole(key roleKey, c *content) (old *content) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.changes.Add(1)
	r := x.role(key)
	old = r.content.Swap(c)
	x.countPolicies(old, c)
	x.forget(key, r)
	return old
}

// role returns the role of key, and adds it if it is new.
func (x *Index) role(key roleKey) *role {
	r := x.roles[key]
	if r == nil {
		r = &role{}
		x.roles[key] = r
	}
	return r
}

// forget drops a role that neither exists nor is bound.
func (x *Index) forget(key roleKey, r *role) {
	if r.bound == 0 && r.content.Load() == nil {
		delete(x.roles, key)
	}
}

// setBinding replaces the binding of key by b; nil removes it. The new one is added before the old one is removed, so that no decision
// misses what both of them grant.
func (x *Index) setBinding(key bindingKey, b *binding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.changes.Add(1)
	old := x.bindings[key]
	if b != nil {
		b.role = x.role(b.roleKey)
		b.role.bound++
		x.add(x.subjectsAt(b), b)
		x.bindings[key] = b
	} else {
		delete(x.bindings, key)
	}
	if old == nil {
		return
	}
	place := x.subjectsAt(old)
	x.remove(place, old)
	if place.empty() {
		x.leave(old)
	}
	old.role.bound--
	x.forget(old.roleKey, old.role)
}

// scopeName returns the subjects at the scope of b, and adds the scope if it is new.
func (x *Index) subjectsAt(b *binding) *subjects {
	t := &x.namespaces
	switch b.key.scope {
	case request.Global:
		return &x.global
	case request.Cluster:
		return &x.cluster
	case request.Workspace:
		t = &x.workspaces
	}
	s, ok := t.Get(b.scopeName)
	if !ok {
		s = &subjects{}
		t.Put(b.scopeName, s)
	}
	return s
}

// leave drops a scope in which no subject is bound.
func (x *Index) leave(b *binding) {
	switch b.key.scope {
	case request.Workspace:
		x.workspaces.Delete(b.scopeName)
	case request.Namespace:
		x.namespaces.Delete(b.scopeName)
	}
}

// setNamespace sets the workspace of a namespace; an empty one means none.
func (x *Index) setNamespace(name, workspace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.workspaceOf.Get(name); ok && old == workspace {
		return // namespaces change often, but their workspace rarely
	}
	x.workspaceOf.Put(name, workspace)
	x.placements.Add(1)
	x.changes.Add(1)
}

// dropNamespace removes a namespace.
func (x *Index) dropNamespace(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.workspaceOf.Delete(name)
	x.placements.Add(1)
	x.changes.Add(1)
}
