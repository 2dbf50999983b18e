package rbac

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// town is a world with a user at every scope.
func town(t testing.TB) *world {
	w := newWorld(t)
	w.role("globalroles", "admin", rule("*", "*", "*"), pathRule("*", "*"))
	w.role("globalroles", "everyone", rule("get,list", "config.kubesphere.io", "configs"), pathRule("GET", "/static/images/*"))
	w.role("globalroles", "names", rule("get", "", "secrets", "a", ""), rule("get", "", "configmaps", ""))
	w.role("globalroles", "foreign", rule("*", "x.example.com", "deployments"), rule("create,delete", "foo.io", "namespaces"))
	w.role("globalroles", "subs", rule("get", "", "pods/log"), rule("create", "", "*/eviction"), rule("get", "", "nodes/,/status,*/"))
	w.role("workspaceroles", "a-admin", rule("*", "*", "*"))
	w.set("workspaceroles", "", "b-own", map[string]any{
		"metadata": map[string]any{"labels": map[string]string{"kubesphere.io/workspace": "b"}},
		"rules":    []any{rule("*", "*", "*")},
	})
	w.role("clusterroles", "viewer", rule("get,list,watch", "*", "*"), pathRule("GET", "*"))
	w.role("roles", "n1/editor", rule("*", "apps", "deployments"))
	w.namespace("n1", "a")
	w.namespace("n2", "b")
	w.namespace("n3", "")
	w.bind("globalrolebindings", "admins", "", "admin", "User:root", "Group:roots", "ServiceAccount:kube-system:root")
	w.bind("globalrolebindings", "everyones", "", "everyone", "Group:system:authenticated")
	w.bind("globalrolebindings", "named", "", "names", "User:nina")
	w.bind("globalrolebindings", "foreigners", "", "foreign", "User:finn")
	w.bind("globalrolebindings", "subbed", "", "subs", "User:sue")
	w.bind("globalrolebindings", "orphan", "", "no-such-role", "User:otto")
	w.bind("globalrolebindings", "nobody", "", "admin", "User:", "Group:")
	w.bind("workspacerolebindings", "a-admins", "a", "a-admin", "User:alice")
	w.bind("workspacerolebindings", "a-borrowed", "a", "b-own", "User:bea")
	w.bind("workspacerolebindings", "homeless", "", "a-admin", "User:hugo")
	w.bind("clusterrolebindings", "viewers", "", "viewer", "User:vera")
	w.bind("rolebindings", "n1/editors", "", "editor", "User:ed", "ServiceAccount:n1:bot")
	w.bind("rolebindings", "n2/editors", "", "editor", "User:ed")
	return w
}

