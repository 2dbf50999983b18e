package rbac

import (
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

func numbered(prefix string, n int, more ...string) []string {
	for i := range n {
		more = append(more, fmt.Sprint(prefix, i))
	}
	return more
}

// A rule of many groups and many resources takes as much memory as its words, and not as all pairs of them; and says the same.
func TestARuleTakesNoMoreThanItsWords(t *testing.T) { // S56
	for name, rule := range map[string]rbacv1.PolicyRule{
		"Plain":          {Verbs: []string{"get", "approve"}, APIGroups: numbered("g", 300), Resources: numbered("r", 300, "pods/log")},
		"Named":          {Verbs: []string{"get"}, APIGroups: numbered("g", 300), Resources: numbered("r", 300, "pods/log"), ResourceNames: []string{"a"}},
		"OfAnyGroup":     {Verbs: []string{"*"}, APIGroups: numbered("g", 300, "*"), Resources: numbered("r", 300)},
		"OfAnyResource":  {Verbs: []string{"get"}, APIGroups: numbered("g", 300), Resources: numbered("r", 300, "*", "*/log", "", "/x", "y/")},
		"OfAnything":     {Verbs: []string{"*"}, APIGroups: numbered("g", 300, "*"), Resources: numbered("r", 300, "*")},
		"OftenTheSame":   {Verbs: []string{"get"}, APIGroups: make([]string, 300), Resources: make([]string, 300)},
		"OfManyVerbs":    {Verbs: numbered("v", 2000), APIGroups: []string{""}, Resources: numbered("r", 2000)},
		"OfNoResource":   {Verbs: []string{"get"}, APIGroups: numbered("g", 300), Resources: append(numbered("", 0), make([]string, 300)...)},
		"OfOneManyTimes": {Verbs: numbered("v", 300), APIGroups: []string{""}, Resources: append(numbered("r", 1), "r0", "r0", "r0")},
	} {
		t.Run(name, func(t *testing.T) {
			list := []rbacv1.PolicyRule{rule}
			s := newRules(list)
			words := len(rule.Verbs) + len(rule.APIGroups) + len(rule.Resources)
			grants := 0
			for _, g := range s.grants {
				grants += len(g)
			}
			if grants > 4*words+16 || len(s.verbs.others) > len(rule.Verbs) {
				t.Errorf("%d grants, %d verbs, of %d words", grants, len(s.verbs.others), words)
			}
			w := newWorld(t)
			w.role("globalroles", "r", rule)
			w.bind("globalrolebindings", "b", "", "r", "User:bob")
			for _, verb := range []string{"get", "approve", "v1", "list"} {
				for _, group := range []string{"", "g1", "g299", "h"} {
					for _, kind := range []string{"r0", "r299", "pods", "h", "y", "*"} {
						for _, sub := range []string{"", "log", "x"} {
							for _, object := range []string{"", "a", "b"} {
								r := &request.Info{Verb: verb, APIGroup: group, Resource: kind, Subresource: sub, Name: object, IsResource: true, Scope: request.Global}
								want := naiveAllows(list, r)
								if got := s.allow(r, bit(verb)); got != want || w.decide(person("bob"), r).Allowed() != want || (s.match(r, bit(verb)) != nil) != want {
									t.Fatalf("%+v: %t, want %t", r, got, want)
								}
							}
						}
					}
				}
			}
			if got, want := s.everything(), name == "OfAnything"; got != want {
				t.Errorf("everything: %t", got)
			}
			again := newRules(s.policy())
			if r := (&request.Info{Verb: "get", APIGroup: "g1", Resource: "r7", Name: "a", IsResource: true}); again.allow(r, bit("get")) != s.allow(r, bit("get")) {
				t.Error("the rules that are shown say something else")
			}
		})
	}
}

// Who holds a wide rule may give it away, and nobody else may.
func TestAWideRuleIsHeldLikeAnyOther(t *testing.T) { // S6
	w := newWorld(t)
	wide := rbacv1.PolicyRule{Verbs: []string{"get", "approve"}, APIGroups: numbered("g", 20), Resources: numbered("r", 20)}
	w.role("globalroles", "wide", wide)
	w.bind("globalrolebindings", "b", "", "wide", "User:bob")
	if missing := w.index.Missing(person("bob"), authz.BindingScope{}, []rbacv1.PolicyRule{wide}); len(missing) > 0 {
		t.Errorf("bob lacks %v", missing)
	}
	if missing, found := w.index.MissingOf(person("bob"), authz.BindingScope{}, authz.RoleRef{Name: "wide"}); len(missing) > 0 || !found {
		t.Errorf("bob lacks %v", missing)
	}
	if missing, _ := w.index.MissingOf(person("ann"), authz.BindingScope{}, authz.RoleRef{Name: "wide"}); len(missing) == 0 {
		t.Error("ann has nothing, and lacks nothing")
	}
	wider := wide
	wider.Resources = append(numbered("r", 20), "h")
	if missing := w.index.Missing(person("bob"), authz.BindingScope{}, []rbacv1.PolicyRule{wider}); len(missing) != 20 {
		t.Errorf("bob lacks %v", missing)
	}
}

// A rule without verbs grants nothing, and takes no steps.
func TestARuleWithoutVerbsIsNoWork(t *testing.T) { // S56
	w := newWorld(t)
	w.role("globalroles", "r", rule("get", "", "pods"))
	w.bind("globalrolebindings", "b", "", "r", "User:bob")
	empty := rbacv1.PolicyRule{APIGroups: numbered("g", 1000), Resources: numbered("r", 1000), ResourceNames: numbered("n", 1000)}
	if missing := w.index.Missing(person("bob"), authz.BindingScope{}, []rbacv1.PolicyRule{empty}); missing != nil {
		t.Errorf("%d rules", len(missing))
	}
}

// A subject that a binding names a thousand times is bound once by it: the cost of a change would be the square of that.
func TestASubjectIsBoundOnce(t *testing.T) { // S9
	w := newWorld(t)
	w.role("globalroles", "r", rule("get", "", "pods"))
	for range 2 {
		w.bind("globalrolebindings", "b", "", "r", append(numbered("User:u", 3), "User:u0", "Group:u0", "User:u0", "ServiceAccount:n:u0", "ServiceAccount:n:u0")...)
		for name, table := range map[string]interface{ Get(string) (*link, bool) }{"u0": &w.index.global.users, "system:serviceaccount:n:u0": &w.index.global.users} {
			if l, _ := table.Get(name); l == nil || l.next != nil {
				t.Errorf("%s is bound more than once, or not at all", name)
			}
		}
		if l, _ := w.index.global.groups.Get("u0"); l == nil || l.next != nil {
			t.Error("the group of that name is another subject, and is bound once")
		}
	}
}
