package rbac

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
)

func TestExplain(t *testing.T) {
	w := town(t)
	w.condition("globalroles", "self", `request.name == user.name`, rule("get", "", "pods"))
	w.bind("globalrolebindings", "self", "", "self", "User:alice")
	w.bind("workspacerolebindings", "a-viewers", "a", "gone", "User:alice")
	w.bind("rolebindings", "n1/alice", "", "editor", "User:alice")
	w.bind("clusterrolebindings", "alice", "", "viewer", "Group:dev")
	got := w.index.Explain(person("alice", "dev"), ask("get", "/pods", "p", "ns:n1"))
	var lines []string
	for _, g := range got {
		lines = append(lines, fmt.Sprintf("%s: %s %v %s", g.Scope, g.Binding, g.Held, g.Why))
	}
	want := []string{
		`in the workspace "a": a-admins true allowed by WorkspaceRoleBinding "a-admins" of WorkspaceRole "a-admin" to User "alice"`,
		`on the platform: self false the condition of the role "self" does not hold for this request`,
		`in the workspace "a": a-viewers false the role "gone" does not exist, or can't be read`,
		`in the namespace "n1": alice false the role "editor" has no rule for get pods "p"`,
		`in the cluster: alice true allowed by ClusterRoleBinding "alice" of ClusterRole "viewer" to Group "dev"`,
	}
	slices.SortStableFunc(lines[1:], func(a, b string) int { return cmp.Compare(slices.Index(want, a), slices.Index(want, b)) })
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
	first := got[0]
	if first.Rule == nil || text([]rbacv1.PolicyRule{*first.Rule}) != "* * *" || first.Role != (authz.RoleRef{Scope: request.Workspace, Name: "a-admin"}) ||
		first.Subject != (rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "alice"}) {
		t.Errorf("%+v", first)
	}
	for _, g := range got {
		if g.Binding == "self" && (g.Condition != `request.name == user.name` || g.Rule == nil) {
			t.Errorf("%+v", g)
		}
	}
	if g := w.index.Explain(person("bea"), ask("get", "/pods", "p", "ns:n1")); len(g) != 1 || g[0].Why != `the role "b-own" is one of the workspace "b"` {
		t.Errorf("%+v", g)
	}
	if g := w.index.Explain(person("ed"), askPath("get", "/apis")); g != nil {
		t.Errorf("%+v", g)
	}
	for _, u := range []user.Info{nil, person("", "roots")} { // S10
		if g := w.index.Explain(u, ask("get", "/pods", "p")); g != nil {
			t.Errorf("%+v", g)
		}
	}
}

