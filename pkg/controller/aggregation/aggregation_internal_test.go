package aggregation

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestFingerprintsTellFieldsApart(t *testing.T) {
	rules := []rbacv1.PolicyRule{
		{Verbs: []string{"a", "b"}}, {Verbs: []string{"a"}, APIGroups: []string{"b"}}, {Verbs: []string{`a" "b`}}, {Resources: []string{"a"}},
		{ResourceNames: []string{"a"}}, {NonResourceURLs: []string{"a"}}, {Verbs: []string{"b", "a"}}, {},
	}
	seen := map[string]int{}
	for i := range rules {
		if j, ok := seen[fingerprint(&rules[i])]; ok {
			t.Errorf("%v and %v are taken for one", rules[i], rules[j])
		}
		seen[fingerprint(&rules[i])] = i
	}
	if fingerprint(&rbacv1.PolicyRule{Verbs: []string{}}) != fingerprint(&rbacv1.PolicyRule{}) {
		t.Error("an empty field and an absent one differ")
	}
}