func TestDecision(t *testing.T) {
	w := town(t)
	for _, c := range []struct {
		claim  string
		who    user.Info
		what   *request.Info
		reason string // what allowed it; empty for refused
		group  string
	}{
		{"UserIsBound", person("root"), ask("delete", "/nodes", "n"), `GlobalRoleBinding "admins" of GlobalRole "admin" to User "root"`, "kapis:global:admin"},
		{"GroupIsBound", person("bob", "x", "roots"), ask("delete", "/nodes", "n"), `GlobalRoleBinding "admins" of GlobalRole "admin" to Group "roots"`,
			"kapis:global:admin"},
		{"ServiceAccountIsBound", person("system:serviceaccount:kube-system:root"), ask("get", "/nodes", "n"),
			`to ServiceAccount "system:serviceaccount:kube-system:root"`, "kapis:global:admin"},
		{"UserOfAGroupsNameIsNot", person("roots"), ask("get", "/nodes", "n"), "", ""},
		{"GroupOfAUsersNameIsNot", person("bob", "root"), ask("get", "/nodes", "n"), "", ""},
		{"U0SeesNothing_S1", person("u0", "system:authenticated"), ask("list", "/pods", ""), "", ""},
		{"U0SeesWhatEveryoneSees", person("u0", "system:authenticated"), ask("get", "config.kubesphere.io/configs", "oauth"), `to Group "system:authenticated"`,
			"kapis:global:everyone"},
		{"MissingRoleIsSkipped", person("otto"), ask("get", "/pods", "p"), "", ""},
		{"EmptyUserNeverMatches_S10", person(""), ask("get", "/pods", "p"), "", ""},
		{"EmptyGroupNeverMatches_S10", person("bob", ""), ask("get", "/pods", "p"), "", ""},
		{"NoUserNeverMatches_S10", nil, ask("get", "/pods", "p"), "", ""},
		{"NoRequestNeverMatches_S10", person("root"), nil, "", ""},
		{"EmptyVerbNeverMatches_S10", person("root"), ask("", "/pods", "p"), "", ""},
		{"EmptyResourceNeverMatches_S10", person("root"), ask("get", "/", "p"), "", ""},
		{"EmptyPathNeverMatches_S10", person("root"), askPath("get", ""), "", ""},
		{"GroupOfTheAPIIsPartOfTheMatch_S4", person("finn"), ask("get", "apps/deployments", "d", "ns:n1"), "", ""},
		{"OwnGroupOfTheAPI_S4", person("finn"), ask("get", "x.example.com/deployments", "d", "ns:n1"), `"foreigners"`, "kapis:global:foreign"},
		{"NamespacesOfAnotherGroup_S5", person("finn"), ask("delete", "/namespaces", "x", "ns:x"), "", ""},
		{"NameIsPartOfTheMatch", person("nina"), ask("get", "/secrets", "a", "ns:n1"), `"named"`, "kapis:global:names"},
		{"OtherNameIsNot", person("nina"), ask("get", "/secrets", "b", "ns:n1"), "", ""},
		{"EmptyNameIsNoName_S10", person("nina"), ask("get", "/secrets", "", "ns:n1"), "", ""},
		{"OnlyAnEmptyNameIsNotAnyName_S10", person("nina"), ask("get", "/configmaps", "a", "ns:n1"), "", ""},
		{"SubresourceIsNotItsResource", person("sue"), ask("get", "/pods", "p", "ns:n1"), "", ""},
		{"SubresourceByName", person("sue"), ask("get", "/pods/log", "p", "ns:n1"), `"subbed"`, "kapis:global:subs"},
		{"SubresourceOfAnything", person("sue"), ask("create", "/pods/eviction", "p", "ns:n1"), `"subbed"`, "kapis:global:subs"},
		{"DanglingSlashIsNothing", person("sue"), ask("get", "/nodes", "n"), "", ""},
		{"ResourceIsNotItsSubresource", person("ed"), ask("update", "apps/deployments/scale", "d", "ns:n1"), "", ""},
		{"WorkspaceByPath", person("alice"), ask("list", "iam.kubesphere.io/workspacemembers", "", "ws:a"),
			`WorkspaceRoleBinding "a-admins" of WorkspaceRole "a-admin" to User "alice"`, "kapis:workspace:a:a-admin"},
		{"OtherWorkspace", person("alice"), ask("list", "iam.kubesphere.io/workspacemembers", "", "ws:b"), "", ""},
		{"WorkspaceOfTheNamespace", person("alice"), ask("get", "/pods", "p", "ns:n1"), `"a-admins"`, "kapis:workspace:a:a-admin"},
		{"NamespaceOfAnotherWorkspace", person("alice"), ask("get", "/pods", "p", "ns:n2"), "", ""},
		{"PathCannotMoveANamespace", person("alice"), ask("get", "/pods", "p", "ns:n2", "ws:a"), "", ""},
		{"NamespaceInNoWorkspace", person("alice"), ask("get", "/pods", "p", "ns:n3"), "", ""},
		{"UnknownNamespaceIsInNoWorkspace", person("alice"), ask("get", "/pods", "p", "ns:n9", "ws:a"), "", ""},
		{"WorkspaceRoleHasNoSayInTheCluster", person("alice"), ask("list", "/nodes", ""), "", ""},
		{"WorkspaceRoleHasNoSayGlobally", person("alice"), ask("list", "iam.kubesphere.io/users", "", "global"), "", ""},
		{"RoleOfAnotherWorkspaceGrantsNothing_S6", person("bea"), ask("get", "/pods", "p", "ns:n1"), "", ""},
		{"BindingWithoutAWorkspaceBindsNobody", person("hugo"), ask("get", "/pods", "p", "ns:n3"), "", ""},
		{"RoleOfTheNamespace", person("ed"), ask("delete", "apps/deployments", "d", "ns:n1"), `RoleBinding "n1/editors" of Role "editor" to User "ed"`,
			"kapis:namespace:editor"},
		{"RoleOfAnotherNamespaceIsMissing", person("ed"), ask("delete", "apps/deployments", "d", "ns:n2"), "", ""},
		{"RoleOfTheNamespaceHasNoSayOutside", person("ed"), ask("list", "apps/deployments", ""), "", ""},
		{"ServiceAccountInItsNamespace", person("system:serviceaccount:n1:bot"), ask("get", "apps/deployments", "d", "ns:n1"), `"n1/editors"`,
			"kapis:namespace:editor"},
		{"ClusterRoleInANamespace", person("vera"), ask("list", "/pods", "", "ns:n2"), `ClusterRoleBinding "viewers" of ClusterRole "viewer" to User "vera"`,
			"kapis:cluster:viewer"},
		{"ClusterRoleInAWorkspace", person("vera"), ask("list", "iam.kubesphere.io/workspaceroles", "", "ws:b"), `"viewers"`, "kapis:cluster:viewer"},
		{"ClusterRoleHasNoSayGlobally", person("vera"), ask("list", "iam.kubesphere.io/users", "", "global"), "", ""},
		{"ClusterRoleOnAPath", person("vera"), askPath("get", "/apis"), `"viewers"`, "kapis:cluster:viewer"},
		{"HeadAnswersLessThanGet", person("vera"), askPath("head", "/apis"), `"viewers"`, "kapis:cluster:viewer"},
		{"VerbOnAPath", person("vera"), askPath("post", "/apis"), "", ""},
		{"PathBelowAPrefix", person("bob", "system:authenticated"), askPath("get", "/static/images/logo.png"), `"everyones"`, "kapis:global:everyone"},
		{"PathBesideAPrefix", person("bob", "system:authenticated"), askPath("get", "/static/x"), "", ""},
		{"UnusualVerbOfAWildcard", person("root"), ask("impersonate", "/users", "bob"), `"admins"`, "kapis:global:admin"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			w.t = t
			d := w.decide(c.who, c.what)
			if d.Allowed() != (c.reason != "") {
				t.Fatalf("got %+v", d)
			}
			if d.Allowed() && (!strings.HasPrefix(d.Reason, "allowed by ") || !strings.Contains(d.Reason, c.reason)) || d.Group != c.group {
				t.Errorf("got reason %q and group %q, want %q and %q", d.Reason, d.Group, c.reason, c.group)
			}
		})
	}
}

