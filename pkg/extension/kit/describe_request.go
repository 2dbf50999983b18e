package kit

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// Describe says what a request asks for, a line for each rule.
func Describe(r *permission.Request) (lines []string) {
	for _, of := range []struct {
		where string
		rules []rbacv1.PolicyRule
	}{{"in the cluster", r.ClusterRules}, {"in " + r.Namespace, append(permission.NamespaceRules(), r.Rules...)}} {
		for i := range of.rules {
			lines = append(lines, of.where+": "+ruleText(&of.rules[i]))
		}
	}
	for _, image := range r.HookImages {
		lines = append(lines, "an image around operations: "+image)
	}
	return lines
}

// ruleText says a rule for people.
func ruleText(r *rbacv1.PolicyRule) string {
	text := strings.Join(r.Verbs, ", ") + " "
	if len(r.NonResourceURLs) > 0 {
		return text + strings.Join(r.NonResourceURLs, ", ")
	}
	groups := slices.Clone(r.APIGroups)
	for i, g := range groups {
		groups[i] = cmp.Or(g, `"" (core)`)
	}
	text += strings.Join(r.Resources, ", ") + " of " + strings.Join(groups, ", ")
	if len(r.ResourceNames) > 0 {
		text += " named " + strings.Join(r.ResourceNames, ", ")
	}
	return text
}
