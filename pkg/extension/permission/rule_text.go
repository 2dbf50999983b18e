package permission

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Words returns rules for people.
func Words(rules []rbacv1.PolicyRule) []string {
	out := make([]string, 0, len(rules))
	for i := range rules {
		r := &rules[i]
		text := strings.Join(r.Verbs, ",") + " " + strings.Join(append(r.Resources, r.NonResourceURLs...), ",")
		if groups := strings.Join(r.APIGroups, ","); groups != "" {
			text += " of " + groups
		} else if len(r.APIGroups) > 0 {
			text += " of the core group"
		}
		out = append(out, text)
	}
	return out
}
