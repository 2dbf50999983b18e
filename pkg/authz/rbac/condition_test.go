package rbac

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

func TestConditionHoldsForThisRequestOnly(t *testing.T) {
	self := ask("update", "iam.kubesphere.io/users", "bob", "global")
	other := ask("update", "iam.kubesphere.io/users", "admin", "global")
	bob := &user.DefaultInfo{Name: "bob", UID: "42", Groups: []string{"dev"}, Extra: map[string][]string{"team": {"red"}}}
	for _, c := range []struct {
		claim, expression string
		who               user.Info
		what              *request.Info
		allowed           bool
	}{
		{"OwnObject", `request.name == user.name`, bob, self, true},
		{"OthersObject", `request.name == user.name`, bob, other, false},
		{"Verb", `request.verb in ["get", "update"]`, bob, self, true},
		{"EveryStringIsThere", `request.cluster + request.workspace + request.namespace + request.subresource + request.path + request.apiVersion == "" && request.apiGroup == "iam.kubesphere.io" && request.resource == "users" && user.uid == "42"`, bob, self, true},
		{"IsResource", `request.isResource`, bob, self, true},
		{"Groups", `"dev" in user.groups`, bob, self, true},
		{"GroupsByMacro", `user.groups.exists(g, g.startsWith("de"))`, bob, self, true},
		{"NoGroups", `user.groups.size() == 0 && user.extra.size() == 0`, person("bob"), self, true},
		{"Extra", `user.extra["team"][0] == "red"`, bob, self, true},
		{"MissingExtraIsAnError", `user.extra["team"][0] == "red"`, person("bob"), self, false},
		{"MissingExtraCanBeAskedFor", `"team" in user.extra && user.extra["team"][0] == "red"`, person("bob"), self, false},
		{"CostIsBounded", `[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a+b+c+d+e > 0)))))`, bob, self, false},
		{"Unknown", `request.nmae == user.name`, bob, self, false},
		{"WholeObjectIsNoValue", `request == user`, bob, self, false},
		{"TypesAreChecked", `request.name == 1`, bob, self, false},
		{"NoTruthValue", `user.name`, bob, self, false},
		{"NoExpression", ``, bob, self, false},
		{"NoSyntax", `request.name = "x"`, bob, self, false},
		{"APattern", `request.resource.matches("^(users|groups)$") && request.name.matches("^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")`, bob, self, true},
		{"APatternThatDoesNotMatch", `matches(request.name, "^x")`, bob, self, false},
		{"APatternIsNoVariable", `request.path.matches(user.name)`, bob, self, false},
		{"APatternIsNotPutTogether", `request.name.matches("b" + "o" + user.name)`, bob, self, false},
		{"APatternIsNotChosen", `user.groups.exists(g, request.name.matches(g))`, bob, self, false},
		{"APatternDoesNotGrow", `request.name.matches("^(.{1,30}){0,30}$")`, bob, self, false},
		{"APatternIsOne", `request.name.matches("(")`, bob, self, false},
		{"APatternWithinAMacro", `user.groups.exists(g, g.matches("^(([a-z]{9}){9}){9}|d"))`, bob, self, false},
		{"TooLong", `"` + strings.Repeat("a", conditionLength) + `" != user.name`, bob, self, false},
		{"TooDeep", strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000), bob, self, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			w := newWorld(t)
			w.condition("globalroles", "self", c.expression, rule("get,update", "iam.kubesphere.io", "users"))
			w.bind("globalrolebindings", "self", "", "self", "User:bob")
			d := w.decide(c.who, c.what)
			if d.Allowed() != c.allowed {
				t.Fatalf("got %+v", d)
			}
			if d.Allowed() && d.Group != "kapis:conditional:global:self" {
				t.Errorf("asserts the group %q", d.Group)
			}
			if w.decide(c.who, ask("delete", "iam.kubesphere.io/users", "bob", "global")).Allowed() {
				t.Error("a condition widened the rules")
			}
		})
	}
}

