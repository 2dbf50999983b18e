package rbac

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

const (
	podsOfAll        = "/kapi/v1/pods"
	deploymentsOfAll = "/kapis/apps/v1/deployments"
)

// U18: a list of all is answered with the namespaces and workspaces of the caller's own bindings.
func TestPartIsWhereTheCallerMayList(t *testing.T) {
	w := newWorld(t)
	for name, workspace := range map[string]string{"a": "w1", "b": "w1", "c": "w2", "d": "", "e": ""} {
		w.namespace(name, workspace)
	}
	w.role("roles", "d/viewer", rule("list,watch", "", "pods"))
	w.role("roles", "e/viewer", rule("list", "", "pods"))
	w.role("roles", "e/named", rule("list", "", "pods", "p"))
	w.role("workspaceroles", "viewer", rule("list", "*", "*"))
	w.bind("rolebindings", "d/b", "", "viewer", "User:bob")
	w.bind("rolebindings", "e/b", "", "viewer", "Group:dev")
	w.bind("rolebindings", "e/n", "", "named", "User:nina")
	w.bind("workspacerolebindings", "b", "w1", "viewer", "User:bob", "ServiceAccount:a:robot")
	for _, c := range []struct {
		claim, target          string
		who                    user.Info
		namespaces, workspaces []string
	}{
		{"OwnBindings", podsOfAll, person("bob"), []string{"a", "b", "d"}, []string{"w1"}},
		{"AndThoseOfGroups", podsOfAll, person("bob", "dev"), []string{"a", "b", "d", "e"}, []string{"w1"}},
		{"GroupsAlone", podsOfAll, person("eve", "dev", ""), []string{"e"}, nil},
		{"ServiceAccount", podsOfAll, person("system:serviceaccount:a:robot"), []string{"a", "b"}, []string{"w1"}},
		{"AnotherVerb", podsOfAll + "?watch=true", person("bob"), []string{"d"}, nil},
		{"AnotherKind", deploymentsOfAll, person("bob"), []string{"a", "b"}, []string{"w1"}},
		{"Nobody", podsOfAll, person("mallory"), nil, nil},
		{"NobodyWithoutAName", podsOfAll, person("", "dev"), nil, nil},
		{"S2 ARightToOneObjectIsNone", podsOfAll, person("nina"), nil, nil},
		{"S2 ASelectorForOneObjectChangesNothing", podsOfAll + "?watch=true&fieldSelector=metadata.name=p", person("nina"), nil, nil},
		{"NotOfOneNamespace", "/kapi/v1/namespaces/c/pods", person("bob"), nil, nil},
		{"NotOfOneWorkspace", "/kapi/v1/workspaces/w2/pods", person("bob"), nil, nil},
		{"NotOfOneObject", "/kapi/v1/pods/x", person("bob"), nil, nil},
		{"NotOfASubresource", "/kapi/v1/pods/x/log", person("bob"), nil, nil},
		{"NotAtKubeAPIServer", "/api/v1/pods", person("bob"), nil, nil},
		{"NotOfThePlatform", "/kapis/iam.kubesphere.io/v1beta1/users", person("bob"), nil, nil},
		{"NotOfAPath", "/metrics", person("bob"), nil, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			r := requesttest.Info(t, "GET", c.target)
			d := w.decide(c.who, r)
			if d.Allowed() || d.Group != "" {
				t.Fatalf("allowed: %+v", d)
			}
			checkPart(t, d.PartialList(), authz.NewPartialList(c.namespaces, c.workspaces))
			if again := w.decide(c.who, r); again.PartialList() != d.PartialList() {
				t.Error("the part is worked out twice")
			}
		})
	}
}

func checkPart(t *testing.T, got, want *authz.PartialList) {
	t.Helper()
	if (got == nil) != (want == nil) {
		t.Fatalf("part %+v, want %+v", got, want)
	}
	if got != nil && (got.Key != want.Key || !slices.Equal(got.Namespaces, want.Namespaces) || !slices.Equal(got.Workspaces, want.Workspaces)) {
		t.Fatalf("part %+v, want %+v", got, want)
	}
}

