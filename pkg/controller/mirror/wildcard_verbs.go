package mirror

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/authz"
)

// ordinaryVerbs are the verbs for which "*" stands on kinds that also have verbs which lift a check.
var ordinaryVerbs = authz.OrdinaryVerbs()

// restrained returns a rule for resources as native rules in which "*" does not stand for verbs that lift a check (S6). A rule for all
// verbs on all resources of all groups is not changed: such a verb could add nothing to it. Verbs that are named stay too.
func restrained(r rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if !slices.Contains(r.Verbs, rbacv1.VerbAll) || isEverything(&r) {
		return []rbacv1.PolicyRule{r}
	}
	groups, kinds := r.APIGroups, r.Resources
	free, held := r, r
	held.Verbs = spelledOut(r.Verbs)
	if slices.Contains(kinds, rbacv1.ResourceAll) {
		free.APIGroups, held.APIGroups = split(groups, func(group string) bool {
			return authz.LiftsIn(group, rbacv1.ResourceAll)
		})
	} else {
		free.Resources, held.Resources = split(kinds, func(resource string) bool {
			return slices.ContainsFunc(groups, func(group string) bool { return authz.LiftsIn(group, resource) })
		})
	}
	var out []rbacv1.PolicyRule
	for _, one := range []rbacv1.PolicyRule{free, held} {
		if len(one.APIGroups) > 0 && len(one.Resources) > 0 {
			out = append(out, one)
		}
	}
	return out
}

// isEverything reports whether a rule allows everything for which it holds.
func isEverything(r *rbacv1.PolicyRule) bool {
	return slices.Contains(r.Verbs, rbacv1.VerbAll) && slices.Contains(r.APIGroups, rbacv1.APIGroupAll) &&
		slices.Contains(r.Resources, rbacv1.ResourceAll) && len(r.ResourceNames) == 0
}

// spelledOut returns verbs with the ordinary ones in place of "*".
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
