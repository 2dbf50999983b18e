package v1beta1

import "testing"

func TestSyntheticGroups(t *testing.T) {
	for claim, c := range map[string]struct{ got, want string }{
		"OfThePlatform":                          {SyntheticGroup(ScopeGlobal, "", "r"), "kapis:global:r"},
		"OfTheCluster":                           {SyntheticGroup(ScopeCluster, "", "r"), "kapis:cluster:r"},
		"OfAWorkspace":                           {SyntheticGroup(ScopeWorkspace, "w", "r"), "kapis:workspace:w:r"},
		"OfANamespace":                           {SyntheticGroup(ScopeNamespace, "", "r"), "kapis:namespace:r"},
		"WithACondition":                         {ConditionalGroup(ScopeGlobal, "", "r"), "kapis:conditional:global:r"},
		"WithAConditionInAWorkspace":             {ConditionalGroup(ScopeWorkspace, "", "r"), "kapis:conditional:workspace:r"},
		"WithAConditionInANamespace":             {ConditionalGroup(ScopeNamespace, "n", "r"), "kapis:conditional:namespace:n:r"},
		"OfAServiceAccountIsItsUserNotAsAnother": {ServiceAccountUser("n", "s"), "kubesphere:serviceaccount:n:s"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", claim, c.got, c.want)
		}
	}
}

// S6: a role of one's own namespace that has the name of a role of the platform does not stand for it.
func TestRolesOfOneNameDoNotShareAConditionalGroup(t *testing.T) {
	seen := map[string]string{}
	for _, role := range [][2]string{{ScopeGlobal, ""}, {ScopeCluster, ""}, {ScopeWorkspace, ""}, {ScopeNamespace, "a"}, {ScopeNamespace, "b"},
		{ScopeNamespace, "global"}} {
		group := ConditionalGroup(role[0], role[1], "self")
		if other, ok := seen[group]; ok {
			t.Errorf("%v and %s share %q", role, other, group)
		}
		seen[group] = role[0] + " " + role[1]
	}
}
