package rbac

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
	"kapis.dev/ks-apiserver/pkg/store"
)

// model is all of RBAC as lists, which are walked for every decision.
type model struct {
	roles      map[string]map[string][]rbacv1.PolicyRule // by resource, then name
	policies   map[string]map[string]string              // the verb that the policy of a role allows; nil for none at all
	bindings   map[string]map[string]modelBinding
	namespaces map[string]string
}

type modelBinding struct {
	workspace, role string
	subjects        []string
}

func (m *model) allows(u user.Info, r *request.Info) bool {
	grants := func(scope string, applies func(name string, b modelBinding) bool) bool {
		for name, b := range m.bindings[scope+"rolebindings"] {
			role := b.role
			if namespace, _ := split(name); namespace != "" {
				role = namespace + "/" + role
			}
			if applies(name, b) && b.binds(u) && (naiveAllows(m.roles[scope+"roles"][role], r) || m.policies[scope+"roles"][role] == r.Verb) {
				return true
			}
		}
		return false
	}
	anyOf := func(string, modelBinding) bool { return true }
	workspace := r.Workspace
	if r.Scope == request.Namespace {
		workspace = m.namespaces[r.Namespace]
	}
	switch {
	case u.GetName() == "":
		return false
	case grants("global", anyOf):
		return true
	case r.Scope == request.Global:
		return false
	case r.Scope != request.Cluster && workspace != "" && grants("workspace", func(_ string, b modelBinding) bool { return b.workspace == workspace }):
		return true
	case r.Scope == request.Namespace && grants("", func(name string, _ modelBinding) bool { return strings.HasPrefix(name, r.Namespace+"/") }):
		return true
	}
	return grants("cluster", anyOf)
}

func (b modelBinding) binds(u user.Info) bool {
	return slices.ContainsFunc(b.subjects, func(s string) bool {
		kind, name, _ := strings.Cut(s, ":")
		switch kind {
		case "User":
			return name == u.GetName()
		case "Group":
			return slices.Contains(u.GetGroups(), name)
		}
		return u.GetName() == "system:serviceaccount:"+name
	})
}

// chance makes random values; of few words, so that they often match.
type chance struct{ *rand.Rand }

func (c chance) one(words ...string) string { return words[c.IntN(len(words))] }

func (c chance) some(words ...string) []string {
	out := make([]string, 1+c.IntN(2))
	for n := range out {
		out[n] = c.one(words...)
	}
	return out
}

func (c chance) verb() string {
	return c.one("get", "list", "create", "update", "delete", "proxy", "impersonate", "post")
}
func (c chance) user() string      { return c.one("u1", "u2", "u3", "system:serviceaccount:n1:s") }
func (c chance) group() string     { return c.one("", "apps", "foo.io") }
func (c chance) resource() string  { return c.one("pods", "nodes", "namespaces", "deployments") }
func (c chance) sub() string       { return c.one("", "", "log", "status") }
func (c chance) name() string      { return c.one("", "a", "b") }
func (c chance) namespace() string { return c.one("n1", "n2", "n3") }
func (c chance) workspace() string { return c.one("w1", "w2") }
func (c chance) path() string      { return c.one("/", "/x", "/x/y", "/version", "/xy") }

func (c chance) rules() []rbacv1.PolicyRule {
	list := make([]rbacv1.PolicyRule, c.IntN(6))
	for n := range list {
		list[n].Verbs = c.some(c.verb(), "*", c.verb(), c.verb(), "GET")
		if c.IntN(5) == 0 {
			list[n].NonResourceURLs = c.some("*", "/x", "/x/*", "/x*", "", c.path())
			continue
		}
		list[n].APIGroups = c.some("*", c.group(), c.group())
		list[n].Resources = c.some("*", c.resource(), c.resource()+"/"+c.sub(), "*/"+c.sub(), c.resource())
		if c.IntN(3) == 0 {
			list[n].ResourceNames = c.some("a", "b", "")
		}
	}
	return list
}

