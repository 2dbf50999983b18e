package rbac

import (
	"context"
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// verbPolicy is a policy that allows the verb that its text is, and fails at the verb "fail".
type verbPolicy struct {
	verb  string
	asked *int
}

func (p verbPolicy) Allows(_ context.Context, _ user.Info, r *request.Info) (bool, error) {
	*p.asked++
	if r.Verb == "fail" {
		return true, errors.New("it failed")
	}
	return r.Verb == p.verb, nil
}

// policies is a world in which roles grant by policies too; compiled and asked count.
type policies struct {
	*world
	compiled, asked int
}

func newPolicies(t testing.TB) *policies {
	p := &policies{world: newWorld(t)}
	p.index.CompilePolicies(func(text string) (Policy, error) {
		p.compiled++
		if text == "broken" {
			return nil, errors.New("it is broken")
		}
		return verbPolicy{text, &p.asked}, nil
	})
	return p
}

func (p *policies) policy(resource, name, text string, rules ...rbacv1.PolicyRule) {
	p.t.Helper()
	namespace, name := split(name)
	p.set(resource, namespace, name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{"iam.kubesphere.io/rego-override": text}},
		"rules":    rules,
	})
}

// leaving is a policy that allows everything, while its role is deleted.
type leaving struct{ leave func() }

func (p leaving) Allows(context.Context, user.Info, *request.Info) (bool, error) {
	p.leave()
	return true, nil
}

