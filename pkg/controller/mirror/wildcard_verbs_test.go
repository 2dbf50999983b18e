package mirror

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func ruleOf(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	list := func(s string) []string { return strings.Split(s, ",") }
	return rbacv1.PolicyRule{Verbs: list(verbs), APIGroups: list(groups), Resources: list(resources), ResourceNames: names}
}

// S6: "*" on roles and users of an older installation gives no right to escalate, to bind or to impersonate.
func TestS6AStarIsNoVerbThatLiftsAChecks(t *testing.T) {
	const rbac, authn, iam = "rbac.authorization.k8s.io", "authentication.k8s.io", "iam.kubesphere.io"
	type ask struct{ verb, group, resource, name string }
	for name, c := range map[string]struct {
		rule       rbacv1.PolicyRule
		keeps, not []ask
	}{
		"RolesOfEveryGroup": { // the chart's role for managers of a project's roles
			ruleOf("*", "*", "roles"),
			[]ask{{"create", rbac, "roles", ""}, {"delete", iam, "roles", "x"}, {"get", "example.com", "roles", "x"}},
			[]ask{{"escalate", rbac, "roles", "x"}, {"bind", rbac, "roles", "x"}, {"escalate", iam, "roles", "x"}, {"create", rbac, "rolebindings", ""}},
		},
		"UsersOfEveryGroup": { // the chart's role for managers of users
			ruleOf("*", "*", "users,users/password,users/loginrecords"),
			[]ask{{"patch", iam, "users", "x"}, {"update", iam, "users/password", "x"}, {"anything", iam, "users/password", "x"}},
			[]ask{{"impersonate", "", "users", "admin"}, {"impersonate:user-info", authn, "users", "admin"}, {"bind", iam, "users", "admin"}},
		},
		"ManyResourcesOfEveryGroup": {
			ruleOf("*", "*", "pods,serviceaccounts,clusterroles,pods/log"),
			[]ask{{"create", "", "pods", ""}, {"use", "", "pods", "x"}, {"get", "", "pods/log", "x"}, {"create", "", "serviceaccounts", ""}},
			[]ask{{"impersonate", "", "serviceaccounts", "x"}, {"bind", rbac, "clusterroles", "cluster-admin"},
				{"impersonate:serviceaccount", authn, "serviceaccounts", "x"}},
		},
		"AllOfTheCoreGroup": {
			ruleOf("*", ",apps", "*"),
			[]ask{{"create", "", "users", ""}, {"delete", "", "pods", "x"}, {"special", "apps", "deployments", "x"}},
			[]ask{{"impersonate", "", "users", "x"}, {"impersonate", "", "groups", "system:masters"}, {"impersonate", "", "serviceaccounts", "x"}},
		},
		"AllOfRBAC": {
			ruleOf("*", rbac, "*"),
			[]ask{{"update", rbac, "clusterroles", "x"}, {"create", rbac, "clusterrolebindings", ""}},
			[]ask{{"escalate", rbac, "clusterroles", "x"}, {"bind", rbac, "roles", "x"}},
		},
		"AllOfAuthentication": {
			ruleOf("*", authn, "*"),
			[]ask{{"create", authn, "tokenreviews", ""}},
			[]ask{{"impersonate", authn, "uids", "x"}, {"impersonate", authn, "userextras/scopes", "x"}, {"impersonate:arbitrary-node", authn, "nodes", "x"}},
		},
		"ExtrasByAnySpelling": {
			ruleOf("*", "*", "userextras/scopes,*/groups,userextras"),
			[]ask{{"get", "example.com", "things/groups", "x"}},
			[]ask{{"impersonate", authn, "userextras/scopes", "x"}, {"impersonate", authn, "userextras/groups", "x"}, {"impersonate", authn, "userextras", "x"}},
		},
		"NodesOfEveryGroup": {
			ruleOf("*", "*", "nodes"),
			[]ask{{"patch", "", "nodes", "x"}},
			[]ask{{"impersonate:associated-node", authn, "nodes", "x"}},
		},
		"EverythingOfOneName": {
			ruleOf("*", "*", "*", "x"),
			[]ask{{"get", "", "pods", "x"}, {"delete", rbac, "roles", "x"}},
			[]ask{{"escalate", rbac, "roles", "x"}, {"impersonate", "", "users", "x"}, {"get", "", "pods", "y"}},
		},
		"TheNamedVerbStays": {
			ruleOf("*,escalate", rbac, "roles"),
			[]ask{{"escalate", rbac, "roles", "x"}, {"create", rbac, "roles", ""}},
			[]ask{{"bind", rbac, "roles", "x"}},
		},
		"ANamedVerbAloneStays":         {ruleOf("impersonate", "", "users", "x"), []ask{{"impersonate", "", "users", "x"}}, []ask{{"impersonate", "", "users", "y"}}},
		"EverythingIsEverything":       {ruleOf("*", "*", "*"), []ask{{"escalate", rbac, "clusterroles", "x"}, {"impersonate", "", "users", "x"}}, nil},
		"OtherKindsKeepTheirVerbs":     {ruleOf("*", "certificates.k8s.io", "signers"), []ask{{"approve", "certificates.k8s.io", "signers", "x"}}, nil},
		"AGroupThatOnlySharesItsNames": {ruleOf("*", "apps", "roles"), []ask{{"escalate", "apps", "roles", "x"}}, []ask{{"escalate", rbac, "roles", "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			native := nativeRules([]rbacv1.PolicyRule{c.rule}, true)
			for _, a := range c.keeps {
				if !nativelyAllows(native, a.verb, a.group, a.resource, a.name) {
					t.Errorf("%v is lost in %v", a, native)
				}
			}
			for _, a := range c.not {
				if nativelyAllows(native, a.verb, a.group, a.resource, a.name) {
					t.Errorf("%v is given by %v", a, native)
				}
			}
		})
	}
}

// nativelyAllows is allows with the sub-resources of every resource, as kube-apiserver matches them.
func nativelyAllows(rules []rbacv1.PolicyRule, verb, group, resource, name string) bool {
	_, sub, isSub := strings.Cut(resource, "/")
	return allows(rules, verb, group, resource, name) || isSub && slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "*/"+sub) && allows([]rbacv1.PolicyRule{{
			Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: []string{resource}, ResourceNames: r.ResourceNames,
		}}, verb, group, resource, name)
	})
}

