package admission

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// The rules of one object have so many words at most; those that are there may shrink, and stay while something else is changed.
func TestRulesHaveOnlySoManyWords(t *testing.T) { // S56
	_, g := newWorld(t)
	names := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprint("n", i)
		}
		return out
	}
	sized := func(words int) string {
		r := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"a"}, ResourceNames: names(words - 4)}
		return text(t, []rbacv1.PolicyRule{r})
	}
	role := func(words int) string { return `{"metadata":{"name":"x"},"rules":` + sized(words) + `}` }
	const most = 1 << 14
	all(t, g, map[string]write{
		"AsManyAsThereMayBe":     {by: "root", resource: "globalroles", name: "x", now: role(most)},
		"OneMore":                {by: "root", resource: "globalroles", name: "x", now: role(most + 1), refused: "at most are allowed"},
		"InATemplate":            {by: "root", resource: "roletemplates", name: "x", now: `{"spec":{"rules":` + sized(most+1) + `}}`, refused: "at most"},
		"AsItWas":                {by: "root", resource: "globalroles", name: "x", now: role(most + 2), old: role(most + 2)},
		"Less":                   {by: "root", resource: "globalroles", name: "x", now: role(most + 1), old: role(most + 2)},
		"More":                   {by: "root", resource: "globalroles", name: "x", now: role(most + 3), old: role(most + 2), refused: "at most are allowed"},
		"InTheRoleOfABuiltInOne": {by: "root", resource: "builtinroles", name: "x", now: `{"role":{"kind":"Role",` + role(most + 1)[1:] + `}`, refused: "at most"},
	})
}

func TestWhatIsNewInAList(t *testing.T) {
	for _, c := range []struct{ list, before, want []string }{
		{nil, []string{"a"}, nil}, {[]string{"a"}, nil, []string{"a"}}, {[]string{"b", "a", "c", "b"}, []string{"c", "a"}, []string{"b", "b"}},
	} {
		if got := addedNames(c.list, c.before); !slices.Equal(got, c.want) {
			t.Errorf("%q is new in %q after %q", got, c.list, c.before)
		}
	}
}