func (c chance) request() *request.Info {
	if c.IntN(6) == 0 {
		return askPath(c.one("get", "head", "post", "delete"), c.path())
	}
	places := []string{"", "global", "ws:" + c.workspace(), "ns:" + c.namespace()}
	r := ask(c.verb(), c.group()+"/"+c.resource()+"/"+c.sub(), c.name(), places[c.IntN(len(places))])
	return r
}

func (c chance) caller() user.Info {
	return person(c.one(c.user(), c.user(), c.user(), ""), c.some("g1", "g2", "system:authenticated")...)
}

// change makes the same change to the model and to the index.
func (c chance) change(m *model, w *world) {
	scope := c.one("global", "workspace", "cluster", "")
	name := c.one("r1", "r2", "r3")
	if scope == "" {
		name = c.namespace() + "/" + name
	}
	namespace, short := split(name)
	switch c.IntN(8) {
	case 0:
		delete(m.roles[scope+"roles"], name)
		delete(m.policies[scope+"roles"], name)
		w.sink(scope+"roles").Delete(namespace, short)
	case 1, 2:
		rules := c.rules()
		if c.IntN(3) == 0 { // few rules, so that roles share them, and have policies of their own
			rules = rules[:min(1, len(rules))]
		}
		m.roles[scope+"roles"][name] = rules
		delete(m.policies[scope+"roles"], name)
		if m.policies == nil || c.IntN(4) > 0 {
			w.role(scope+"roles", name, rules...)
			break
		}
		verb := c.verb()
		m.policies[scope+"roles"][name] = verb
		w.set(scope+"roles", namespace, short, map[string]any{
			"metadata": map[string]any{"annotations": map[string]string{"iam.kubesphere.io/rego-override": verb}}, "rules": rules,
		})
	case 3:
		delete(m.bindings[scope+"rolebindings"], name)
		w.sink(scope+"rolebindings").Delete(namespace, short)
	case 4, 5, 6:
		b := modelBinding{workspace: c.workspace(), role: c.one("r1", "r2", "r3"), subjects: c.some("User:"+c.user(), "Group:g1", "Group:g2", "ServiceAccount:n1:s")}
		m.bindings[scope+"rolebindings"][name] = b
		w.bind(scope+"rolebindings", name, b.workspace, b.role, b.subjects...)
	case 7:
		n, workspace := c.namespace(), c.one("", c.workspace())
		m.namespaces[n] = workspace
		w.namespace(n, workspace)
	}
}

func newModel() *model {
	m := &model{roles: map[string]map[string][]rbacv1.PolicyRule{}, bindings: map[string]map[string]modelBinding{}, namespaces: map[string]string{}}
	for _, scope := range []string{"global", "workspace", "cluster", ""} {
		m.roles[scope+"roles"] = map[string][]rbacv1.PolicyRule{}
		m.bindings[scope+"rolebindings"] = map[string]modelBinding{}
	}
	return m
}

func TestIndexDecidesAsTheNaiveWalkDoes(t *testing.T) {
	allowed, asked := 0, 0
	for seed := range uint64(40) {
		c := chance{rand.New(rand.NewPCG(seed, 7))}
		m, w := newModel(), newPolicies(t).world
		m.policies = map[string]map[string]string{"globalroles": {}, "workspaceroles": {}, "clusterroles": {}, "roles": {}}
		for range 60 {
			for range 4 {
				c.change(m, w)
			}
			for range 20 {
				u, r := c.caller(), c.request()
				want := m.allows(u, r)
				asked++
				if want {
					allowed++
				}
				if d := w.decide(u, r); d.Allowed() != want {
					t.Fatalf("seed %d: %v %+v: allowed=%v (%s), want %v\nroles %v\nbindings %v\nnamespaces %v",
						seed, u, *r, d.Allowed(), d.Reason, want, m.roles, m.bindings, m.namespaces)
				}
			}
		}
	}
	if allowed < asked/20 || allowed > asked*19/20 {
		t.Errorf("%d of %d were allowed: the test has lost its point", allowed, asked)
	}
}

