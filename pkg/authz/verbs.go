package authz

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// ordinaryVerbs are the verbs of requests for objects. Every other verb is a right of its own, which kube-apiserver or an admission
// webhook asks for besides: escalate, bind, impersonate and the like.
var ordinaryVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// identities is the API group of who somebody is, for kube-apiserver.
const identities = "authentication.k8s.io"

// liftable are the kinds that have verbs which lift a check or lend an identity, by API group. Of these, "*" in a role does not stand
// for such verbs: roles of existing installations have it for those who may edit roles and users (all verbs on the roles of every
// group), and at kube-apiserver it would make them whatever they like.
var liftable = map[string][]string{
	// escalate and bind: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
	rbacv1.GroupName: {"roles", "clusterroles"},
	// The same of ours. "bind" on users is for those whom Kubernetes' own bindings name.
	iamv1beta1.GroupName: {"builtinroles", "clusterroles", "globalroles", "groups", "roles", "roletemplates", "users", "workspaceroles"},
	// impersonate and impersonate:<mode>: https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
	"":         {"groups", "serviceaccounts", "users"},
	identities: {"groups", "nodes", "serviceaccounts", "uids", "userextras", "users"},
}

// OrdinaryVerbs returns the verbs of requests for objects, for which "*" in a role stands on every kind.
func OrdinaryVerbs() []string { return slices.Clone(ordinaryVerbs) }

// LiftsIn tells whether a resource, as rules name them ("pods", "pods/log", "*", "*/log"), has verbs in an API group that lift a check or
// lend an identity, for which "*" in a role does not stand. The group "*" is any. The sub-resources of such a kind have none; but for
// userextras, whose sub-resource is the key, which "*/key" names too.
func LiftsIn(group, resource string) bool {
	if group == rbacv1.APIGroupAll {
		for one := range liftable {
			if LiftsIn(one, resource) {
				return true
			}
		}
		return false
	}
	kinds := liftable[group]
	if slices.Contains(kinds, resource) || resource == rbacv1.ResourceAll && len(kinds) > 0 {
		return true
	}
	name, _, _ := strings.Cut(resource, "/")
	return group == identities && (name == "userextras" || name == rbacv1.ResourceAll)
}

// NeedsName tells whether a verb on a resource is held by those only who were given it by its name, or everything: it lifts a check or
// lends an identity wherever it is, or it is none of the ordinary ones and "*" does not stand for it there.
func NeedsName(verb, group, resource string) bool {
	if verb == rbacv1.VerbAll || slices.Contains(ordinaryVerbs, verb) {
		return false
	}
	switch verb {
	case "escalate", "bind", "impersonate":
		return true
	}
	// Constrained impersonation asks for impersonate:<mode> on the identity, and impersonate-on:<mode>:<verb> on the object.
	return strings.HasPrefix(verb, "impersonate:") || strings.HasPrefix(verb, "impersonate-on:") || LiftsIn(group, resource)
}
