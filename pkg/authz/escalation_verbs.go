package authz

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	kubesphere "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// ordinaryVerbs are the verbs of requests for objects. Every other verb is a right of its own, which kube-apiserver or an admission
// webhook checks besides: escalate, bind, impersonate and the like.
var ordinaryVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// identities is the API group in which kube-apiserver authorizes impersonation of UIDs and extras.
const identities = "authentication.k8s.io"

// liftable are the kinds, by API group, that have verbs which lift a check or lend an identity. For these kinds, "*" in a role does not
// stand for such verbs: existing installations give "*" to users who may edit roles and users (all verbs on the roles of every group),
// and at kube-apiserver it would let them give themselves any right.
var liftable = map[string][]string{
	// escalate and bind: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
	rbacv1.GroupName: {"roles", "clusterroles"},
	// The same of ours. "bind" on users is for the users that Kubernetes' own bindings name.
	iamv1beta1.GroupName: {"builtinroles", "clusterroles", "globalroles", "groups", "roles", "roletemplates", "users", "workspaceroles"},
	// impersonate and impersonate:<mode>: https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
	"":         {"groups", "serviceaccounts", "users"},
	identities: {"groups", "nodes", "serviceaccounts", "uids", "userextras", "users"},
	// approve lets a chart be installed that may do more than who approves it.
	kubesphere.GroupName: {"installplans"},
}

// OrdinaryVerbs returns the verbs of requests for objects, which "*" in a role covers for every kind.
func OrdinaryVerbs() []string { return slices.Clone(ordinaryVerbs) }

// LiftsIn reports whether a resource, as rules name them ("pods", "pods/log", "*", "*/log"), has verbs in an API group that lift a check
// or lend an identity, which "*" in a role does not cover. The group "*" is any group. The sub-resources of such a kind have none, except
// those of userextras: their sub-resource is the key, which "*/key" names too.
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

// NeedsName reports whether a verb on a resource is held only through rules that name it, or through a rule for everything: verbs that
// lift a check or lend an identity anywhere, and non-ordinary verbs of kinds where "*" does not cover them.
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
