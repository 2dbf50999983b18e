package rbac

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

var (
	onPlatform = authz.BindingScope{}
	inCluster  = authz.BindingScope{Scope: request.Cluster}
)

func inWorkspace(name string) authz.BindingScope {
	return authz.BindingScope{Scope: request.Workspace, Workspace: name}
}

func inNamespace(name string) authz.BindingScope {
	return authz.BindingScope{Scope: request.Namespace, Namespace: name}
}

// S6: a user may give away the rights that they hold, at the scopes where they hold them.
func TestMissingIsWhatIsNotHeld(t *testing.T) {
	w := newWorld(t)
	w.namespace("n1", "a")
	w.namespace("n2", "b")
	w.role("globalroles", "admin", rule("*", "*", "*"), pathRule("*", "*"))
	w.role("globalroles", "users", rule("*", "iam.kubesphere.io", "users,globalroles"), rule("get", "", "secrets", "a", "b"), pathRule("GET", "/logs/*,/x"))
	w.role("globalroles", "viewer", rule("get,list", "*", "*"), rule("create", "apps", "*"), rule("update", "", "*/status,pods/log"))
	w.condition("globalroles", "sometimes", `request.name == user.name`, rule("*", "*", "*"))
	w.role("globalroles", "all", rule("*", "*", "users,groups,serviceaccounts,pods"), rule("*", "", "*"))
	w.role("globalroles", "lent", rule("impersonate", "", "users", "bob"))
	w.bind("globalrolebindings", "all", "", "all", "User:all")
	w.bind("globalrolebindings", "lent", "", "lent", "User:ida")
	w.role("workspaceroles", "manager", rule("*", "apps", "deployments"), rule("get", "", "pods"))
	w.role("clusterroles", "nodes", rule("get,list,watch", "", "nodes"))
	w.role("roles", "n1/operator", rule("get,update", "", "configmaps"))
	w.bind("globalrolebindings", "admins", "", "admin", "User:root", "Group:roots")
	w.bind("globalrolebindings", "users", "", "users", "User:uma")
	w.bind("globalrolebindings", "viewers", "", "viewer", "User:vic")
	w.bind("globalrolebindings", "sometimes", "", "sometimes", "Group:system:authenticated")
	w.bind("workspacerolebindings", "managers", "a", "manager", "Group:dev")
	w.bind("clusterrolebindings", "nodes", "", "nodes", "User:ned")
	w.bind("rolebindings", "n1/operators", "", "operator", "User:ann")
	all, paths := rule("*", "*", "*"), pathRule("*", "*")
	for _, c := range []struct {
		claim   string
		who     user.Info
		at      authz.BindingScope
		rules   []rbacv1.PolicyRule
		missing string // as fmt has it; empty for nothing
	}{
		{"AdminHoldsEverything", person("root"), onPlatform, []rbacv1.PolicyRule{all, paths, rule("escalate", "iam.kubesphere.io", "roles")}, ""},
		{"GroupsCount", person("bob", "roots"), inNamespace("n2"), []rbacv1.PolicyRule{all, paths}, ""},
		{"NobodyHoldsNothing_S10", person("", "roots"), onPlatform, []rbacv1.PolicyRule{rule("get", "", "pods")}, "get  pods"},
		{"NoUserHoldsNothing_S10", nil, onPlatform, []rbacv1.PolicyRule{rule("get", "", "pods")}, "get  pods"},
		{"EmptyGroupHoldsNothing_S10", person("bob", ""), onPlatform, []rbacv1.PolicyRule{rule("get", "", "pods")}, "get  pods"},
		{"NothingIsMissingOfNothing", person("bob"), onPlatform, []rbacv1.PolicyRule{{}, {Verbs: []string{"get"}}, {Resources: []string{"pods"}}}, ""},
		{"OneVerb", person("vic"), inNamespace("n1"), []rbacv1.PolicyRule{rule("get,list,watch", "", "pods,services")}, "watch  pods,services"},
		{"AllVerbsAreCoveredByAllOnly", person("vic"), onPlatform, []rbacv1.PolicyRule{rule("*", "", "pods")}, "*  pods"},
		{"AllGroupsAreCoveredByAllOnly", person("uma"), onPlatform, []rbacv1.PolicyRule{rule("get", "*", "users")}, "get * users"},
		{"AllResourcesAreCoveredByAllOnly", person("uma"), onPlatform, []rbacv1.PolicyRule{rule("get", "iam.kubesphere.io", "*")}, "get iam.kubesphere.io *"},
		{"OtherGroup_S4", person("uma"), onPlatform, []rbacv1.PolicyRule{rule("get", "x.io", "users")}, "get x.io users"},
		{"AllResourcesOfAGroup", person("vic"), onPlatform, []rbacv1.PolicyRule{rule("create", "apps", "deployments,deployments/scale,*/scale,*")}, ""},
		{"NamesThatAreHeld", person("uma"), inNamespace("n2"), []rbacv1.PolicyRule{rule("get", "", "secrets", "b", "a")}, ""},
		{"NamesThatAreNot", person("uma"), inNamespace("n2"), []rbacv1.PolicyRule{rule("get", "", "secrets", "a", "c", "d")}, "get  secrets [c d]"},
		{"AnyName", person("uma"), inNamespace("n2"), []rbacv1.PolicyRule{rule("get", "", "secrets")}, "get  secrets"},
		{"AnEmptyNameIsAnyName_S10", person("uma"), inNamespace("n2"), []rbacv1.PolicyRule{rule("get", "", "secrets", "")}, "get  secrets"},
		{"NameOfAny", person("vic"), onPlatform, []rbacv1.PolicyRule{rule("get", "", "secrets", "a", "")}, ""},
		{"EmptyVerb_S10", person("vic"), onPlatform, []rbacv1.PolicyRule{rule("", "", "pods")}, "  pods"},
		{"EmptyResource_S10", person("ned"), inCluster, []rbacv1.PolicyRule{rule("get", "", "nodes/,")}, "get  nodes/,"},
		{"SubresourceOfAll", person("vic"), onPlatform, []rbacv1.PolicyRule{rule("update", "", "pods/status,*/status,pods/log,pods/exec,*/log")},
			"update  pods/exec,*/log"},
		{"ResourceIsNotItsSubresource", person("vic"), onPlatform, []rbacv1.PolicyRule{rule("update", "", "pods")}, "update  pods"},
		{"PathsThatAreHeld", person("uma"), onPlatform, []rbacv1.PolicyRule{pathRule("get,head,GET", "/logs/a,/logs/a*,/logs/*,/x")}, ""},
		{"PathsThatAreNot", person("uma"), onPlatform, []rbacv1.PolicyRule{pathRule("get,post", "/logs*,/x,/x*,*,")},
			"get,post /logs*; post /x; get,post /x*; get,post *; get,post "},
		{"PlatformHoldsEverywhere", person("vic"), inWorkspace("a"), []rbacv1.PolicyRule{rule("get", "", "pods")}, ""},
		{"WorkspaceHoldsInItself", person("bob", "dev"), inWorkspace("a"), []rbacv1.PolicyRule{rule("delete", "apps", "deployments")}, ""},
		{"WorkspaceHoldsInItsNamespace", person("bob", "dev"), inNamespace("n1"), []rbacv1.PolicyRule{rule("delete", "apps", "deployments")}, ""},
		{"WorkspaceHoldsNothingInOthers", person("bob", "dev"), inNamespace("n2"), []rbacv1.PolicyRule{rule("get", "", "pods")}, "get  pods"},
		{"WorkspaceHoldsNothingAbove", person("bob", "dev"), inCluster, []rbacv1.PolicyRule{rule("get", "", "pods")}, "get  pods"},
		{"ClusterHoldsInNamespaces", person("ned"), inNamespace("n1"), []rbacv1.PolicyRule{rule("get", "", "nodes")}, ""},
		{"ClusterHoldsInWorkspaces", person("ned"), inWorkspace("b"), []rbacv1.PolicyRule{rule("get", "", "nodes")}, ""},
		{"ClusterHoldsNothingOnThePlatform", person("ned"), onPlatform, []rbacv1.PolicyRule{rule("get", "", "nodes")}, "get  nodes"},
		{"NamespaceHoldsInItself", person("ann"), inNamespace("n1"), []rbacv1.PolicyRule{rule("get,update", "", "configmaps")}, ""},
		{"NamespaceHoldsNothingInItsWorkspace", person("ann"), inWorkspace("a"), []rbacv1.PolicyRule{rule("get", "", "configmaps")}, "get  configmaps"},
		{"NoWorkspaceIsNoPlace_S10", person("bob", "dev"), inWorkspace(""), []rbacv1.PolicyRule{rule("get", "", "pods")}, "get  pods"},
		{"WhatAConditionRestrictsIsNotHeld", person("bob", "system:authenticated"), onPlatform, []rbacv1.PolicyRule{rule("get", "iam.kubesphere.io", "users", "bob")},
			"get iam.kubesphere.io users [bob]"},
		{"AllVerbsAreNoRightToEscalate", person("uma"), onPlatform, []rbacv1.PolicyRule{rule("update,escalate,bind", "iam.kubesphere.io", "globalroles")},
			"escalate,bind iam.kubesphere.io globalroles"},
		{"AllVerbsAreNoRightToImpersonate", person("all"), onPlatform, []rbacv1.PolicyRule{rule("get,impersonate", "", "users,groups,serviceaccounts")},
			"impersonate  users,groups,serviceaccounts"},
		{"NorByAMode", person("all"), onPlatform, []rbacv1.PolicyRule{rule("impersonate:user-info", "authentication.k8s.io", "users", "root")},
			"impersonate:user-info authentication.k8s.io users [root]"},
		{"NorOnAnObject", person("all"), onPlatform, []rbacv1.PolicyRule{rule("impersonate-on:user-info:get", "", "pods")}, "impersonate-on:user-info:get  pods"},
		{"NorByAnyVerbThatIsToCome", person("all"), onPlatform, []rbacv1.PolicyRule{rule("lend", "", "users")}, "lend  users"},
		{"NorOfAllKinds", person("all"), onPlatform, []rbacv1.PolicyRule{rule("lend", "", "*")}, "lend  *"},
		{"TheyAreTheVerbsOfOtherKinds", person("all"), onPlatform, []rbacv1.PolicyRule{rule("approve", "", "pods"), rule("*", "", "users"),
			rule("proxy", "", "groups")}, ""},
		{"ImpersonationByItsName", person("ida"), onPlatform, []rbacv1.PolicyRule{rule("impersonate", "", "users", "bob")}, ""},
		{"ImpersonationOfAnother", person("ida"), onPlatform, []rbacv1.PolicyRule{rule("impersonate", "", "users", "root")}, "impersonate  users [root]"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := text(w.index.Missing(c.who, c.at, c.rules)); got != c.missing {
				t.Errorf("missing %q, want %q", got, c.missing)
			}
		})
	}
}

