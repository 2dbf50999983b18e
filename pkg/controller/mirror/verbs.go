package mirror

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// ordinaryVerbs are the verbs of requests for objects. Every other verb is a right of its own, which kube-apiserver or an admission
// webhook asks for besides: escalate, bind, impersonate and the like.
var ordinaryVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// liftable are the kinds that have verbs which lift a check or lend an identity, by API group. Of these, "*" in a role does not stand
// for such verbs: roles of existing installations have it for those who may edit roles and users (all verbs on the roles of every
// group), and at kube-apiserver it would make them whatever they like.
var liftable = map[string][]string{
	// escalate and bind: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
	rbacv1.GroupName:     {"roles", "clusterroles"},
	iamv1beta1.GroupName: {"builtinroles", "clusterroles", "globalroles", "groups", "roles", "roletemplates", "workspaceroles"},
	// impersonate and impersonate:<mode>: https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/
	"":                      {"groups", "serviceaccounts", "users"},
	"authentication.k8s.io": {"groups", "nodes", "serviceaccounts", "uids", "userextras", "users"},
}

// restrained returns a rule for resources as native rules in which "*" does not stand for verbs that lift a check (S6). A rule for all
// verbs on all resources of all groups stays what it is: in its place, there is nothing left that such a verb could add. So does a verb
// that is named.
func restrained(r rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if !slices.Contains(r.Verbs, rbacv1.VerbAll) || isEverything(&r) {
		return []rbacv1.PolicyRule{r}
	}
	groups, kinds := r.APIGroups, r.Resources
	free, held := r, r
	held.Verbs = spelledOut(r.Verbs)
	if slices.Contains(kinds, rbacv1.ResourceAll) {
		free.APIGroups, held.APIGroups = split(groups, func(group string) bool {
			return group == rbacv1.APIGroupAll || liftable[group] != nil
		})
	} else {
		free.Resources, held.Resources = split(kinds, func(resource string) bool { return isLiftable(groups, resource) })
	}
	var out []rbacv1.PolicyRule
	for _, one := range []rbacv1.PolicyRule{free, held} {
		if len(one.APIGroups) > 0 && len(one.Resources) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// isEverything tells a rule for whatever there is in its place.
func isEverything(r *rbacv1.PolicyRule) bool {
	return slices.Contains(r.Verbs, rbacv1.VerbAll) && slices.Contains(r.APIGroups, rbacv1.APIGroupAll) &&
		slices.Contains(r.Resources, rbacv1.ResourceAll) && len(r.ResourceNames) == 0
}

// isLiftable tells whether a resource is one of liftable in any of the groups. The sub-resources of such a kind have no such verbs; but for
// userextras, whose sub-resource is the key, which "*/key" names too.
func isLiftable(groups []string, resource string) bool {
	name, _, sub := strings.Cut(resource, "/")
	for group, kinds := range liftable {
		if !slices.Contains(groups, group) && !slices.Contains(groups, rbacv1.APIGroupAll) {
			continue
		}
		if !sub && slices.Contains(kinds, name) || slices.Contains(kinds, "userextras") && (name == "userextras" || name == rbacv1.ResourceAll) {
			return true
		}
	}
	return false
}

// spelledOut returns verbs with the ordinary ones in the place of "*".
func spelledOut(verbs []string) []string {
	out := slices.Clone(ordinaryVerbs)
	for _, verb := range verbs {
		if verb != rbacv1.VerbAll && !slices.Contains(out, verb) {
			out = append(out, verb)
		}
	}
	return out
}

// split returns those of list that are not picked, and those that are.
func split(list []string, picked func(string) bool) (rest, out []string) {
	for _, s := range list {
		if picked(s) {
			out = append(out, s)
		} else {
			rest = append(rest, s)
		}
	}
	return rest, out
}