// A cost that can't exceed the bound need not be counted; any other is.
func TestCostIsCountedUnlessItIsBoundedByWhatIsRead(t *testing.T) {
	c, err := newConditions()
	if err != nil {
		t.Fatal(err)
	}
	for expression, cheap := range map[string]bool{
		`request.name == user.name`: true,
		`request.verb in ["get", "list"] && request.path.startsWith("/kapis/x/" + user.name)`: true,
		`"dev" in user.groups`:                                       false,
		`user.groups.exists(g, g == user.name)`:                      false,
		`user.extra["team"][0] == "red"`:                             true,
		`request.path.matches(user.name)`:                            false,
		`request.path.matches("^(/[a-z]+)+/pods")`:                   true,
		strings.Repeat(`request.path != user.name && `, 14) + "true": false,
		`[1,2,3].all(a, [1,2,3].all(b, a < b))`:                      true,
		`[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, a+b+c+d > 0))))`: false,
	} {
		ast, issues := c.env.Compile(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		if got := c.isCheap(ast); got != cheap {
			t.Errorf("%s: %v, want %v", expression, got, cheap)
		}
	}
}

// S70. A list whose elements hold each other costs little to make, and takes practically forever to compare.
func TestConditionMakesNoValuesThatHoldEachOther(t *testing.T) {
	c, err := newConditions()
	if err != nil {
		t.Fatal(err)
	}
	doubled := strings.Repeat(".map(a, [a, a])", 40)
	for name, expression := range map[string]string{
		"Compared":   "[0]" + doubled + " == [0]" + doubled,
		"Contained":  "[0]" + doubled + " in [[0]" + doubled + "]",
		"OfGroups":   "user.groups" + doubled + " == user.groups" + doubled,
		"OfMaps":     "[0]" + strings.Repeat(`.map(a, {"x": a, "y": a})`, 40) + " == []",
		"OfUserData": "[user.extra]" + doubled + " == []",
	} {
		if _, err := c.compile(expression); err == nil || !strings.Contains(err.Error(), "simple value") {
			t.Errorf("%s: compiled, error %v", name, err)
		}
	}
	for _, expression := range []string{`["a", user.name].exists(x, x == request.name)`, `user.groups.filter(g, g != "x").map(g, g + "-admin") == ["dev-admin"]`,
		`[[1], [2]] == [[1], [2]]`} {
		if _, err := c.compile(expression); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

func TestConditionIsWithdrawn(t *testing.T) {
	w := newWorld(t)
	r := ask("get", "/pods", "p", "ns:n")
	w.bind("globalrolebindings", "b", "", "role", "User:bob")
	w.condition("globalroles", "role", `user.name == "bob"`, rule("get", "", "pods"))
	if d := w.decide(person("bob"), r); !d.Allowed() || d.Group != "kapis:conditional:global:role" {
		t.Fatalf("got %+v", d)
	}
	w.condition("globalroles", "role", `user.name ==`, rule("get", "", "pods"))
	if w.decide(person("bob"), r).Allowed() {
		t.Error("a role whose condition is broken granted its rules")
	}
	w.role("globalroles", "role", rule("get", "", "pods"))
	if d := w.decide(person("bob"), r); !d.Allowed() || d.Group != "kapis:global:role" {
		t.Errorf("without a condition: %+v", d)
	}
}

func TestRoleWithAnUnmetConditionDoesNotHideAnother(t *testing.T) {
	w := newWorld(t)
	w.condition("globalroles", "never", `false`, rule("*", "*", "*"))
	w.role("globalroles", "plain", rule("get", "", "pods"))
	for _, role := range []string{"never", "plain", "never"} {
		w.bind("globalrolebindings", "b-"+role, "", role, "User:bob")
	}
	if d := w.decide(person("bob"), ask("get", "/pods", "p", "ns:n")); !d.Allowed() || d.Group != "kapis:global:plain" {
		t.Errorf("got %+v", d)
	}
}

// S7: the group of a role with a condition is no right to all that its rules name, so whoever has another role as well acts by that one.
func TestARoleWithoutAConditionIsPreferred(t *testing.T) {
	whole, never := rule("get,update", "", "namespaces"), rule("get", "", "pods")
	for _, c := range []struct {
		name string
		bind func(w *world)
		want string
	}{
		{"OfTheSameUser", func(w *world) { w.bind("globalrolebindings", "a", "", "plain", "User:bob") }, "kapis:global:plain"},
		{"OfAGroup", func(w *world) { w.bind("globalrolebindings", "a", "", "plain", "Group:dev") }, "kapis:global:plain"},
		{"InTheWorkspace", func(w *world) { w.bind("workspacerolebindings", "a", "ws", "plain", "Group:dev") }, "kapis:workspace:ws:plain"},
		{"InTheNamespace", func(w *world) { w.bind("rolebindings", "dev-1/a", "", "plain", "Group:dev") }, "kapis:namespace:plain"},
		{"InTheCluster", func(w *world) { w.bind("clusterrolebindings", "a", "", "plain", "User:bob") }, "kapis:cluster:plain"},
		{"WithoutARuleForIt", func(w *world) { w.bind("globalrolebindings", "a", "", "other", "User:bob") }, "kapis:conditional:global:some"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, first := range []bool{true, false} {
				w := newWorld(t)
				w.namespace("dev-1", "ws")
				w.condition("globalroles", "some", `request.namespace.startsWith("dev-")`, whole)
				for resource, name := range map[string]string{
					"globalroles": "plain", "workspaceroles": "plain", "roles": "dev-1/plain", "clusterroles": "plain",
				} {
					w.role(resource, name, whole)
				}
				w.role("globalroles", "other", never)
				if first {
					c.bind(w)
				}
				w.bind("globalrolebindings", "some", "", "some", "User:bob")
				if !first {
					c.bind(w)
				}
				u, r := person("bob", "dev"), ask("update", "/namespaces", "dev-1", "ns:dev-1")
				d := w.decide(u, r)
				if !d.Allowed() || d.Group != c.want {
					t.Errorf("got %+v, want %s", d, c.want)
				}
				if grants := w.index.Explain(u, r); len(grants) != 2 || !grants[0].Held || grants[0].Why != d.Reason {
					t.Errorf("explained by %+v, decided by %s", grants, d.Reason)
				}
			}
		})
	}
}

// S6: a condition, or a policy, that names a group of an identity provider does not hold for a Group that a workspace has made with that
// name, except in roles of that workspace and its namespaces, where it may be bound too.
func TestAConditionNamesGroupsOfItsOwnWorkspaceAlone(t *testing.T) {
	p := newPolicies(t)
	reported := false
	p.index.GroupsIn(func(workspace string, u user.Info) []string {
		if workspace == "a" || reported {
			return u.GetGroups()
		}
		return []string{user.AllAuthenticated}
	})
	p.index.CompilePolicies(func(string) (Policy, error) { return inSRE{}, nil })
	p.namespace("ns-a", "a")
	p.namespace("ns-b", "b")
	const sre = `"sre" in user.groups`
	p.condition("globalroles", "ops", sre, rule("get,list", "", "pods"))
	p.policy("globalroles", "old", "x", rule("get", "", "nodes"))
	p.condition("workspaceroles", "dev", sre, rule("get,list", "", "services"))
	p.condition("roles", "ns-a/view", sre, rule("get", "", "secrets"))
	p.bind("globalrolebindings", "ops", "", "ops", "User:bob")
	p.bind("globalrolebindings", "old", "", "old", "User:bob")
	p.bind("workspacerolebindings", "dev-a", "a", "dev", "User:bob")
	p.bind("workspacerolebindings", "dev-b", "b", "dev", "User:bob")
	p.bind("rolebindings", "ns-a/view", "", "view", "User:bob")
	bob := person("bob", "sre", user.AllAuthenticated)
	for _, c := range []struct {
		resource, namespace string
		elsewhere           bool // where the provider reports the group
		want                bool
	}{
		{"pods", "ns-a", false, false}, {"pods", "ns-a", true, true}, {"configmaps", "ns-a", false, false}, {"configmaps", "ns-a", true, true},
		{"services", "ns-a", false, true}, {"services", "ns-b", false, false}, {"services", "ns-b", true, true}, {"secrets", "ns-a", false, true},
	} {
		reported = c.elsewhere
		r := ask("get", "/"+c.resource, "x", "ns:"+c.namespace)
		if got := p.decide(bob, r).Allowed(); got != c.want {
			t.Errorf("%s in %s, reported %t: %t", c.resource, c.namespace, reported, got)
		}
	}
	// Partial lists are cached, for sessions whose providers report the same, and until a Group is another workspace's.
	seen := func(want ...string) {
		t.Helper()
		var got []string
		if l := p.decide(bob, requesttest.Info(t, "GET", "/kapi/v1/services")).PartialList(); l != nil {
			got = l.Namespaces
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	reported = false
	seen("ns-a")
	reported = true
	seen("ns-a", "ns-b")
	reported = false
	seen("ns-a")
	p.index.GroupsIn(func(string, user.Info) []string { return []string{user.AllAuthenticated} })
	p.index.GroupsChanged()
	seen()
}

// inSRE is a policy that allows everything to a group.
type inSRE struct{}

func (inSRE) Allows(_ context.Context, u user.Info, r *request.Info) (bool, error) {
	return slices.Contains(u.GetGroups(), "sre") && r.Resource == "configmaps", nil
}