// S9: a right that is taken away is gone with the change.
func TestChangeHoldsForTheNextDecision(t *testing.T) {
	pods := ask("get", "/pods", "p", "ns:n1")
	for _, c := range []struct {
		claim  string
		change func(*world)
		who    user.Info
		what   *request.Info
		after  bool
	}{
		{"BindingIsDeleted", func(w *world) { w.sink("workspacerolebindings").Delete("", "a-admins") }, person("alice"), pods, false},
		{"SubjectIsReplaced", func(w *world) { w.bind("workspacerolebindings", "a-admins", "a", "a-admin", "User:bob") }, person("alice"), pods, false},
		{"SubjectIsAdded", func(w *world) { w.bind("workspacerolebindings", "a-admins", "a", "a-admin", "User:bob", "User:alice") }, person("alice"), pods, true},
		{"BindingMovesToAnotherWorkspace", func(w *world) { w.bind("workspacerolebindings", "a-admins", "b", "a-admin", "User:alice") }, person("alice"), pods,
			false},
		{"RoleIsDeleted", func(w *world) { w.sink("workspaceroles").Delete("", "a-admin") }, person("alice"), pods, false},
		{"RoleLosesItsRules", func(w *world) { w.role("workspaceroles", "a-admin") }, person("alice"), pods, false},
		{"RoleMovesToAnotherWorkspace", func(w *world) {
			w.set("workspaceroles", "", "a-admin", map[string]any{
				"metadata": map[string]any{"labels": map[string]string{"kubesphere.io/workspace": "b"}}, "rules": []any{rule("*", "*", "*")},
			})
		}, person("alice"), pods, false},
		{"NamespaceMoves", func(w *world) { w.namespace("n1", "b") }, person("alice"), pods, false},
		{"NamespaceIsDeleted", func(w *world) { w.sink("namespaces").Delete("", "n1") }, person("alice"), pods, false},
		{"NamespaceBecomesUnreadable", func(w *world) { w.sink("namespaces").Set(&store.Object{Name: "n1", Raw: []byte(`{`)}) }, person("alice"), pods, false},
		{"NamespaceMovesIn", func(w *world) { w.namespace("n2", "a") }, person("alice"), ask("get", "/pods", "p", "ns:n2"), true},
		{"BindingIsBeingDeleted", func(w *world) { // S67: whatever finalizer holds it
			w.set("workspacerolebindings", "", "a-admins", map[string]any{
				"metadata": map[string]any{"labels": map[string]string{"kubesphere.io/workspace": "a"}, "deletionTimestamp": "2026-11-21T12:00:00Z",
					"finalizers": []string{"example.com/stay"}},
				"roleRef":  map[string]string{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": "a-admin"},
				"subjects": []any{map[string]string{"kind": "User", "name": "alice"}},
			})
		}, person("alice"), pods, false},
		{"BindingBecomesUnreadable", func(w *world) {
			w.sink("workspacerolebindings").Set(&store.Object{Name: "a-admins", Raw: []byte(`{"subjects":7}`)})
		}, person("alice"), pods, false},
		{"RoleBecomesUnreadable", func(w *world) {
			w.sink("workspaceroles").Set(&store.Object{Name: "a-admin", Raw: []byte(`[]`)})
		}, person("alice"), pods, false},
		{"BindingRefersToAnotherScope", func(w *world) {
			w.sink("globalrolebindings").Set(&store.Object{Name: "admins",
				Raw: []byte(`{"roleRef":{"kind":"ClusterRole","name":"viewer"},"subjects":[{"kind":"User","name":"root"}]}`)})
		}, person("root"), pods, false},
		{"BindingRefersToAnotherGroup", func(w *world) {
			w.sink("globalrolebindings").Set(&store.Object{Name: "admins",
				Raw: []byte(`{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"GlobalRole","name":"admin"},"subjects":[{"kind":"User","name":"root"}]}`)})
		}, person("root"), pods, false},
		{"BindingWithoutAGroupMeansOurs", func(w *world) {
			w.sink("globalrolebindings").Set(&store.Object{Name: "admins",
				Raw: []byte(`{"roleRef":{"kind":"GlobalRole","name":"admin"},"subjects":[{"kind":"User","name":"root"}]}`)})
		}, person("root"), pods, true},
		{"ServiceAccountOfAnotherGroupIsNotKubernetes", func(w *world) {
			w.sink("globalrolebindings").Set(&store.Object{Name: "admins", Raw: []byte(
				`{"roleRef":{"kind":"GlobalRole","name":"admin"},"subjects":[{"apiGroup":"kubesphere.io","kind":"ServiceAccount","namespace":"kube-system","name":"root"}]}`)})
		}, person("system:serviceaccount:kube-system:root"), pods, false},
		{"RoleComesAfterItsBinding", func(w *world) { w.role("globalroles", "no-such-role", rule("get", "", "pods")) }, person("otto"), pods, true},
		{"RegoGrantsNothing", func(w *world) {
			w.set("globalroles", "", "no-such-role", map[string]any{
				"metadata": map[string]any{"annotations": map[string]string{"iam.kubesphere.io/rego-override": "package authz\ndefault allow = true"}},
			})
		}, person("otto"), pods, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			w := town(t)
			before := w.decide(c.who, c.what).Allowed()
			c.change(w)
			if got := w.decide(c.who, c.what).Allowed(); got != c.after {
				t.Errorf("allowed: %v before, %v after, want %v", before, got, c.after)
			}
		})
	}
}

