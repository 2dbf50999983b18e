package mirror

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
)

func TestNativeRules(t *testing.T) {
	pods := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	for name, c := range map[string]struct {
		in         []rbacv1.PolicyRule
		namespaced bool
		want       []rbacv1.PolicyRule
	}{
		"ARuleOfResourcesStaysAsItIs": {in: []rbacv1.PolicyRule{pods}, want: []rbacv1.PolicyRule{pods}},
		"StarsStayAsTheyAre": {
			in:   []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}},
			want: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}},
		},
		"ResourceNamesStay": {
			in:   []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}}},
			want: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}, ResourceNames: []string{"a"}}},
		},
		"ARuleWithoutVerbsMatchesNothing":  {in: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}}}},
		"ARuleWithoutGroupsMatchesNothing": {in: []rbacv1.PolicyRule{{Verbs: []string{"get"}, Resources: []string{"pods"}}}},
		"ARuleOfBothIsSplit": {
			in: []rbacv1.PolicyRule{{Verbs: []string{"GET"}, APIGroups: []string{""}, Resources: []string{"pods"}, NonResourceURLs: []string{"/x*"}}},
			want: []rbacv1.PolicyRule{
				{Verbs: []string{"GET"}, APIGroups: []string{""}, Resources: []string{"pods"}},
				{Verbs: []string{"get"}, NonResourceURLs: []string{"/x*"}},
			},
		},
		"PathsAreLeftOutInANamespace": {
			in:         []rbacv1.PolicyRule{pods, {Verbs: []string{"get"}, NonResourceURLs: []string{"*"}}},
			namespaced: true,
			want:       []rbacv1.PolicyRule{pods},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nativeRules(c.in, c.namespaced); !equality.Semantic.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestNativeSubjects(t *testing.T) {
	user := func(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "User", Name: name} }
	group := func(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: name} }
	for name, c := range map[string]struct {
		in   rbacv1.Subject
		kept bool
	}{
		"AUserIsKept":                              {user("bob"), true},
		"AUserOfTheIAMGroupIsKept":                 {rbacv1.Subject{Kind: "User", APIGroup: "iam.kubesphere.io", Name: "bob"}, true},
		"AUserOfAnUnknownGroupIsNot":               {rbacv1.Subject{Kind: "User", APIGroup: "example.com", Name: "bob"}, false},
		"AGroupIsKept":                             {group("dev"), true},
		"EverybodyIsKept":                          {group("system:authenticated"), true},
		"AnonymousPeopleAreKept":                   {group("system:unauthenticated"), true},
		"ServiceAccountGroupsAreKept":              {group("system:serviceaccounts:ns"), true},
		"AServiceAccountByItsUserNameIsKept":       {user("system:serviceaccount:ns:sa"), true},
		"KubernetesMastersAreNot":                  {group("system:masters"), false},
		"NodesAreNot":                              {group("system:nodes"), false},
		"AComponentIsNot":                          {user("system:kube-controller-manager"), false},
		"AGroupNameIsNoUserName":                   {user("system:authenticated"), false},
		"ASyntheticGroupIsNot":                     {group("kapis:global:platform-admin"), false},
		"ASyntheticUserIsNot":                      {user("kapis:x"), false},
		"ANamelessOneIsNot":                        {user(""), false},
		"AServiceAccountIsKept":                    {rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ns", Name: "sa"}, true},
		"AServiceAccountWithoutNamespaceIsNot":     {rbacv1.Subject{Kind: "ServiceAccount", Name: "sa"}, false},
		"AKubeSphereServiceAccountIsNotItsNative":  {rbacv1.Subject{Kind: "ServiceAccount", APIGroup: "kubesphere.io", Namespace: "ns", Name: "sa"}, false},
		"AnyOtherKindIsNot":                        {rbacv1.Subject{Kind: "Robot", Name: "r"}, false},
		"AGroupThatOnlyBeginsLikeAWellKnownIsNot":  {group("system:authenticated:x"), false},
		"AServiceAccountsGroupMisspelledIsNotKept": {group("system:serviceaccountsx"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := len(nativeSubjects([]rbacv1.Subject{c.in})) == 1; got != c.kept {
				t.Errorf("kept %t, want %t", got, c.kept)
			}
		})
	}
	t.Run("SortedAndEachOnce", func(t *testing.T) {
		got := nativeSubjects([]rbacv1.Subject{user("b"), group("a"), user("a"), {Kind: "User", APIGroup: rbacv1.GroupName, Name: "b"}})
		want := []rbacv1.Subject{
			{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "a"},
			{Kind: "User", APIGroup: rbacv1.GroupName, Name: "a"},
			{Kind: "User", APIGroup: rbacv1.GroupName, Name: "b"},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestParts(t *testing.T) {
	people := func(n int) []rbacv1.Subject {
		out := make([]rbacv1.Subject, n)
		for i := range out {
			out[i] = rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: fmt.Sprintf("user-%05d", i)}
		}
		return out
	}
	for _, n := range []int{0, 1, maxSubjects, maxSubjects + 1, 10000} {
		t.Run(fmt.Sprintf("EverySubjectOfManyIsInOnePart/%d", n), func(t *testing.T) {
			seen := map[string]int{}
			all := distribute(people(n), "kapis:global:x")
			for _, part := range all {
				if len(part) > 2*maxSubjects {
					t.Errorf("a part has %d subjects", len(part))
				}
				for _, s := range part {
					seen[s.Name]++
				}
			}
			if len(seen) != n+1 {
				t.Errorf("%d subjects came out of %d and the group", len(seen), n)
			}
			for name, times := range seen {
				if times != 1 {
					t.Errorf("%s is there %d times", name, times)
				}
			}
			if all[0][0].Name != "kapis:global:x" {
				t.Error("the synthetic group is not in the first part")
			}
		})
	}
	t.Run("OneMoreSubjectChangesOnePart", func(t *testing.T) {
		a, b := distribute(people(9000), "g"), distribute(people(9001), "g")
		changed := 0
		for i := range a {
			if !slices.Equal(a[i], b[i]) {
				changed++
			}
		}
		if len(a) != len(b) || changed != 1 {
			t.Errorf("%d of %d parts changed", changed, len(b))
		}
	})
}

// No two roles may have one native name, even if one has many parts.
func TestNativeNamesAreDistinct(t *testing.T) {
	prefixes := []string{"", "global:", "workspace:", "conditional:", "conditional:cluster:", "conditional:workspace:"}
	roles := []string{"x", "global", "workspace", "conditional", "cluster", "part", "1", "x.part.1"}
	seen := map[string]string{}
	for _, p := range prefixes {
		for _, r := range roles {
			for i := range 3 {
				name, from := partName(NamePrefix+p+r, i), fmt.Sprint(p, r, i)
				if other, ok := seen[name]; ok {
					t.Errorf("%s and %s are both called %s", from, other, name)
				}
				seen[name] = from
			}
		}
	}
}

// allows matches iam rules with a request for a resource.
func allows(rules []rbacv1.PolicyRule, verb, group, resource, name string) bool {
	has := func(list []string, x string) bool { return slices.Contains(list, "*") || slices.Contains(list, x) }
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return has(r.Verbs, verb) && has(r.APIGroups, group) && has(r.Resources, resource) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, name))
	})
}