func text(rules []rbacv1.PolicyRule) string {
	var out []string
	for _, r := range rules {
		s := strings.Join(r.Verbs, ",") + " "
		if len(r.NonResourceURLs) > 0 {
			s += strings.Join(r.NonResourceURLs, ",")
		} else {
			s += strings.Join(r.APIGroups, ",") + " " + strings.Join(r.Resources, ",")
		}
		if len(r.ResourceNames) > 0 {
			s += " " + fmt.Sprint(r.ResourceNames)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func TestMissingOfARole(t *testing.T) {
	w := newWorld(t)
	w.namespace("n1", "a")
	w.role("globalroles", "r", rule("get,list", "", "pods,secrets"), rule("create", "", "pods"), pathRule("GET", "/x*"))
	w.role("roles", "n1/r", rule("get", "", "pods"))
	w.condition("globalroles", "self", `request.name == user.name`, rule("update", "iam.kubesphere.io", "users"))
	w.condition("globalroles", "broken", `(`, rule("get", "", "pods"))
	w.set("globalroles", "", "rego", map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{"iam.kubesphere.io/rego-override": "package authz"}},
		"rules":    []any{rule("get", "", "pods")},
	})
	w.role("globalroles", "pods", rule("*", "", "pods"))
	w.role("globalroles", "admin", rule("*", "*", "*"))
	w.bind("globalrolebindings", "pods", "", "pods", "User:pat")
	w.bind("globalrolebindings", "admin", "", "admin", "User:root")
	for _, c := range []struct {
		claim, who string
		role       authz.RoleRef
		found      bool
		missing    string
	}{
		{"WhatIsHeldIsLeftOut", "pat", authz.RoleRef{Name: "r"}, true, "get,list  secrets; get /x*"},
		{"RoleOfTheNamespace", "pat", authz.RoleRef{Scope: request.Namespace, Namespace: "n1", Name: "r"}, true, ""},
		{"RoleOfAnotherNamespace", "pat", authz.RoleRef{Scope: request.Namespace, Namespace: "n2", Name: "r"}, false, ""},
		{"NoSuchRole", "pat", authz.RoleRef{Scope: request.Cluster, Name: "r"}, false, ""},
		{"ABoundRoleThatIsNotThere", "root", authz.RoleRef{Name: "gone"}, false, ""},
		{"ARoleThatCantBeRead", "root", authz.RoleRef{Name: "broken"}, false, ""},
		{"AConditionTakesNothingOff", "pat", authz.RoleRef{Name: "self"}, true, "update iam.kubesphere.io users"},
		{"RegoStandsForEverything", "pat", authz.RoleRef{Name: "rego"}, true, "* * *"},
		{"RegoOfWhoHoldsEverything", "root", authz.RoleRef{Name: "rego"}, true, ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			w.bind("globalrolebindings", "gone", "", "gone", "User:x")
			missing, found := w.index.MissingOf(person(c.who), authz.BindingScope{Scope: c.role.Scope, Namespace: c.role.Namespace}, c.role)
			if got := text(missing); got != c.missing || found != c.found {
				t.Errorf("missing %q, found %v; want %q, %v", got, found, c.missing, c.found)
			}
		})
	}
}

