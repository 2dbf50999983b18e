package rbac

import (
	"kapis.dev/ks-apiserver/pkg/authz/rbac/lockfree"
	"kapis.dev/ks-apiserver/pkg/request"
)

// subjectScopes are the workspaces and the namespaces in which a subject is bound, with the bindings there: the same as in
// Index.workspaces and Index.namespaces, by subject.
type subjectScopes struct {
	workspaces, namespaces lockfree.Map[*link]
}

// of returns those of a scope, or nil where the scope has no names.
func (p *subjectScopes) of(s request.Scope) *lockfree.Map[*link] {
	switch s {
	case request.Workspace:
		return &p.workspaces
	case request.Namespace:
		return &p.namespaces
	}
	return nil
}

// setPlace sets the remaining bindings of a subject at the scope of b.
func (x *Index) setPlace(who subject, b *binding, links *link) {
	if b.key.scope != request.Workspace && b.key.scope != request.Namespace {
		return
	}
	bound := &x.scopesOfUsers
	if who.isGroup() {
		bound = &x.scopesOfGroups
	}
	p, ok := bound.Get(who.name)
	if links != nil {
		if !ok {
			p = &subjectScopes{}
			bound.Put(who.name, p)
		}
		p.of(b.key.scope).Put(b.scopeName, links)
		return
	}
	if !ok {
		return
	}
	p.of(b.key.scope).Delete(b.scopeName)
	if p.workspaces.Len() == 0 && p.namespaces.Len() == 0 {
		bound.Delete(who.name)
	}
}