func TestNothingIsLeftOfWhatIsGone(t *testing.T) {
	w := newWorld(t)
	for n := range 3 {
		id := fmt.Sprint(n)
		w.role("roles", "n"+id+"/r", rule("*", "*", "*"))
		w.bind("rolebindings", "n"+id+"/b", "", "r", "User:bob", "User:bob", "Group:g")
		w.bind("workspacerolebindings", "b"+id, "w"+id, "r", "User:bob")
		w.namespace("n"+id, "w"+id)
	}
	for n := range 3 {
		id := fmt.Sprint(n)
		w.sink("rolebindings").Delete("n"+id, "b")
		w.sink("rolebindings").Delete("n"+id, "never-there")
		w.sink("roles").Delete("n"+id, "r")
		w.sink("workspacerolebindings").Delete("", "b"+id)
		w.sink("namespaces").Delete("", "n"+id)
	}
	x := w.index
	if len(x.roles)+len(x.bindings)+x.namespaces.Len()+x.workspaces.Len()+x.workspaceOf.Len() != 0 {
		t.Errorf(
			"left: %d roles, %d bindings, %d namespaces, %d workspaces, %d labels",
			len(x.roles),
			len(x.bindings),
			x.namespaces.Len(),
			x.workspaces.Len(),
			x.workspaceOf.Len(),
		)
	}
}