func TestWhoMaySeeAllHasNoPart(t *testing.T) {
	w := newWorld(t)
	w.role("globalroles", "all", rule("list", "", "pods"))
	w.bind("globalrolebindings", "b", "", "all", "User:bob")
	w.role("roles", "a/r", rule("list", "", "pods"))
	w.bind("rolebindings", "a/b", "", "r", "User:bob")
	if d := w.decide(person("bob"), requesttest.Info(t, "GET", podsOfAll)); !d.Allowed() || d.PartialList() != nil {
		t.Errorf("got %+v", d)
	}
}

// A partial list is current: the next one has each change of a role, a binding or a namespace.
func TestPartFollowsEveryChange(t *testing.T) {
	w := newWorld(t)
	bob, list := person("bob"), requesttest.Info(t, "GET", podsOfAll)
	expect := func(after string, namespaces, workspaces []string) {
		t.Helper()
		t.Log(after)
		checkPart(t, w.decide(bob, list).PartialList(), authz.NewPartialList(namespaces, workspaces))
	}
	expect("nothing", nil, nil)
	w.bind("rolebindings", "a/b", "", "r", "User:bob")
	expect("a binding without its role", nil, nil)
	w.role("roles", "a/r", rule("list", "", "pods"))
	expect("the role", []string{"a"}, nil)
	w.role("workspaceroles", "r", rule("list", "", "pods"))
	w.bind("workspacerolebindings", "b", "w", "r", "User:bob")
	expect("a workspace", []string{"a"}, []string{"w"})
	w.namespace("n", "w")
	expect("a namespace in it", []string{"a", "n"}, []string{"w"})
	w.namespace("n", "other")
	expect("a namespace that moved", []string{"a"}, []string{"w"})
	w.namespace("n", "w")
	w.sink("namespaces").Delete("", "n")
	expect("a namespace that is gone", []string{"a"}, []string{"w"})
	w.bind("workspacerolebindings", "b", "w2", "r", "User:bob")
	expect("a binding for another workspace", []string{"a"}, []string{"w2"})
	w.bind("workspacerolebindings", "b", "w2", "r", "User:eve")
	expect("a binding for another user", []string{"a"}, nil)
	w.role("roles", "a/r", rule("get", "", "pods"))
	expect("a role that no longer lists", nil, nil)
	w.role("roles", "a/r", rule("list", "", "pods"))
	w.sink("rolebindings").Delete("a", "b")
	expect("a binding that is gone", nil, nil)
	if n := w.index.scopesOfUsers.Len(); n != 1 {
		t.Errorf("%d users have places, want eve alone", n)
	}
}

// expressions are conditions that hold at some scopes only; the last one always fails.
var expressions = []string{
	`request.namespace == "n1"`, `request.workspace == "w1"`, `request.path.endsWith("/namespaces/n2/pods")`,
	`request.path.contains("/workspaces/")`, `request.namespace != "n2" && request.workspace == ""`, `user.name == "u1"`,
	`user.extra["missing"][0] == ""`,
}

// A partial list equals what deciding for each namespace and each workspace by itself gives: by the naive walk where no role has a condition, and by
// decisions on the requests for those scopes where one has.
func TestPartIsWhatDecisionsForEachPlaceGive(t *testing.T) {
	found := 0
	for seed := range uint64(40) {
		c := chance{rand.New(rand.NewPCG(seed, 11))}
		m, w := newModel(), newWorld(t)
		conditions := seed%2 == 1
		for _, n := range [...]string{"n1", "n2", "n3"} {
			w.namespace(n, "")
		}
		for range 40 {
			for range 4 {
				c.change(m, w)
			}
			if conditions {
				c.conditionalRole(w)
			}
			for range 5 {
				u, kind := c.caller(), c.one("/kapi/v1/pods", "/kapi/v1/nodes", "/kapis/apps/v1/pods", "/kapis/apps/v1/watch/deployments")
				r := requesttest.Info(t, "GET", kind)
				d := w.decide(u, r)
				if d.Allowed() {
					continue
				}
				may := func(r request.Info) bool {
					allowed := w.decide(u, &r).Allowed()
					if !conditions && allowed != m.allows(u, &r) {
						t.Fatalf("seed %d: the model and the index differ about %+v", seed, r)
					}
					return allowed
				}
				want := naivePart(m, w, r, may)
				if want != nil {
					found++
				}
				checkPart(t, d.PartialList(), want)
			}
		}
	}
	if found < 500 {
		t.Errorf("%d parts: the test has lost its point", found)
	}
}