// An empty name is no name: kube-apiserver would apply the rule to every list.
func TestARuleForNoNameIsForNothing(t *testing.T) {
	if got := nativeRules([]rbacv1.PolicyRule{ruleOf("list", "", "secrets", "")}, true); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := nativeRules([]rbacv1.PolicyRule{ruleOf("get", "", "secrets", "", "a")}, true); len(got) != 1 || !slices.Equal(got[0].ResourceNames, []string{"a"}) {
		t.Errorf("got %v", got)
	}
}

// lifting has the kinds with verbs that lift a check or lend an identity.
var lifting = map[string][]string{
	"":                          {"groups", "serviceaccounts", "users"},
	"rbac.authorization.k8s.io": {"clusterroles", "roles"},
	"iam.kubesphere.io":         {"builtinroles", "clusterroles", "globalroles", "groups", "roles", "roletemplates", "users", "workspaceroles"},
	"authentication.k8s.io":     {"groups", "nodes", "serviceaccounts", "uids", "userextras", "userextras/scopes", "users"},
}

// FuzzRestrained checks that ordinary requests are decided as before, and that only a "*" for everything stands for a
// verb that lifts a check.
func FuzzRestrained(f *testing.F) {
	f.Add("*", "*", "roles", "")
	f.Add("*,escalate", "rbac.authorization.k8s.io,apps", "*", "x")
	f.Add("get,*", ",iam.kubesphere.io", "users,pods/log,*/scopes", "a,b")
	f.Fuzz(func(t *testing.T, verbs, groups, resources, names string) {
		r := ruleOf(verbs, groups, resources)
		if names != "" {
			r.ResourceNames = strings.Split(names, ",")
		}
		if _, none := named(r.ResourceNames); none || strings.Contains(resources, "//") {
			return
		}
		native := nativeRules([]rbacv1.PolicyRule{r}, true)
		before := []rbacv1.PolicyRule{r}
		for _, name := range append([]string{"some"}, r.ResourceNames...) {
			for _, verb := range ordinaryVerbs {
				for _, group := range []string{"", "apps", rbacv1.GroupName, "iam.kubesphere.io", "authentication.k8s.io"} {
					for _, resource := range []string{"pods", "pods/log", "roles", "users", "userextras/scopes"} {
						if name != "" && nativelyAllows(before, verb, group, resource, name) != nativelyAllows(native, verb, group, resource, name) {
							t.Fatalf("%s %s/%s %q is decided otherwise by %v than by %v", verb, group, resource, name, native, r)
						}
					}
				}
			}
			for group, kinds := range lifting {
				for _, kind := range kinds {
					for _, verb := range []string{"escalate", "bind", "impersonate", "impersonate:user-info"} {
						if nativelyAllows(native, verb, group, kind, name) && !slices.Contains(r.Verbs, verb) && !isEverything(&r) {
							t.Fatalf("%s %s/%s comes from %v", verb, group, kind, r)
						}
					}
				}
			}
		}
	})
}