func TestARoleMayGoWhileItsPolicyIsAsked(t *testing.T) {
	for name, leave := range map[string]func(*policies){
		"TheRole":       func(p *policies) { p.sink("globalroles").Delete("", "r") },
		"ItsPolicyOnly": func(p *policies) { p.set("globalroles", "", "r", map[string]any{}) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicies(t)
			p.index.CompilePolicies(func(string) (Policy, error) { return leaving{func() { leave(p) }}, nil })
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
			d := p.decide(person("bob"), &request.Info{Verb: "get", Resource: "nodes", Name: "n", IsResource: true, Scope: request.Global})
			if !d.Allowed() || d.Group != "kapis:conditional:global:r" {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestAPolicyGrantsBesideTheRules(t *testing.T) {
	pods := func(verb string) *request.Info {
		return &request.Info{Verb: verb, Resource: "pods", Namespace: "n", Name: "p", IsResource: true, Scope: request.Namespace}
	}
	users := func(verb string) *request.Info {
		return &request.Info{Verb: verb, APIGroup: "iam.kubesphere.io", Resource: "users", Name: "bob", IsResource: true, Scope: request.Global}
	}
	for name, tc := range map[string]struct {
		make  func(*policies)
		r     *request.Info
		group string // empty where it is refused
	}{
		"ByPolicy": {func(p *policies) {
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
		}, users("get"), "kapis:conditional:global:r"},
		"NotByPolicy": {func(p *policies) {
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
		}, users("delete"), ""},
		"ByRuleOfTheSameRole": {func(p *policies) {
			p.policy("globalroles", "r", "get", rule("get", "", "pods"))
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
		}, pods("get"), "kapis:global:r"},
		"ByRuleOfANarrowerRoleFirst": {func(p *policies) {
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
			p.role("roles", "n/viewer", rule("get", "", "pods"))
			p.bind("rolebindings", "n/b", "", "viewer", "User:bob")
		}, pods("get"), "kapis:namespace:viewer"},
		"OfANamespace": {func(p *policies) {
			p.policy("roles", "n/r", "get")
			p.bind("rolebindings", "n/b", "", "r", "User:bob")
		}, pods("get"), "kapis:conditional:namespace:n:r"},
		"OfAnotherNamespace": {func(p *policies) {
			p.policy("roles", "m/r", "get")
			p.bind("rolebindings", "m/b", "", "r", "User:bob")
		}, pods("get"), ""},
		"OfTheWorkspaceOfANamespace": {func(p *policies) {
			p.namespace("n", "w")
			p.policy("workspaceroles", "r", "get")
			p.bind("workspacerolebindings", "b", "w", "r", "User:bob")
		}, pods("get"), "kapis:conditional:workspace:r"},
		"OfTheClusterNotForThePlatform": {func(p *policies) {
			p.policy("clusterroles", "r", "get")
			p.bind("clusterrolebindings", "b", "", "r", "User:bob")
		}, users("get"), ""},
		"OfAGroup": {func(p *policies) {
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "Group:devs")
		}, users("get"), "kapis:conditional:global:r"},
		"OfSomebodyElse": {func(p *policies) {
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "User:eve")
		}, users("get"), ""},
		"FailingGrantsNothing": {func(p *policies) {
			p.policy("globalroles", "r", "fail")
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
		}, users("fail"), ""},
		"BrokenLeavesTheRules": {func(p *policies) {
			p.policy("globalroles", "r", "broken", rule("get", "", "pods"))
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
		}, pods("get"), "kapis:global:r"},
		"BrokenGrantsNothing": {func(p *policies) {
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
			p.policy("globalroles", "r", "broken")
		}, users("get"), ""},
		"OfARoleThatIsGone": {func(p *policies) {
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
			p.sink("globalroles").Delete("", "r")
		}, users("get"), ""},
		"TakenOutOfTheRole": {func(p *policies) {
			p.policy("globalroles", "r", "get")
			p.bind("globalrolebindings", "b", "", "r", "User:bob")
			p.role("globalroles", "r")
		}, users("get"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicies(t)
			tc.make(p)
			u := &user.DefaultInfo{Name: "bob", Groups: []string{"devs"}}
			d, err := p.index.Authorize(t.Context(), u, tc.r)
			if err != nil || d.Allowed() != (tc.group != "") || d.Group != tc.group {
				t.Errorf("decision %+v, error %v, want the group %q", d, err, tc.group)
			}
			grants := p.index.Explain(u, tc.r)
			if held := len(grants) > 0 && grants[0].Held; held != d.Allowed() || held && grants[0].Why != d.Reason {
				t.Errorf("explained as %+v, decided %+v", grants, d)
			}
		})
	}
}

func TestAPolicyIsAskedOnce(t *testing.T) {
	p := newPolicies(t)
	p.policy("globalroles", "r", "get")
	p.bind("globalrolebindings", "a", "", "r", "User:bob", "Group:devs")
	p.bind("globalrolebindings", "b", "", "r", "User:bob", "Group:devs")
	r := &request.Info{Verb: "delete", Resource: "pods", IsResource: true, Scope: request.Global}
	if _, err := p.index.Authorize(t.Context(), &user.DefaultInfo{Name: "bob", Groups: []string{"devs"}}, r); err != nil {
		t.Fatal(err)
	}
	if p.asked != 1 {
		t.Errorf("asked %d times", p.asked)
	}
}

func TestAPolicyIsCompiledWhereItsTextChanges(t *testing.T) {
	p := newPolicies(t)
	p.policy("globalroles", "r", "get")
	p.policy("globalroles", "r", "get", rule("get", "", "pods"))
	if p.compiled != 1 {
		t.Errorf("compiled %d times for one text", p.compiled)
	}
	p.policy("globalroles", "r", "list")
	if p.compiled != 2 {
		t.Errorf("compiled %d times for two texts", p.compiled)
	}
	if n := p.index.policies.Load(); n != 1 {
		t.Errorf("%d roles with a policy", n)
	}
	p.sink("globalroles").Delete("", "r")
	if n := p.index.policies.Load(); n != 0 {
		t.Errorf("%d roles with a policy are left", n)
	}
}

func TestRolesWithTheSamePolicyShareIt(t *testing.T) {
	p := newPolicies(t)
	for _, ns := range []string{"a", "b", "c"} {
		p.policy("roles", ns+"/viewer", "get")
		p.bind("rolebindings", ns+"/x", "", "viewer", "User:ann")
	}
	if p.compiled != 1 {
		t.Errorf("compiled %d times", p.compiled)
	}
	d := p.decide(person("ann"), ask("get", "/pods", "x", "ns:b"))
	if want := "kapis:conditional:namespace:b:viewer"; !d.Allowed() || d.Group != want {
		t.Errorf("%+v, want the group %s of the very role", d, want)
	}
	p.policy("roles", "b/viewer", "delete") // of one alone
	if p.decide(person("ann"), ask("get", "/pods", "x", "ns:b")).Allowed() || !p.decide(person("ann"), ask("get", "/pods", "x", "ns:c")).Allowed() {
		t.Error("the policy of one role is that of another")
	}
}

// S1: the policy that every user has in existing installations, which lets them ask what they are members of, shows no one what others have.
func TestAPolicyShowsNobodyTheWorkspacesOfOthers(t *testing.T) {
	p := newPolicies(t)
	p.policy("globalroles", "everybody", "get")
	p.bind("globalrolebindings", "everybody", "", "everybody", "User:ann")
	for what, want := range map[string]bool{"tenant.kubesphere.io/workspaces": false, "tenant.kubesphere.io/namespaces": false, "apps/deployments": true} {
		r := ask("get", what, "x", "ws:w")
		if d := p.decide(person("ann"), r); d.Allowed() != want {
			t.Errorf("%s: %+v", what, d)
		}
		r.IsKubernetes = true
		if d := p.decide(person("ann"), r); !d.Allowed() {
			t.Errorf("%s at kube-apiserver: %+v", what, d)
		}
	}
}

func TestAListIsSeenInFullByPolicy(t *testing.T) {
	p := newPolicies(t)
	p.policy("globalroles", "r", "list")
	p.bind("globalrolebindings", "b", "", "r", "User:bob")
	p.role("roles", "n/viewer", rule("list", "", "pods"))
	p.bind("rolebindings", "n/b", "", "viewer", "User:bob")
	u, r := &user.DefaultInfo{Name: "bob"}, &request.Info{Verb: "list", Resource: "pods", IsResource: true, Scope: request.Cluster}
	d, err := p.index.Authorize(t.Context(), u, r)
	if err != nil || !d.Allowed() || d.PartialList() != nil {
		t.Errorf("decision %+v, error %v", d, err)
	}
}

func TestWhoCanNamesThoseOfWhomAPolicyDecides(t *testing.T) {
	p := newPolicies(t)
	p.policy("globalroles", "r", "list")
	p.bind("globalrolebindings", "b", "", "r", "User:bob")
	r := &request.Info{Verb: "list", Resource: "pods", IsResource: true, Scope: request.Cluster}
	var got []authz.Grant
	for g := range p.index.WhoCan(r) {
		got = append(got, g)
	}
	if len(got) != 1 || got[0].Held || got[0].Rule != nil || !strings.Contains(got[0].Why, "policy in Rego") {
		t.Errorf("grants %+v", got)
	}
}
