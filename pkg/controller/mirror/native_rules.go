package mirror

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// nativeRules returns rules in a form that kube-apiserver accepts: a rule is either for resources or for non-resource
// paths; rules that can never match are left out; verbs of paths are in lower case, as kube-apiserver compares them;
// "*" does not stand for verbs that lift a check, see restrained. In a namespace there are no non-resource paths.
func nativeRules(rules []rbacv1.PolicyRule, namespaced bool) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for i := range rules {
		r := &rules[i]
		if len(r.Verbs) == 0 {
			continue
		}
		if names, none := named(r.ResourceNames); len(r.APIGroups) > 0 && len(r.Resources) > 0 && !none {
			out = append(out, restrained(rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: names})...)
		}
		if !namespaced && len(r.NonResourceURLs) > 0 {
			verbs := make([]string, len(r.Verbs))
			for i, verb := range r.Verbs {
				verbs[i] = strings.ToLower(verb)
			}
			out = append(out, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: r.NonResourceURLs})
		}
	}
	return out
}

// named returns names without empty ones; none reports that nothing is left, so that the rule is for no object.
// kube-apiserver would apply it to all requests without a name: lists, and creations.
func named(names []string) (out []string, none bool) {
	if len(names) == 0 {
		return nil, false
	}
	out = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	return out, len(out) == 0
}
