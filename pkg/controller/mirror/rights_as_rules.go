package mirror

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// right is a verb on the objects of a kind.
type right struct {
	kind resource
	verb string
	// names are sorted and unique; none stands for all.
	names []string
}

// rights is a list with one element for each kind and verb, in the order in which they were found.
type rights struct{ list []right }

func (s *rights) add(kind resource, verb string, names []string) {
	i := slices.IndexFunc(s.list, func(r right) bool { return r.kind == kind && r.verb == verb })
	if i < 0 {
		s.list = append(s.list, right{kind, verb, sorted(names)})
		return
	}
	r := &s.list[i]
	if len(r.names) == 0 || len(names) == 0 {
		r.names = nil
	} else {
		r.names = sorted(append(r.names, names...))
	}
}

func sorted(names []string) []string {
	out := slices.Clone(names)
	slices.Sort(out)
	return slices.Compact(out)
}

// removeLiteral removes the rights that rules give literally.
func (s *rights) removeLiteral(rules []rbacv1.PolicyRule) {
	said := func(r *right, name string) bool {
		return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return has(rule.APIGroups, r.kind.group) && hasResource(rule.Resources, r.kind.name) && has(rule.Verbs, r.verb) &&
				(len(rule.ResourceNames) == 0 || name != "" && slices.Contains(rule.ResourceNames, name))
		})
	}
	s.list = slices.DeleteFunc(s.list, func(r right) bool {
		return said(&r, "") || len(r.names) > 0 && !slices.ContainsFunc(r.names, func(name string) bool { return !said(&r, name) })
	})
}

// rules returns the rights as rules, with the verbs of one kind in one rule, and kinds of a group that have the same verbs together.
func (s *rights) rules() []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range s.list {
		i := slices.IndexFunc(out, func(rule rbacv1.PolicyRule) bool {
			return rule.APIGroups[0] == r.kind.group && rule.Resources[0] == r.kind.name && slices.Equal(rule.ResourceNames, r.names)
		})
		if i < 0 {
			out = append(out, rbacv1.PolicyRule{APIGroups: []string{r.kind.group}, Resources: []string{r.kind.name}, ResourceNames: r.names})
			i = len(out) - 1
		}
		out[i].Verbs = append(out[i].Verbs, r.verb)
	}
	for i := range out {
		slices.SortFunc(out[i].Verbs, func(a, b string) int {
			return slices.Index(ordinaryVerbs, a) - slices.Index(ordinaryVerbs, b)
		})
	}
	slices.SortStableFunc(out, func(a, b rbacv1.PolicyRule) int { return byAllButResources(&a, &b) })
	return joined(out)
}

// byAllButResources compares rules of one group each; it is 0 if they differ in their resources only.
func byAllButResources(a, b *rbacv1.PolicyRule) int {
	return cmp.Or(strings.Compare(a.APIGroups[0], b.APIGroups[0]), slices.Compare(a.ResourceNames, b.ResourceNames),
		slices.Compare(a.Verbs, b.Verbs))
}

// joined joins adjacent rules that differ in their resources only.
func joined(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for i := range rules {
		if n := len(out) - 1; n >= 0 && byAllButResources(&out[n], &rules[i]) == 0 {
			out[n].Resources = append(out[n].Resources, rules[i].Resources...)
			continue
		}
		out = append(out, rules[i])
	}
	return out
}