func TestHoldsVerb(t *testing.T) {
	w := newWorld(t)
	w.namespace("n1", "a")
	w.role("globalroles", "admin", rule("*", "*", "*"))
	w.role("globalroles", "manager", rule("*", "iam.kubesphere.io", "*"))
	w.role("globalroles", "native", rule("escalate", "rbac.authorization.k8s.io", "*"))
	w.role("globalroles", "named", rule("escalate", "iam.kubesphere.io", "globalroles", "a"))
	w.role("workspaceroles", "binder", rule("*,bind", "*", "*"))
	w.condition("globalroles", "sometimes", `true`, rule("escalate", "iam.kubesphere.io", "*"))
	for role, who := range map[string]string{"admin": "root", "manager": "max", "native": "nat", "named": "nina", "sometimes": "sam"} {
		w.bind("globalrolebindings", role, "", role, "User:"+who)
	}
	w.bind("workspacerolebindings", "b", "a", "binder", "User:bob")
	for _, c := range []struct {
		claim, who           string
		at                   authz.BindingScope
		verb, resource, name string
		holds                bool
	}{
		{"WhoHoldsEverything", "root", inNamespace("n1"), "escalate", "roles", "r", true},
		{"NotByAllVerbs", "max", onPlatform, "escalate", "globalroles", "a", false},
		{"Everything", "root", inNamespace("n1"), "*", "*", "", true},
		{"EverythingByAllVerbsOnOurKinds", "max", onPlatform, "*", "*", "", false},
		{"NotByAnotherGroup", "nat", onPlatform, "escalate", "globalroles", "a", false},
		{"ByName", "nina", onPlatform, "escalate", "globalroles", "a", true},
		{"OfAnotherName", "nina", onPlatform, "escalate", "globalroles", "b", false},
		{"OfAllNames", "nina", onPlatform, "escalate", "globalroles", "", false},
		{"OfAnotherVerb", "nina", onPlatform, "bind", "globalroles", "a", false},
		{"ByACondition", "sam", onPlatform, "escalate", "globalroles", "a", false},
		{"ThereOnly", "bob", inWorkspace("b"), "bind", "workspaceroles", "r", false},
		{"There", "bob", inWorkspace("a"), "bind", "workspaceroles", "r", true},
		{"InItsNamespaces", "bob", inNamespace("n1"), "bind", "roles", "r", true},
		{"NoVerb_S10", "root", onPlatform, "", "roles", "r", false},
		{"NoResource_S10", "root", onPlatform, "bind", "", "r", false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			if got := w.index.HoldsVerb(person(c.who), c.at, c.verb, c.resource, c.name); got != c.holds {
				t.Errorf("%v", got)
			}
		})
	}
	if w.index.HoldsVerb(nil, onPlatform, "bind", "roles", "r") {
		t.Error("nobody holds it")
	}
}