// U18: it takes no request, whatever the number of namespaces and bindings.
func TestNamespacesAreThoseThatAUserMayUse(t *testing.T) {
	w := newWorld(t)
	w.role("workspaceroles", "viewer", rule("list", "", "pods"))
	w.role("clusterroles", "all", rule("list", "", "pods"))
	w.bind("workspacerolebindings", "w7", "w7", "viewer", "User:bob")
	w.bind("clusterrolebindings", "c", "", "all", "User:vera")
	var want []string
	for n := range 5000 {
		name, workspace := fmt.Sprintf("n%d", n), fmt.Sprintf("w%d", n%100)
		if n%10 == 3 {
			workspace = ""
		}
		w.namespace(name, workspace)
		w.role("roles", name+"/r", rule("list", "", "pods"))
		who := fmt.Sprintf("User:u%d", n)
		if n%1000 == 3 || n%1000 == 4 {
			who = "User:bob"
		}
		w.bind("rolebindings", name+"/b", "", "r", who)
		if workspace == "w7" || who == "User:bob" {
			want = append(want, name)
		}
	}
	pods := func(verb string) *request.Info {
		return &request.Info{Verb: verb, Resource: "pods", IsResource: true, Scope: request.Cluster}
	}
	slices.Sort(want)
	if d := w.decide(person("bob"), pods("list")); d.Allowed() || !slices.Equal(d.PartialList().Namespaces, want) {
		t.Errorf("allowed=%v, %d namespaces, want %d", d.Allowed(), len(d.PartialList().Namespaces), len(want))
	}
	if !w.decide(person("vera"), pods("list")).Allowed() {
		t.Error("a role of the cluster is for all namespaces")
	}
	if d := w.decide(person(""), pods("list")); d.Allowed() || d.PartialList() != nil {
		t.Errorf("nobody may use %+v", d)
	}
	if d := w.decide(person("bob"), pods("delete")); d.Allowed() || d.PartialList() != nil {
		t.Errorf("for another verb: %+v", d)
	}
}

func TestDecisionAllocatesNothing(t *testing.T) {
	w := town(t)
	u := person("ed", "a", "b", "system:authenticated")
	for _, r := range []*request.Info{
		ask("delete", "apps/deployments", "d", "ns:n1"), // allowed by the last but one scope
		ask("delete", "/pods", "p", "ns:n1"),            // refused by all
		askPath("get", "/static/images/x"),
	} {
		w.decide(u, r) // makes the reason
		if n := testing.AllocsPerRun(100, func() { w.decide(u, r) }); n != 0 {
			t.Errorf("%+v: %v allocations", *r, n)
		}
	}
}
