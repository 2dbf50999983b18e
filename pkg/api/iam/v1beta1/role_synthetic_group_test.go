package v1beta1_test

import (
	"testing"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

func TestSyntheticGroups(t *testing.T) {
	for claim, c := range map[string]struct{ got, want string }{
		"OfThePlatform":                          {iamv1beta1.SyntheticGroup(iamv1beta1.ScopeGlobal, "", "r"), "kapis:global:r"},
		"OfTheCluster":                           {iamv1beta1.SyntheticGroup(iamv1beta1.ScopeCluster, "", "r"), "kapis:cluster:r"},
		"OfAWorkspace":                           {iamv1beta1.SyntheticGroup(iamv1beta1.ScopeWorkspace, "w", "r"), "kapis:workspace:w:r"},
		"OfANamespace":                           {iamv1beta1.SyntheticGroup(iamv1beta1.ScopeNamespace, "", "r"), "kapis:namespace:r"},
		"WithACondition":                         {iamv1beta1.ConditionalGroup(iamv1beta1.ScopeGlobal, "", "r"), "kapis:conditional:global:r"},
		"WithAConditionInAWorkspace":             {iamv1beta1.ConditionalGroup(iamv1beta1.ScopeWorkspace, "", "r"), "kapis:conditional:workspace:r"},
		"WithAConditionInANamespace":             {iamv1beta1.ConditionalGroup(iamv1beta1.ScopeNamespace, "n", "r"), "kapis:conditional:namespace:n:r"},
		"OfAServiceAccountIsItsUserNotAsAnother": {iamv1beta1.ServiceAccountUser("n", "s"), "kubesphere:serviceaccount:n:s"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", claim, c.got, c.want)
		}
	}
}

// S6: a role of one's own namespace that has the name of a role of the platform does not stand for it.
func TestRolesOfOneNameDoNotShareAConditionalGroup(t *testing.T) {
	seen := map[string]string{}
	for _, role := range [][2]string{{iamv1beta1.ScopeGlobal, ""}, {iamv1beta1.ScopeCluster, ""}, {iamv1beta1.ScopeWorkspace, ""},
		{iamv1beta1.ScopeNamespace, "a"}, {iamv1beta1.ScopeNamespace, "b"},
		{iamv1beta1.ScopeNamespace, "global"}} {
		group := iamv1beta1.ConditionalGroup(role[0], role[1], "self")
		if other, ok := seen[group]; ok {
			t.Errorf("%v and %s share %q", role, other, group)
		}
		seen[group] = role[0] + " " + role[1]
	}
}