// A comparison that takes too many steps reports the whole rule as missing, and only some of the missing rules are returned: the size of the answer has its
// own bound.
func TestMissingIsBounded(t *testing.T) {
	w := newWorld(t)
	w.role("globalroles", "r", rule("get", "", "pods"))
	w.bind("globalrolebindings", "b", "", "r", "User:bob")
	var many []string
	for n := range 2000 {
		many = append(many, fmt.Sprint("r", n))
	}
	huge := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: many, Resources: many, ResourceNames: many[:10]}}
	if got := w.index.Missing(person("bob"), onPlatform, huge); len(got) == 0 || len(got) > coverMissing {
		t.Errorf("%d are missing", len(got))
	}
	w.role("globalroles", "r", rule("get", "*", "*"))
	if got := w.index.Missing(person("bob"), onPlatform, huge); len(got) != 1 || len(got[0].Resources) != len(many) {
		t.Errorf("%d are missing: what was not compared is not held", len(got))
	}
}

// naiveCovers is Kubernetes' own escalation check by its documentation: every atom of the rules has a rule that covers it.
func naiveCovers(held, wanted []rbacv1.PolicyRule) bool {
	everything := slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool {
		return slices.Contains(h.Verbs, "*") && slices.Contains(h.APIGroups, "*") && slices.Contains(h.Resources, "*") && len(h.ResourceNames) == 0
	})
	one := func(verb, group, resource, name string) bool {
		return slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool {
			_, sub, _ := strings.Cut(resource, "/")
			named := slices.Contains(h.Verbs, verb)
			return (named && verb != "" || slices.Contains(h.Verbs, "*") && (verb != "bind" && verb != "impersonate" || everything)) &&
				(slices.Contains(h.APIGroups, group) || slices.Contains(h.APIGroups, "*")) &&
				(resource != "" && !strings.HasSuffix(resource, "/") && slices.Contains(h.Resources, resource) || slices.Contains(h.Resources, "*") ||
					sub != "" && slices.Contains(h.Resources, "*/"+sub)) &&
				(len(h.ResourceNames) == 0 || name != "" && slices.Contains(h.ResourceNames, name))
		})
	}
	onPath := func(verb, path string) bool {
		return slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool {
			return slices.ContainsFunc(h.Verbs, func(v string) bool { v = strings.ToLower(v); return v == "*" || v == strings.ToLower(verb) && v != "" }) &&
				slices.ContainsFunc(h.NonResourceURLs, func(u string) bool {
					return u != "" && path != "" && (u == path || strings.HasSuffix(u, "*") && strings.HasPrefix(path, strings.TrimSuffix(u, "*")))
				})
		})
	}
	for _, rule := range wanted {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range rule.Verbs {
			for _, path := range rule.NonResourceURLs {
				if !onPath(verb, path) {
					return false
				}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						if !one(verb, group, resource, name) {
							return false
						}
					}
				}
			}
		}
	}
	return true
}