func naivePart(m *model, w *world, r *request.Info, may func(request.Info) bool) *authz.PartialList {
	var namespaces, workspaces []string
	known := map[string]bool{}
	for _, n := range [...]string{"n1", "n2", "n3"} {
		if may(r.InNamespace(n)) {
			namespaces = append(namespaces, n)
		}
		known[m.namespaces[n]] = true
	}
	for name := range w.index.workspaces.All {
		known[name] = true
	}
	delete(known, "")
	for name := range known {
		if may(r.InWorkspace(name)) {
			workspaces = append(workspaces, name)
		}
	}
	return authz.NewPartialList(namespaces, workspaces)
}

// conditionalRole gives a role of the random world a condition.
func (c chance) conditionalRole(w *world) {
	scope, name := c.one("global", "workspace", "cluster", ""), c.one("r1", "r2", "r3")
	if scope == "" {
		name = c.namespace() + "/" + name
	}
	w.condition(scope+"roles", name, expressions[c.IntN(len(expressions))], rule("*", "*", c.one("*", "pods", "nodes")))
}

// U6: however much is changed, one partial list of a user is cached, and none forever.
func TestTenThousandChangesLeaveOnePart(t *testing.T) {
	w := newWorld(t)
	w.role("roles", "a/r", rule("list", "", "pods"))
	list := requesttest.Info(t, "GET", podsOfAll)
	for k := range 10_000 {
		w.bind("rolebindings", fmt.Sprintf("a/b%d", k%10), "", "r", "User:bob")
		if w.decide(person("bob"), list).PartialList() == nil {
			t.Fatal("no part")
		}
	}
	if n := w.index.parts.byKey.Len(); n != 1 {
		t.Errorf("%d parts are remembered", n)
	}
}

func TestPartsInMemoryAreBounded(t *testing.T) {
	c := newPartialCache(1000)
	part := authz.NewPartialList([]string{"a", "b", "c", "d"}, nil)
	hot := partialKey{255}
	for n := range 10_000 {
		c.put(partialKey{byte(n), byte(n >> 8)}, 1, part)
		if n == 0 {
			c.put(hot, 1, part)
		}
		if _, ok := c.get(hot, 1); !ok {
			t.Fatalf("step %d: what is used was dropped", n)
		}
	}
	if n := c.byKey.Len(); n > 1000/(partialOverhead+4) {
		t.Errorf("%d parts are remembered", n)
	}
	c.put(hot, 0, nil)
	if after, _ := c.byKey.Get(hot); after == nil {
		t.Error("a part of before the last change replaced one of after it")
	}
	if _, ok := c.get(hot, 2); ok {
		t.Error("a part outlived a change")
	}
}