func TestWhoCan(t *testing.T) {
	w := town(t)
	w.condition("globalroles", "self", `request.name == user.name`, rule("get", "", "pods"))
	w.bind("globalrolebindings", "self", "", "self", "Group:everybody")
	w.set("rolebindings", "n1", "console", map[string]any{
		"roleRef":  rbacv1.RoleRef{APIGroup: "iam.kubesphere.io", Kind: "Role", Name: "editor"},
		"subjects": []rbacv1.Subject{{Kind: "ServiceAccount", APIGroup: "kubesphere.io", Namespace: "kubesphere-system", Name: "ks-console"}},
	})
	for _, c := range []struct {
		claim string
		what  *request.Info
		want  []string
	}{
		{"InANamespace", ask("get", "/pods", "p", "ns:n1"), []string{
			"on the platform Group everybody of self false", "on the platform Group roots of admins true",
			"on the platform ServiceAccount kube-system/root of admins true",
			"on the platform User root of admins true", `in the workspace "a" User alice of a-admins true`, "in the cluster User vera of viewers true",
		}},
		{"ByServiceAccounts", ask("delete", "apps/deployments", "p", "ns:n1"), []string{
			"on the platform Group roots of admins true", "on the platform ServiceAccount kube-system/root of admins true", "on the platform User root of admins true",
			`in the workspace "a" User alice of a-admins true`, `in the namespace "n1" ServiceAccount n1/bot of editors true`,
			`in the namespace "n1" ServiceAccount kubesphere.io:kubesphere-system/ks-console of console true`, `in the namespace "n1" User ed of editors true`,
		}},
		{"OnAPath", askPath("get", "/static/images/x"), []string{
			"on the platform Group roots of admins true", "on the platform Group system:authenticated of everyones true",
			"on the platform ServiceAccount kube-system/root of admins true",
			"on the platform User root of admins true", "in the cluster User vera of viewers true",
		}},
		{"NoVerb_S10", ask("", "/pods", "p"), nil},
		{"NoResource_S10", ask("get", "/", "p"), nil},
		{"NoPath_S10", askPath("get", ""), nil},
		{"Nothing_S10", nil, nil},
	} {
		t.Run(c.claim, func(t *testing.T) {
			var got []string
			for g := range w.index.WhoCan(c.what) {
				name := g.Subject.Name
				if g.Subject.Kind == "ServiceAccount" {
					name = g.Subject.Namespace + "/" + name
					if g.Subject.APIGroup != "" {
						name = g.Subject.APIGroup + ":" + name
					}
				}
				got = append(got, fmt.Sprintf("%s %s %s of %s %v", g.Scope, g.Subject.Kind, name, g.Binding, g.Held))
				if g.Rule == nil || !naiveAllows([]rbacv1.PolicyRule{*g.Rule}, c.what) {
					t.Errorf("%+v", g)
				}
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

// names reports whether a grant is to u, as bindings name subjects.
func names(g authz.Grant, u user.Info) bool {
	switch g.Subject.Kind {
	case "Group":
		return slices.Contains(u.GetGroups(), g.Subject.Name)
	case "ServiceAccount":
		return u.GetName() == "system:serviceaccount:"+g.Subject.Namespace+":"+g.Subject.Name
	}
	return g.Subject.Name == u.GetName()
}

// S10 and the rest of decisions: the first grant of Explain is the one that decided, and WhoCan returns the subjects that Authorize allows.
func TestWhatExplainsADecisionMadeIt(t *testing.T) {
	for seed := range uint64(40) {
		c := chance{rand.New(rand.NewPCG(seed, 17))}
		m, w := newModel(), newWorld(t)
		for range 60 {
			for range 4 {
				c.change(m, w)
			}
			for range 10 {
				u, r := c.caller(), c.request()
				d := w.decide(u, r)
				why := w.index.Explain(u, r)
				if held := len(why) > 0 && why[0].Held; held != d.Allowed() || held && why[0].Why != d.Reason {
					t.Fatalf("seed %d: %v %+v: %+v, explained by %+v", seed, u, *r, d, why)
				}
				for _, g := range why {
					if !names(g, u) || g.Held && !naiveAllows([]rbacv1.PolicyRule{*g.Rule}, r) || g.Why == "" || !slices.Contains(w.index.Meets(r), g.Scope) {
						t.Fatalf("seed %d: %v %+v: %+v", seed, u, *r, g)
					}
				}
				can := slices.ContainsFunc(slices.Collect(w.index.WhoCan(r)), func(g authz.Grant) bool { return g.Held && names(g, u) }) && u.GetName() != ""
				if can != d.Allowed() {
					t.Fatalf("seed %d: %v %+v: %+v, and of who can: %v", seed, u, *r, d, can)
				}
			}
		}
	}
}

func TestMemberships(t *testing.T) {
	w := town(t)
	w.bind("workspacerolebindings", "dev", "b", "no-such-role", "Group:dev")
	w.bind("clusterrolebindings", "dev", "", "viewer", "Group:dev")
	for _, c := range []struct {
		claim                  string
		who                    user.Info
		namespaces, workspaces []string
		cluster                bool
	}{
		{"InNamespaces", person("ed"), []string{"n1", "n2"}, nil, false},
		{"InWorkspaces", person("alice"), nil, []string{"a"}, false},
		{"GroupsCount", person("ed", "dev"), []string{"n1", "n2"}, []string{"b"}, true},
		{"InTheCluster", person("vera"), nil, nil, true},
		{"OnThePlatformIsNone", person("root"), nil, nil, false},
		{"AnEmptyGroup_S10", person("bob", ""), nil, nil, false},
		{"AnEmptyName_S10", person("", "dev"), nil, nil, false},
		{"Nobody_S10", nil, nil, nil, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			w.t = t
			want := authz.NewPartialList(c.namespaces, c.workspaces)
			for range 2 { // cold and warm
				p, cluster := w.index.Memberships(c.who)
				checkPart(t, p, want)
				if cluster != c.cluster {
					t.Errorf("in the cluster: %v", cluster)
				}
			}
		})
	}
	w.sink("rolebindings").Delete("n1", "editors") // S9
	p, _ := w.index.Memberships(person("ed"))
	checkPart(t, p, authz.NewPartialList([]string{"n2"}, nil))
}

// A service account of kubesphere.io and the native one of the same name are different subjects.
func TestServiceAccountsOfKubeSphereAreSubjects(t *testing.T) {
	w := newWorld(t)
	w.role("globalroles", "console", rule("get", "", "pods"))
	for group, want := range map[string]string{
		"kubesphere.io": "kubesphere:serviceaccount:n:s", "": "system:serviceaccount:n:s", rbacv1.GroupName: "system:serviceaccount:n:s", "x.io": "",
	} {
		w.set("globalrolebindings", "", "b", map[string]any{
			"roleRef":  rbacv1.RoleRef{APIGroup: "iam.kubesphere.io", Kind: "GlobalRole", Name: "console"},
			"subjects": []rbacv1.Subject{{Kind: "ServiceAccount", APIGroup: group, Namespace: "n", Name: "s"}},
		})
		for _, name := range []string{"kubesphere:serviceaccount:n:s", "system:serviceaccount:n:s", "kubesphere:serviceaccount:x:s", "s"} {
			if got := w.decide(person(name), ask("get", "/pods", "p")).Allowed(); got != (name == want) {
				t.Errorf("of the group %q: %s is allowed: %v", group, name, got)
			}
		}
	}
	w.bind("globalrolebindings", "b", "", "console", "Group:kubesphere:serviceaccounts:n")
	if !w.decide(person("kubesphere:serviceaccount:n:s", "kubesphere:serviceaccounts", "kubesphere:serviceaccounts:n"), ask("get", "/pods", "p")).Allowed() {
		t.Error("its groups do not count")
	}
}

// S6: a role with a condition and the name of a role of the platform, which a user may write in their own workspace or namespace, asserts another group.
func TestConditionalRolesOfOneNameAssertDifferentGroups(t *testing.T) {
	w := newWorld(t)
	w.namespace("n1", "a")
	seen := map[string]string{}
	for _, c := range []struct{ roles, role, binding, workspace string }{
		{"globalroles", "self", "b", ""}, {"clusterroles", "self", "b", ""}, {"workspaceroles", "self", "b", "a"}, {"roles", "n1/self", "n1/b", ""},
		{"roles", "n2/self", "n2/b", ""},
	} {
		bindings := strings.TrimSuffix(c.roles, "s") + "bindings"
		w.condition(c.roles, c.role, `true`, rule("get", "", "pods"))
		w.bind(bindings, c.binding, c.workspace, "self", "User:bob")
		namespace, name := split(c.binding)
		d := w.decide(person("bob"), ask("get", "/pods", "p", "ns:"+cmp.Or(namespace, "n1")))
		if other, ok := seen[d.Group]; ok || !d.Allowed() || !strings.HasPrefix(d.Group, "kapis:conditional:") {
			t.Errorf("%s of %s asserts %q, as does %s", c.role, c.roles, d.Group, other)
		}
		seen[d.Group] = c.roles
		w.sink(bindings).Delete(namespace, name)
	}
}

func TestAListIsRefusedWithoutItsPartWhereNobodyWantsIt(t *testing.T) {
	w := newWorld(t)
	w.role("roles", "n/r", rule("list", "", "pods"))
	w.bind("rolebindings", "n/b", "", "r", "User:bob")
	list := requesttest.Info(t, "GET", podsOfAll)
	if d := w.decide(person("bob"), list); d.PartialList() == nil {
		t.Fatal("he has a part")
	}
	if d, err := w.index.Authorize(authz.WithoutPartialList(t.Context()), person("bob"), list); err != nil || d.Allowed() || d.PartialList() != nil {
		t.Errorf("%+v %v", d, err)
	}
}

func TestMeetsIsTheOrderOfDecisions(t *testing.T) {
	w := town(t)
	for _, c := range []struct {
		claim string
		what  *request.Info
		want  []authz.BindingScope
	}{
		{"Platform", ask("get", "iam.kubesphere.io/users", "u", "global"), []authz.BindingScope{onPlatform}},
		{"Cluster", ask("get", "/nodes", "n"), []authz.BindingScope{onPlatform, inCluster}},
		{"Path", askPath("get", "/apis"), []authz.BindingScope{onPlatform, inCluster}},
		{"Workspace", ask("get", "/pods", "p", "ws:a"), []authz.BindingScope{onPlatform, inWorkspace("a"), inCluster}},
		{"Namespace", ask("get", "/pods", "p", "ns:n1"), []authz.BindingScope{onPlatform, inWorkspace("a"), inNamespace("n1"), inCluster}},
		{"PathCannotMoveANamespace", ask("get", "/pods", "p", "ns:n2", "ws:a"), []authz.BindingScope{onPlatform, inWorkspace("b"), inNamespace("n2"), inCluster}},
		{"NamespaceInNoWorkspace", ask("get", "/pods", "p", "ns:n9"), []authz.BindingScope{onPlatform, inWorkspace(""), inNamespace("n9"), inCluster}},
	} {
		if got := w.index.Meets(c.what); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.claim, got, c.want)
		}
	}
}

// A subject that two requests give is returned once, and no other subject is returned.
func TestWhoCanEitherOfTwo(t *testing.T) {
	w := town(t)
	pods, users := ask("get", "/pods", "p", "ns:n1"), ask("get", "iam.kubesphere.io/users", "u", "global")
	var got []string
	for g := range w.index.WhoCan(pods, nil, users) {
		got = append(got, g.Subject.Name)
	}
	slices.Sort(got)
	if want := []string{"alice", "root", "root", "roots", "vera"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range w.index.WhoCan(pods) {
		break
	}
}