// held returns the rules of the model that u holds at a scope.
func (m *model) held(u user.Info, at authz.BindingScope) (rules []rbacv1.PolicyRule) {
	if u.GetName() == "" {
		return nil
	}
	workspace := at.Workspace
	if at.Scope == request.Namespace {
		workspace = m.namespaces[at.Namespace]
	}
	for scope, bindings := range m.bindings {
		for name, b := range bindings {
			namespace, _ := split(name)
			role := b.role
			if namespace != "" {
				role = namespace + "/" + role
			}
			applies := map[string]bool{
				"globalrolebindings":    true,
				"clusterrolebindings":   at.Scope != request.Global,
				"workspacerolebindings": workspace != "" && b.workspace == workspace && (at.Scope == request.Workspace || at.Scope == request.Namespace),
				"rolebindings":          at.Scope == request.Namespace && namespace == at.Namespace,
			}[scope]
			if applies && b.binds(u) {
				rules = append(rules, m.roles[strings.TrimSuffix(scope, "bindings")+"s"][role]...)
			}
		}
	}
	return rules
}

func (c chance) place() authz.BindingScope {
	return [...]authz.BindingScope{onPlatform, inCluster, inWorkspace(c.workspace()), inNamespace(c.namespace())}[c.IntN(4)]
}