// A binding that stays while others come and go, is replaced by an equal one, and moves in a table that grows, is never missed (U17: under -race).
func TestDecisionsDuringChangesMissNothing(t *testing.T) {
	w := newWorld(t)
	w.role("globalroles", "r", rule("get", "", "pods"))
	w.role("globalroles", "none")
	w.bind("globalrolebindings", "stays", "", "r", "User:bob", "Group:g")
	w.role("workspaceroles", "r", rule("list", "", "pods"))
	w.role("roles", "m/r", rule("list", "", "pods"))
	w.bind("workspacerolebindings", "stays", "w", "r", "User:pat")
	w.bind("rolebindings", "m/stays", "", "r", "Group:h")
	list, whole := requesttest.Info(t, "GET", podsOfAll), authz.NewPartialList([]string{"m"}, []string{"w"})
	pods := ask("get", "/pods", "p", "ns:n")
	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	for _, u := range []user.Info{person("bob"), person("eve", "g")} {
		readers.Go(func() {
			for !stop.Load() {
				if d, err := w.index.Authorize(context.Background(), u, pods); err != nil || !d.Allowed() {
					t.Errorf("%s: %+v, %v", u.GetName(), d, err)
					return
				}
			}
		})
	}
	readers.Go(func() {
		for !stop.Load() {
			if d, _ := w.index.Authorize(context.Background(), person("pat", "h"), list); d.Allowed() || d.PartialList() == nil || d.PartialList().Key != whole.Key {
				t.Errorf("the part is %+v", d.PartialList())
				return
			}
		}
	})
	readers.Go(func() {
		for !stop.Load() {
			if d, _ := w.index.Authorize(context.Background(), person("mallory", "h"), pods); d.Allowed() {
				t.Errorf("allowed: %+v", d)
				return
			}
			w.decide(person("bob"), &request.Info{Verb: "get", Resource: "pods", IsResource: true, Scope: request.Cluster})
		}
	})
	for n := range 3 {
		writers.Go(func() {
			for k := range 300 {
				id := fmt.Sprintf("%d-%d", n, k)
				w.bind("globalrolebindings", id, "", "none", "User:bob", "User:"+id, "Group:g", "Group:h")
				w.bind("globalrolebindings", "stays", "", "r", "User:bob", "Group:g")
				w.bind("workspacerolebindings", "stays", "w", "r", "User:pat")
				w.bind("workspacerolebindings", id, "w", "none", "User:pat")
				w.bind("rolebindings", "m/stays", "", "r", "Group:h")
				w.bind("rolebindings", "n/"+id, "", "none", "User:bob")
				w.namespace("n", "w"+id)
				if k%2 == 0 {
					w.sink("globalrolebindings").Delete("", id)
					w.sink("workspacerolebindings").Delete("", id)
					w.sink("rolebindings").Delete("n", id)
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
}

// FuzzSinks: reading any stored object does not panic, and rights come only from a role and a binding that both can be read.
func FuzzSinks(f *testing.F) {
	f.Add(
		[]byte(`{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`),
		[]byte(`{"roleRef":{"kind":"GlobalRole","name":"r"},"subjects":[{"kind":"User","name":"bob"}]}`),
	)
	f.Add([]byte(`{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"request.name == user.name"}},"rules":null}`), []byte(`{}`))
	f.Add([]byte(`[]`), []byte(`{"subjects":[{"kind":"ServiceAccount"}]}`))
	f.Fuzz(func(t *testing.T, role, binding []byte) {
		w := newWorld(t)
		for _, scope := range []string{"global", "workspace", "cluster", ""} {
			w.sink(scope + "roles").Set(&store.Object{Name: "r", Raw: role})
			w.sink(scope + "rolebindings").Set(&store.Object{Name: "b", Raw: binding})
		}
		w.sink("namespaces").Set(&store.Object{Name: "n", Raw: binding})
		w.decide(person("bob", "g"), ask("get", "/pods", "bob", "ns:n", "ws:w"))
		if w.decide(person("nobody-the-fuzzer-knows-0b1e"), ask("get", "/pods", "p")).Allowed() {
			t.Error("allowed somebody whom no binding names")
		}
	})
}
