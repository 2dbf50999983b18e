package rbac

import (
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Memberships returns the workspaces and the namespaces in which u, or one of u's groups, is bound to any role (sorted, nil for none),
// and whether u is bound in the cluster. It is cached until the next change of the index.
func (x *Index) Memberships(u user.Info) (p *authz.PartialList, cluster bool) {
	if u == nil || u.GetName() == "" { // S10
		return nil, false
	}
	for range x.cluster.of(u) {
		cluster = true
		break
	}
	key := newPartialKey(u, &request.Info{Verb: "be bound"}) // no request has that verb
	changes := x.changes.Load()
	p, ok := x.parts.get(key, changes)
	if !ok {
		p = x.memberships(u)
		x.parts.put(key, changes, p)
	}
	return p, cluster
}

func (x *Index) memberships(u user.Info) *authz.PartialList {
	var namespaces, workspaces []string
	s := search{index: x, user: u}
	for p := range s.scopes() {
		for name := range p.workspaces.All {
			workspaces = append(workspaces, name)
		}
		for name := range p.namespaces.All {
			namespaces = append(namespaces, name)
		}
	}
	return authz.NewPartialList(slices.Clip(namespaces), slices.Clip(workspaces))
}