// at returns a request that is made at a scope.
func (c chance) at(p authz.BindingScope) *request.Info {
	switch p.Scope {
	case request.Workspace:
		return ask(c.verb(), c.group()+"/"+c.resource()+"/"+c.sub(), c.name(), "ws:"+p.Workspace)
	case request.Namespace:
		return ask(c.verb(), c.group()+"/"+c.resource()+"/"+c.sub(), c.name(), "ns:"+p.Namespace)
	}
	r := c.request()
	r.Scope, r.Workspace, r.Namespace = p.Scope, "", ""
	return r
}

// Missing agrees with the naive check; and a user who misses nothing may do everything that the rules allow.
func TestMissingIsWhatTheNaiveCheckSays(t *testing.T) {
	covered, asked := 0, 0
	for seed := range uint64(40) {
		c := chance{rand.New(rand.NewPCG(seed, 11))}
		m, w := newModel(), newWorld(t)
		for range 60 {
			for range 4 {
				c.change(m, w)
			}
			for range 10 {
				u, at, rules := c.caller(), c.place(), c.rules()
				if c.IntN(2) == 0 && len(rules) > 1 {
					rules = rules[:1]
				}
				if len(rules) > 0 && c.IntN(4) == 0 {
					rules[0].Verbs = append(rules[0].Verbs, "bind")
				}
				want := naiveCovers(m.held(u, at), rules)
				got := w.index.Missing(u, at, rules)
				if len(rules) > 0 {
					asked++
					if want {
						covered++
					}
				}
				if (len(got) == 0) != want {
					t.Fatalf("seed %d: %v %s misses %q of %q, covered %v\nheld %q", seed, u, at, text(got), text(rules), want, text(m.held(u, at)))
				}
				if want && u.GetName() != "" {
					if r := c.at(at); naiveAllows(rules, r) && !w.decide(u, r).Allowed() {
						t.Fatalf("seed %d: %v misses nothing of %q %s, and may not %+v", seed, u, text(rules), at, *r)
					}
				}
			}
		}
	}
	if covered < asked/50 {
		t.Errorf("%d of %d were covered: the test has lost its point", covered, asked)
	}
}

// The rules that the index returns grant what the role's own do.
func TestPolicyGrantsWhatTheRulesDo(t *testing.T) {
	for seed := range uint64(2000) {
		c := chance{rand.New(rand.NewPCG(seed, 13))}
		rules := c.rules()
		s := newRules(rules)
		back := newRules(s.policy())
		for range 20 {
			r := c.request()
			b := bit(r.Verb)
			if s.allow(r, b) != back.allow(r, b) {
				t.Fatalf("seed %d: %q is not %q for %+v", seed, text(rules), text(s.policy()), *r)
			}
			match := s.match(r, b)
			if (match != nil) != s.allow(r, b) || match != nil && !naiveAllows([]rbacv1.PolicyRule{*match}, r) {
				t.Fatalf("seed %d: %v is the rule of %q for %+v", seed, match, text(rules), *r)
			}
		}
	}
}