func TestPartKeysOfDifferentRequestsDiffer(t *testing.T) {
	base := func() (*user.DefaultInfo, *request.Info) {
		u := &user.DefaultInfo{Name: "u", UID: "1", Groups: []string{"g", "h"}, Extra: map[string][]string{"k": {"v"}, "l": {"v"}}}
		return u, requesttest.Info(t, "GET", podsOfAll)
	}
	seen := map[partialKey]string{}
	for name, change := range map[string]func(*user.DefaultInfo, *request.Info){
		"base":     func(*user.DefaultInfo, *request.Info) {},
		"name":     func(u *user.DefaultInfo, _ *request.Info) { u.Name = "v" },
		"uid":      func(u *user.DefaultInfo, _ *request.Info) { u.UID = "2" },
		"joined":   func(u *user.DefaultInfo, _ *request.Info) { u.Name, u.UID = "u1", "" },
		"groups":   func(u *user.DefaultInfo, _ *request.Info) { u.Groups = []string{"gh"} },
		"no group": func(u *user.DefaultInfo, _ *request.Info) { u.Groups = nil },
		"extra":    func(u *user.DefaultInfo, _ *request.Info) { u.Extra["k"] = []string{"w"} },
		"no extra": func(u *user.DefaultInfo, _ *request.Info) { u.Extra = nil },
		"verb":     func(_ *user.DefaultInfo, r *request.Info) { r.Verb = "watch" },
		"path":     func(_ *user.DefaultInfo, r *request.Info) { r.Path += "x" },
		"cluster":  func(_ *user.DefaultInfo, r *request.Info) { r.Cluster = "host" },
		"group":    func(_ *user.DefaultInfo, r *request.Info) { r.APIGroup = "apps" },
		"version":  func(_ *user.DefaultInfo, r *request.Info) { r.APIVersion = "v2" },
		"resource": func(_ *user.DefaultInfo, r *request.Info) { r.Resource = "nodes" },
	} {
		u, r := base()
		change(u, r)
		key := newPartialKey(u, r)
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[key] = name
		if u, r = base(); name != "base" && newPartialKey(u, r) != newPartialKey(base()) {
			t.Error("one request has two keys")
		}
	}
}

// crowded is a user who is bound in each of n namespaces of n workspaces, among as many others.
func crowded(tb testing.TB, n int, conditional bool) *world {
	w := newWorld(tb)
	if conditional {
		w.condition("globalroles", "odd", `request.namespace.endsWith("1")`, rule("list", "", "pods"))
		w.bind("globalrolebindings", "odd", "", "odd", "User:bob")
	}
	for k := range n {
		namespace := fmt.Sprintf("namespace-%d", k)
		w.namespace(namespace, fmt.Sprintf("workspace-%d", k))
		w.role("roles", namespace+"/r", rule("*", "apps", "deployments"), rule("get,list,watch", "", "pods,pods/log"))
		w.bind("rolebindings", namespace+"/b", "", "r", "User:bob", fmt.Sprint("User:other-", k))
	}
	return w
}

// U18: with 5 000 namespaces and 5 000 bindings, the first request does nothing that allocates for each of them, and the next ones find the partial list in
// the cache. The time is only logged, because it means nothing on a busy machine: some 2 ms and 2 us.
func TestPartOfFiveThousandNamespacesCostsLittle(t *testing.T) {
	w := crowded(t, 5000, false)
	bob, list := person("bob", "system:authenticated"), requesttest.Info(t, "GET", podsOfAll)
	begin := time.Now()
	first := w.decide(bob, list)
	cold := time.Since(begin)
	begin = time.Now()
	again := w.decide(bob, list)
	t.Logf("cold %v, warm %v", cold, time.Since(begin))
	if first.PartialList() == nil || len(first.PartialList().Namespaces) != 5000 || again.PartialList() != first.PartialList() {
		t.Fatalf("got %+v, %+v", first, again)
	}
	if n := testing.AllocsPerRun(10, func() { w.index.changes.Add(1); w.decide(bob, list) }); n > 50 {
		t.Errorf("%v allocations at the first question", n)
	}
	if n := testing.AllocsPerRun(10, func() { w.decide(bob, list) }); n > 5 {
		t.Errorf("%v allocations at the next ones", n)
	}
}

func BenchmarkPart(b *testing.B) {
	for name, conditional := range map[string]bool{"plain": false, "conditional": true} {
		w := crowded(b, 5000, conditional)
		bob, list := person("bob", "dev", "ops", "system:authenticated"), requesttest.Info(b, "GET", podsOfAll)
		b.Run(name+"/cold", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.index.changes.Add(1)
				w.decide(bob, list)
			}
		})
		b.Run(name+"/warm", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.decide(bob, list)
			}
		})
	}
}