// The native rules allow exactly what the iam rules allow, and kube-apiserver accepts them.
func TestNativeRulesAllowTheSame(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	some := func(from ...string) []string {
		var out []string
		for _, x := range from {
			if random.Intn(3) == 0 {
				out = append(out, x)
			}
		}
		return out
	}
	verbs, groups, resources, names := []string{"get", "list"}, []string{"", "apps"}, []string{"pods", "pods/log"}, []string{"", "a", "b"}
	for range 500 {
		var rules []rbacv1.PolicyRule
		for range random.Intn(4) {
			rules = append(rules, rbacv1.PolicyRule{
				Verbs: some("get", "list", "*"), APIGroups: some("", "apps", "*"), Resources: some("pods", "pods/log", "*"),
				ResourceNames: some("a", "b"), NonResourceURLs: some("/x", "*"),
			})
		}
		for _, namespaced := range []bool{true, false} {
			native := nativeRules(rules, namespaced)
			for _, r := range native {
				resource, path := len(r.APIGroups) > 0 && len(r.Resources) > 0, len(r.NonResourceURLs) > 0
				if len(r.Verbs) == 0 || resource == path || path && (namespaced || len(r.ResourceNames) > 0) {
					t.Fatalf("kube-apiserver refuses %v (of %v)", r, rules)
				}
			}
			for _, v := range verbs {
				for _, g := range groups {
					for _, r := range resources {
						for _, n := range names {
							if a, b := allows(rules, v, g, r, n), allows(native, v, g, r, n); a != b {
								t.Fatalf("%s %s/%s %q: iam says %t, native %t, by %v", v, g, r, n, a, b, rules)
							}
						}
					}
				}
			}
		}
	}
}

// A source identifies its role, and no role of another kind; no text causes a panic.
func FuzzSource(f *testing.F) {
	f.Add("ns", "dev", "Role/ns/dev")
	f.Add("", "platform-admin", "GlobalRole/platform-admin")
	f.Add("a", "", "//")
	f.Fuzz(func(t *testing.T, namespace, name, text string) {
		_, _ = keyOf("Role", text)
		if strings.Contains(namespace+name, "/") {
			return // kube-apiserver has no such names
		}
		key := types.NamespacedName{Namespace: namespace, Name: name}
		if got, ok := keyOf("Role", Source("Role", key)); !ok || got != key {
			t.Errorf("%v came back as %v, %t", key, got, ok)
		}
		if _, ok := keyOf("GlobalRole", Source("Role", key)); ok {
			t.Errorf("%v of one kind was taken for another's", key)
		}
	})
}
