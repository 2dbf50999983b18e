package rbac

import (
	"kapis.dev/ks-apiserver/pkg/request"
)

// places are the workspaces and the namespaces in which somebody is bound, with the bindings there:
// the same that Index.workspaces and Index.namespaces have, found by the other end.
type places struct {
	workspaces, namespaces table[*link]
}

// of returns those of a scope, nil where bindings of that scope are for no place.
func (p *places) of(s request.Scope) *table[*link] {
	switch s {
	case request.Workspace:
		return &p.workspaces
	case request.Namespace:
		return &p.namespaces
	}
	return nil
}

// setPlace notes what is left of a subject's bindings in the place of b.
func (x *Index) setPlace(who subject, b *binding, links *link) {
	if b.key.scope != request.Workspace && b.key.scope != request.Namespace {
		return
	}
	bound := &x.placesOfUsers
	if who.isGroup() {
		bound = &x.placesOfGroups
	}
	p, ok := bound.get(who.name)
	if links != nil {
		if !ok {
			p = &places{}
			bound.put(who.name, p)
		}
		p.of(b.key.scope).put(b.place, links)
		return
	}
	if !ok {
		return
	}
	p.of(b.key.scope).drop(b.place)
	if p.workspaces.n == 0 && p.namespaces.n == 0 {
		bound.drop(who.name)
	}
}
