// Package rbac decides by roles and their bindings at four scopes, out of an index that follows them.
package rbac

import (
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/cel"

	"kapis.dev/ks-apiserver/pkg/authz/rbac/lockfree"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Index knows every role and binding, by who is bound where. It is an authz.Authorizer.
//
// A decision takes no lock and allocates nothing, and costs the same however many bindings there
// are: it looks only at the user's own, and those of the user's groups, at the scopes in question. A
// change costs as much as what it changes, and holds for the next decision.
type Index struct {
	conditions *conditions
	rules      interned[rules]
	compiled   interned[compiled]
	compile    func(text string) (Policy, error) // nil where policies are ignored
	policies   atomic.Int64                      // roles that have one

	// What decisions read.
	global, cluster subjects
	workspaces      lockfree.Map[*subjects] // by the workspace's name
	namespaces      lockfree.Map[*subjects] // by the namespace's name
	workspaceOf     lockfree.Map[string]    // by the namespace's name; empty for one that is in no workspace

	// What parts of lists are made of, and were.
	scopesOfUsers, scopesOfGroups lockfree.Map[*subjectScopes] // by the subject's name
	changes                       atomic.Uint64                // counts them: one is counted when it is complete
	parts                         *parts

	// What changes need to know: where roles and bindings went.
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
	return &Index{
		conditions: c,
		parts:      newParts(partsRemembered),
		roles:      map[roleKey]*role{},
		bindings:   map[bindingKey]*binding{},
	}, nil
}

// roleKey is where a role is; namespace is empty but for a role of a namespace.
type roleKey struct {
	scope           request.Scope
	namespace, name string
}

// role stands for a role from when it is first heard of, by a binding or by itself, to when neither
// is left. Bindings point at it, so that a decision doesn't look it up.
type role struct {
	content atomic.Pointer[content] // nil where there is no such role
	bound   int                     // bindings that refer to it, under Index.mu
}

// content is what a role says. It is not changed once it is in a role.
type content struct {
	rules     *rules
	workspace string        // of a role of a workspace, where it says which
	condition cel.Program   // nil for none
	group     string        // the synthetic group where there is a condition
	failed    sync.Once     // to log once that the condition can't be evaluated
	name      string        // for that line
	scope     request.Scope // and that
	rego      bool          // it carries a policy in Rego, usable or not
	policy    *policy       // that policy, nil where it can't be used

	expression string // the condition as it is written, to be shown
}

type bindingKey struct {
	scope           request.Scope
	namespace, name string
}

// binding is what a binding says. It is not changed once it is in the index.
type binding struct {
	key      bindingKey
	place    string // the workspace or the namespace that it is for
	role     *role
	roleKey  roleKey
	group    string // the synthetic group of the role, here
	subjects []subject
}

// subject is who is bound: in the table of users by the name that authentication gives, or in that
// of groups.
type subject struct {
	kind string // as the binding calls it
	name string
}

func (s subject) isGroup() bool { return s.kind == "Group" }

// subjects are the bindings of one place, by who is bound.
type subjects struct {
	users, groups lockfree.Map[*link]
}

// link is one of a subject's bindings in one place, and then the others.
type link struct {
	*bound
	next *link
}

// bound is a subject's part in a binding.
type bound struct {
	*binding
	subject subject
	reason  atomic.Pointer[string] // made when it is first asked for
}

func (s *subjects) table(who subject) *lockfree.Map[*link] {
	if who.isGroup() {
		return &s.groups
	}
	return &s.users
}

// add puts b, which is for the place of s, among the bindings of each of its subjects.
func (x *Index) add(s *subjects, b *binding) {
	for _, who := range b.subjects {
		t := s.table(who)
		next, _ := t.Get(who.name)
		l := &link{bound: &bound{binding: b, subject: who}, next: next}
		t.Put(who.name, l)
		x.setPlace(who, b, l)
	}
}

// remove takes b out again.
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

// setRole puts what a role says in the place of what it said before, which it returns; nil stands
// for no role.
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

// role returns the role of key, from now on known.
func (x *Index) role(key roleKey) *role {
	r := x.roles[key]
	if r == nil {
		r = &role{}
		x.roles[key] = r
	}
	return r
}

// forget lets go of a role that neither exists nor is bound.
func (x *Index) forget(key roleKey, r *role) {
	if r.bound == 0 && r.content.Load() == nil {
		delete(x.roles, key)
	}
}

// setBinding puts b in the place of the binding that key stood for; nil removes that one. The new
// one is in before the old one goes, so that no decision misses what both of them grant.
func (x *Index) setBinding(key bindingKey, b *binding) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.changes.Add(1)
	old := x.bindings[key]
	if b != nil {
		b.role = x.role(b.roleKey)
		b.role.bound++
		x.add(x.place(b), b)
		x.bindings[key] = b
	} else {
		delete(x.bindings, key)
	}
	if old == nil {
		return
	}
	place := x.place(old)
	x.remove(place, old)
	if place.empty() {
		x.leave(old)
	}
	old.role.bound--
	x.forget(old.roleKey, old.role)
}

// place returns the subjects of where b is for, from now on known.
func (x *Index) place(b *binding) *subjects {
	t := &x.namespaces
	switch b.key.scope {
	case request.Global:
		return &x.global
	case request.Cluster:
		return &x.cluster
	case request.Workspace:
		t = &x.workspaces
	}
	s, ok := t.Get(b.place)
	if !ok {
		s = &subjects{}
		t.Put(b.place, s)
	}
	return s
}

// leave lets go of a place in which nobody is bound.
func (x *Index) leave(b *binding) {
	switch b.key.scope {
	case request.Workspace:
		x.workspaces.Delete(b.place)
	case request.Namespace:
		x.namespaces.Delete(b.place)
	}
}

// setNamespace says which workspace a namespace is in; none by an empty one.
func (x *Index) setNamespace(name, workspace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.workspaceOf.Get(name); ok && old == workspace {
		return // namespaces change often, and seldom in this
	}
	x.workspaceOf.Put(name, workspace)
	x.changes.Add(1)
}

// dropNamespace says that a namespace is gone.
func (x *Index) dropNamespace(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.workspaceOf.Delete(name)
	x.changes.Add(1)
}
