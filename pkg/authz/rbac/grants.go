package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// Missing returns those parts of the rules that u does not hold himself at a place, which he therefore can't give away there; nil
// where he holds them all. What a condition restricts is not held.
func (x *Index) Missing(u user.Info, at authz.Place, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return rules
}

// MissingOf is Missing for the rules of a role. found is false where there is no such role.
func (x *Index) MissingOf(u user.Info, at authz.Place, role authz.RoleRef) (missing []rbacv1.PolicyRule, found bool) {
	return nil, false
}

// HoldsVerb tells whether u was given a verb such as "escalate" or "bind" on a kind of roles by name, or holds everything, at a place. A rule for all
// verbs on these resources alone is no right to escalate: roles of existing installations have it for those who may edit roles.
func (x *Index) HoldsVerb(u user.Info, at authz.Place, verb, resource, name string) bool {
	return false
}

// Explain returns every binding of u, and of u's groups, that could bear on r, the one that decides first, and for each scope that r meets whether it has any.
func (x *Index) Explain(u user.Info, r *request.Info) []authz.Grant {
	return nil
}

// WhoCan returns every binding that allows r to somebody.
func (x *Index) WhoCan(r *request.Info) []authz.Grant {
	return nil
}

// Memberships returns the workspaces and the namespaces in which u, or one of u's groups, is bound, whatever to: sorted; and whether u is bound in the cluster.
func (x *Index) Memberships(u user.Info) (p *authz.Part, cluster bool) {
	return nil, false
}
