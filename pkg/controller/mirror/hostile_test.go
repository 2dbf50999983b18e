package mirror

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/tools/hostile"
)

// S62: native rules allow exactly what the words of this project's rules say, one by one, whatever the words are; and rules that are
// merged because they are similar allow what each of them did.
func TestNativeRulesAllowWhatHostileWordsSay(t *testing.T) {
	vocabulary := &hostile.Vocabulary{
		Verbs: []string{"get", "list", "*"}, Groups: []string{"", "apps", "*"}, Resources: []string{"pods", "pods/log", "*"},
		Names: []string{"a", "b", "a,b", "a b"}, Paths: []string{"/x"},
	}
	for seed := range uint64(500) {
		g := hostile.New(seed)
		rules := append(g.Rules(3, vocabulary), g.Rule(vocabulary))
		verbs, groups, kinds, names := []string{"get"}, []string{"", "apps"}, []string{"pods", "pods/log"}, []string{"", "a", "b", "a,b"}
		for i := range rules {
			r := &rules[i]
			verbs, groups, kinds, names = append(verbs, r.Verbs...), append(groups, r.APIGroups...), append(kinds, r.Resources...), append(names, r.ResourceNames...)
		}
		native := nativeRules(rules, true)
		for range 100 {
			verb, group, kind, name := g.One(verbs...), g.One(groups...), g.One(kinds...), g.One(names...)
			ours := slices.DeleteFunc(slices.Clone(rules), func(r rbacv1.PolicyRule) bool { return len(r.ResourceNames) > 0 && name == "" })
			a, b := allows(ours, verb, group, kind, name), allows(native, verb, group, kind, name)
			if usual := slices.Contains(ordinaryVerbs, verb); verb != "*" && (b && !a || usual && a != b) { // "*" stands for no other verb on some kinds (restrained)
				t.Fatalf("seed %d: %q %q/%q %q: %t by ours, %t natively: %+v", seed, verb, group, kind, name, a, b, rules)
			}
		}
	}
}

// S62: rights are merged by their values, not by how their names read when joined.
func TestRightsOfNamesThatReadAlikeStayApart(t *testing.T) {
	for seed := range uint64(2000) {
		g, found := hostile.New(seed), &rights{}
		all := []string{"a", "b", "a,b", "a b", "b,a", g.Word(), g.Word()}
		for _, kind := range []resource{{"", "pods"}, {"", "secrets"}, {"", "configmaps"}} {
			names := g.Some(2, all...)
			found.add(kind, g.One("get", "list", "update"), slices.DeleteFunc(names, func(n string) bool { return n == "" }))
		}
		rules := found.rules()
		for _, r := range found.list {
			for _, kind := range []string{"pods", "secrets", "configmaps"} {
				for _, name := range append(all, "other") {
					want := slices.ContainsFunc(found.list, func(o right) bool {
						return o.kind.name == kind && o.verb == r.verb && (len(o.names) == 0 || slices.Contains(o.names, name))
					})
					if got := allows(rules, r.verb, "", kind, name); got != want {
						t.Fatalf("seed %d: %s %s %q: %t, want %t, by %+v", seed, r.verb, kind, name, got, want, rules)
					}
				}
			}
		}
	}
}
