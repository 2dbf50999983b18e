package rbac

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
)

// Held returns the bindings of u, and of each of u's groups, at exactly one scope, with whatever roles: scope, binding, role and subject
// of each, ordered by the binding's name. A user.Info without groups gets only the bindings of the user. The cost is linear in their
// number.
func (x *Index) Held(u user.Info, at authz.BindingScope) []authz.Grant {
	s := x.at(at)
	if s == nil || u == nil || u.GetName() == "" {
		return nil
	}
	var out []authz.Grant
	for l := range s.of(u) {
		for ; l != nil; l = l.next {
			out = append(out, authz.Grant{
				Scope: at, Binding: l.key.name,
				Role:    authz.RoleRef{Scope: l.roleKey.scope, Namespace: l.roleKey.namespace, Name: l.roleKey.name},
				Subject: rbacv1.Subject{Kind: l.subject.kind, Name: l.subject.name},
			})
		}
	}
	slices.SortFunc(out, func(a, b authz.Grant) int { return cmp.Compare(a.Binding, b.Binding) })
	return out
}

// Named reports whether a binding, of any scope, names a user, even if there is no such user: a new user of that name would get what is
// bound to it.
func (x *Index) Named(user string) bool {
	if _, ok := x.global.users.Get(user); ok {
		return true
	}
	if _, ok := x.cluster.users.Get(user); ok {
		return true
	}
	_, ok := x.scopesOfUsers.Get(user)
	return ok
}
