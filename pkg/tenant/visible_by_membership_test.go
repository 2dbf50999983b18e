package tenant_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/tenant"
)

const (
	peoplePerPage = 1000 // users that are asked for at once
	iamGroup      = "iam.kubesphere.io"
)

const at = "/kapis/tenant.kubesphere.io/v1beta1"

func sample(t testing.TB) *world {
	w := newWorld(t)
	for ns, workspace := range map[string]string{"a1": "a", "a2": "a", "b1": "b", "free": ""} {
		w.namespace(ns, workspace)
	}
	w.bind("User:viewer", "workspace/a", "get,list tenant.kubesphere.io namespaces,workspaces")
	w.bind("User:member", "workspace/a", "get example.com nothing")
	w.bind("User:project", "namespace/a1", "get example.com nothing")
	w.bind("Group:team", "workspace/b", "get example.com nothing")
	w.bind("Group:team", "namespace/a2", "get example.com nothing")
	w.bind("User:core", "cluster", "list core namespaces")
	w.bind("User:corehere", "workspace/a", "list,get core namespaces")
	w.bind("User:maker", "workspace/a", "create tenant.kubesphere.io namespaces")
	w.bind("User:admin", "", "* * *")
	w.bind("User:fleet", "", "list cluster.kubesphere.io clusters")
	return w
}

// S1, U33: what each user sees, with roles, by membership, and by groups.
func TestWhoSeesWhat(t *testing.T) {
	a := sample(t).authorizer(newFleet(t))
	team := person("somebody", "team")
	for _, c := range []struct {
		name string
		who  user.Info
		line string
		want string
	}{
		{"NobodysWorkspacesAreNone", person("u0"), "GET " + at + "/workspaces", ""},
		{"NobodysTemplatesAreNone", person("u0"), "GET " + at + "/workspacetemplates", ""},
		{"NobodysNamespacesAreNone", person("u0"), "GET " + at + "/namespaces", ""},
		{"NobodysClustersAreThePublicOnes", person("u0"), "GET " + at + "/clusters", "open"},
		{"NobodysMetricsAreAnswered", person("u0"), "GET " + at + "/metrics", ""},
		{"NobodysNamespacesOfAWorkspaceAreNone", person("u0"), "GET " + at + "/workspaces/a/namespaces", ""},
		{"NobodySeesNoWorkspace", person("u0"), "GET " + at + "/workspaces/a", "refused"},
		{"NobodySeesNoNamespace", person("u0"), "GET " + at + "/workspaces/a/namespaces/a1", "refused"},
		{"NobodySeesNoMetricsOfAWorkspace", person("u0"), "GET " + at + "/workspaces/a/metrics", "refused"},
		{"NobodySeesNoClustersOfAWorkspace", person("u0"), "GET " + at + "/workspaces/a/clusters", "refused"},
		{"NobodyAsksForAMembersNamespaces", person("u0"), "GET " + at + "/workspaces/a/workspacemembers/member/namespaces", "refused"},

		{"AMemberSeesHisWorkspace", person("member"), "GET " + at + "/workspaces", "a"},
		{"AMemberSeesItsTemplate", person("member"), "GET " + at + "/workspacetemplates", "a"},
		{"AMemberGetsIt", person("member"), "GET " + at + "/workspaces/a", "all"},
		{"AMemberGetsItInOlderVersions", person("member"), "GET /kapis/tenant.kubesphere.io/v1alpha3/workspacetemplates/a", "all"},
		{"AMemberGetsNoOther", person("member"), "GET " + at + "/workspacetemplates/b", "refused"},
		{"AMemberSeesItsClusters", person("member"), "GET " + at + "/workspaces/a/clusters", "all"},
		{"AMemberSeesItsMetrics", person("member"), "GET " + at + "/workspaces/a/metrics", "all"},
		{"AMemberSeesNoNamespaceThatHeIsNotIn", person("member"), "GET " + at + "/namespaces", ""},
		{"AMemberSeesTheHost", person("member"), "GET " + at + "/clusters", "host open"},
		{"AMemberOfAProjectSeesIt", person("project"), "GET " + at + "/namespaces", "a1"},
		{"AMemberOfAProjectSeesItInItsWorkspace", person("project"), "GET " + at + "/workspaces/a/namespaces", "a1"},
		{"AMemberOfAProjectGetsIt", person("project"), "GET " + at + "/workspaces/a/namespaces/a1", "all"},
		{"AMemberOfAProjectGetsNoOther", person("project"), "GET " + at + "/workspaces/a/namespaces/a2", "refused"},
		{"AMemberOfAProjectIsNoneOfItsWorkspace", person("project"), "GET " + at + "/workspaces/a", "refused"},
		{"GroupsCountInWorkspaces", team, "GET " + at + "/workspaces", "b"},
		{"GroupsCountInNamespaces", team, "GET " + at + "/namespaces", "a2"},
		{"GroupsCountForOne", team, "GET " + at + "/workspaces/b", "all"},

		{"AViewerSeesAllNamespacesOfTheWorkspace", person("viewer"), "GET " + at + "/workspaces/a/namespaces", "all"},
		{"AViewerSeesThemInTheListOfAll", person("viewer"), "GET " + at + "/namespaces", "a1 a2"},
		{"AViewerSeesNoneElsewhere", person("viewer"), "GET " + at + "/workspaces/b/namespaces", "a1 a2"}, // of which none is in b
		{"ARightToTheKindIsOneToTheRoute", person("core"), "GET " + at + "/namespaces", "all"},
		{"ARightToTheKindInAWorkspaceIsOneThere", person("corehere"), "GET " + at + "/workspaces/a/namespaces", "all"},
		{"ARightToTheKindInAWorkspaceIsOneToEach", person("corehere"), "GET " + at + "/workspaces/a/namespaces/a1", "all"},
		{"ARightToTheKindInAWorkspaceShowsInTheListOfAll", person("corehere"), "GET " + at + "/namespaces", "a1 a2"},
		{"ARightToClustersIsOneToTheRoute", person("fleet"), "GET " + at + "/clusters", "all"},
		{"TheAdministratorSeesAll", person("admin"), "GET " + at + "/workspaces", "all"},
		{"GrantedClustersAreSeen", person("bob"), "GET " + at + "/clusters", "given gone open"},
		{"WhoIsBoundInTheClusterSeesTheHost", person("core"), "GET " + at + "/clusters", "host open"},

		{"AWatchIsOfAPartToo", person("member"), "GET " + at + "/workspaces?watch=true", "a"},
		{"CountsAreNotWatched", person("member"), "GET " + at + "/metrics?watch=true", "refused"},
		{"ClustersOfAWorkspaceAreNotWatched", person("member"), "GET " + at + "/workspaces/a/clusters?watch=true", "refused"},
		{"WhoCreatesNamespacesTakesThemIn", person("maker"), "POST " + at + "/workspaces/a/namespaceassignments", "all"},
		{"ElsewhereHeDoesNot", person("maker"), "POST " + at + "/workspaces/b/namespaceassignments", "refused"},
		{"AMemberTakesNothingIn", person("member"), "POST " + at + "/workspaces/a/namespaceassignments", "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := a.Authorize(t.Context(), c.who, asked(t, c.line))
			if got := seen(d); err != nil || got != c.want {
				t.Errorf("%s sees %q, %v; want %q", c.who.GetName(), got, err, c.want)
			}
		})
	}
}

// S1, S3: requests that pages make for every user: the object of a workspace or a cluster that the user sees, and the list of users, in which they see
// themselves.
func TestPagesOfMembersAreAnswered(t *testing.T) {
	a := sample(t).authorizer(newFleet(t))
	const resources, users = "GET /kapis/resources.kubesphere.io/v1alpha3", "GET /kapis/iam.kubesphere.io/v1beta1/users"
	for _, c := range []struct{ name, who, line, want string }{
		{"HisWorkspace", "member", resources + "/workspaces/a", "all"},
		{"NoOther", "member", resources + "/workspaces/b", "refused"},
		{"NobodysWorkspace", "u0", resources + "/workspaces/a", "refused"},
		{"ThePublicCluster", "u0", resources + "/clusters/open", "all"},
		{"NotTheHostOfNobody", "u0", resources + "/clusters/host", "refused"},
		{"TheHostOfAMember", "project", resources + "/clusters/host", "all"},
		{"TheHostByItsPrefix", "project", "GET /clusters/host/kapis/resources.kubesphere.io/v1alpha3/clusters/host", "all"},
		{"NoClusterThatHeDoesNotSee", "project", resources + "/clusters/closed", "refused"},
		{"NotItsParts", "project", resources + "/clusters/host/status", "refused"},
		{"NoWrite", "member", "DELETE /kapis/tenant.kubesphere.io/v1beta1/workspaces/a", "refused"},
		{"OfUsersHimself", "u0", users, "u0"},
		{"OfUsersHimselfWatched", "u0", users + "?watch=true", "u0"},
		{"NoOtherUser", "u0", users + "/member", "refused"},
		{"NoUserIsMade", "u0", "POST /kapis/iam.kubesphere.io/v1beta1/users", "refused"},
		{"NoUsersAreDeleted", "u0", "DELETE /kapis/iam.kubesphere.io/v1beta1/users", "refused"},
		{"NotAtKubeAPIServer", "u0", "GET /apis/iam.kubesphere.io/v1beta1/users", "refused"},
		{"AllForTheAdministrator", "admin", users, "all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := a.Authorize(t.Context(), person(c.who), asked(t, c.line))
			if got := seen(d); err != nil || got != c.want {
				t.Errorf("%s sees %q, %v; want %q", c.who, got, err, c.want)
			}
		})
	}
}

// A caller who may invite finds users by their names, and by no private field.
func TestWhoInvitesSeesTheNamesOfAll(t *testing.T) {
	w := sample(t)
	w.bind("User:host", "workspace/b", "create iam.kubesphere.io workspacemembers")
	w.bind("User:lead", "namespace/a1", "create iam.kubesphere.io namespacemembers")
	w.bind("User:ops", "cluster", "create iam.kubesphere.io clustermembers")
	a := &tenant.Members{Rights: w.index, Bound: &w.bound}
	users := schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"}
	for _, c := range []struct {
		name, who, asked string
		gr               schema.GroupResource
		want             bool
	}{
		{"ToAWorkspace", "host", "sortBy=createTime&limit=10&page=1", users, true},
		{"ToANamespace", "lead", "names=a,b&limit=-1", users, true},
		{"ToTheCluster", "ops", "", users, true},
		{"AMemberDoesNot", "member", "", users, false},
		{"NobodyDoesNot", "u0", "", users, false},
		{"ByNoAddress", "host", "fieldSelector=spec.email%3Da@b", users, false},
		{"ByNoMembership", "host", "workspace=a", users, false},
		{"InNoTellingOrder", "host", "sortBy=.spec.email", users, false},
		{"NotOfOtherKinds", "host", "", schema.GroupResource{Group: "iam.kubesphere.io", Resource: "groups"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			values, err := url.ParseQuery(c.asked)
			if err != nil {
				t.Fatal(err)
			}
			q, err := a.ReducedQuery(request.WithUser(t.Context(), person(c.who)), c.gr, values)
			if err != nil || (q != nil) != c.want {
				t.Fatalf("%+v, %v", q, err)
			}
			if q != nil && !q.Reduced {
				t.Errorf("what it shows is not all that may be seen: %+v", q)
			}
			if q != nil && (len(q.Project) == 0 || slices.ContainsFunc(q.Project, func(p query.Path) bool { return p[0] == "spec" }) || q.Limit > peoplePerPage ||
				q.Limit == query.All) {
				t.Errorf("%+v", q)
			}
		})
	}
}

// O27: lists of what no workspace has any more are empty for everybody, and nothing else is allowed by that.
func TestWhatIsEmptyForAllIsShownToUsers(t *testing.T) {
	o := newWorld(t).authorizer(newFleet(t))
	const root = "/kapis/tenant.kubesphere.io/v1alpha2/"
	for line, want := range map[string]bool{
		"GET " + root + "federatednamespaces": true, "GET " + root + "workspaces/w/federatednamespaces": true,
		"GET " + root + "workspaces/w/devops":                    true,
		"GET " + root + "workspaces/w/workspacemembers/m/devops": true,
		"GET " + root + "devops":                                 false, "GET " + root + "federatednamespaces?watch=true": false,
		"POST " + root + "federatednamespaces":  false,
		"GET " + root + "federatednamespaces/x": false, "GET " + root + "workspaces/w/workspacemembers/m/roles": false,
		"DELETE " + root + "workspaces/w/devops":                      false,
		"GET " + root + "namespaces/n/federatednamespaces":            false,
		"GET /kapis/tenant.kubesphere.io/v1beta1/federatednamespaces": false, "GET /apis/tenant.kubesphere.io/v1alpha2/federatednamespaces": false,
		"PUT " + root + "workspaces/w/workspacemembers/m/devops": false,
	} {
		if d, err := o.Authorize(t.Context(), person("eve"), asked(t, line)); err != nil || d.Allowed() != want {
			t.Errorf("%s: %+v %v, want %v", line, d, err, want)
		}
		nobody := &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
		if d, err := o.Authorize(t.Context(), nobody, asked(t, line)); err != nil || d.Allowed() {
			t.Errorf("%s without a login: %+v %v", line, d, err)
		}
	}
}

// S10: a caller who is not known to be logged in gets nothing, and no one gets anything but reads, nor anything at other paths.
func TestNothingElseIsLetThrough(t *testing.T) {
	a := sample(t).authorizer(newFleet(t))
	lists := []string{
		"GET " + at + "/workspaces",
		"GET " + at + "/namespaces",
		"GET " + at + "/clusters",
		"GET " + at + "/metrics",
		"GET " + at + "/workspaces/a/namespaces",
	}
	for name, who := range map[string]user.Info{
		"Anonymous": &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}},
		"Nameless":  &user.DefaultInfo{Groups: []string{user.AllAuthenticated}},
		"Unproved":  &user.DefaultInfo{Name: "member"},
		"Nobody":    nil,
	} {
		for _, line := range lists {
			if d, err := a.Authorize(t.Context(), who, asked(t, line)); err != nil || d.Allowed() || d.PartialList() != nil {
				t.Errorf("%s: %s: %+v %v", name, line, d, err)
			}
		}
	}
	for _, line := range []string{
		"POST " + at + "/workspaces", "POST " + at + "/workspacetemplates", "PUT " + at + "/workspaces/a", "PATCH " + at + "/workspacetemplates/a",
		"DELETE " + at + "/workspaces/a", "DELETE " + at + "/workspaces", "POST " + at + "/workspaces/a/namespaces", "PUT " + at + "/workspaces/a/namespaces/a1",
		"DELETE " + at + "/workspaces/a/namespaces/a1", "DELETE " + at + "/workspaces/a/namespaces", "GET " + at + "/workspaces/a/resourcequotas/a",
		"GET " + at + "/workspaces/a/status", "GET " + at + "/workspaces/a/namespaces/a1/pods", "GET " + at + "/watch/workspaces/a", "GET " + at + "/secrets",
		"GET /apis/tenant.kubesphere.io/v1beta1/workspaces", "GET /kapis/resources.kubesphere.io/v1alpha3/namespaces", "GET /kapi/v1/namespaces",
		"GET /kapis/iam.kubesphere.io/v1beta1/workspaces/a/workspacemembers",
	} {
		i := asked(t, line)
		before, _ := a.Authorizers.Authorize(t.Context(), person("member"), i)
		if d, err := a.Authorize(t.Context(), person("member"), i); err != nil || d.Allowed() || seen(d) != seen(before) {
			t.Errorf("%s: %+v %v", line, d, err)
		}
	}
}

func TestWhatCannotBeToldIsAnError(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	a := &authz.Order{Members: &tenant.Members{Bound: &bound{}}, Authorizers: authz.Union{authz.Func(func(context.Context, user.Info, *request.Info) (
		authz.Decision, error,
	) {
		if calls++; calls > 1 {
			return authz.Decision{}, broken
		}
		return authz.Decision{}, nil
	})}}
	for _, path := range []string{"/namespaces", "/clusters", "/workspaces/a/namespaces", "/workspaces/a/namespaces/a1"} {
		calls = 0
		if d, err := a.Authorize(t.Context(), person("u"), asked(t, "GET "+at+path)); !errors.Is(err, broken) || d.Allowed() || d.PartialList() != nil {
			t.Errorf("%s: %+v %v", path, d, err)
		}
	}
}

// The visible set equals what a full walk finds: where the user is bound, and where the same list is allowed.
func TestVisibleSetIsTheNaiveOne(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		for n := range 12 {
			workspace := ""
			if k := r.IntN(5); k > 0 {
				workspace = fmt.Sprintf("w%d", k)
			}
			w.namespace(fmt.Sprintf("n%d", n), workspace)
		}
		rules := []string{
			"list tenant.kubesphere.io namespaces",
			"list core namespaces",
			"list tenant.kubesphere.io workspaces,workspacetemplates",
			"get x y",
			"* * *",
		}
		subjects := []string{"User:u", "Group:g", "Group:h", "User:other"}
		for range 10 {
			place := fmt.Sprintf("namespace/n%d", r.IntN(14))
			if r.IntN(2) == 0 {
				place = fmt.Sprintf("workspace/w%d", 1+r.IntN(5))
			}
			w.bind(subjects[r.IntN(len(subjects))], place, rules[r.IntN(len(rules))])
		}
		a, u := w.authorizer(nil), person("u", "g")
		if got, want := list(t, a, u, "/namespaces"), naiveNamespaces(t, w, u); got != want {
			t.Fatalf("seed %d: namespaces %q, want %q", seed, got, want)
		}
		for _, plural := range []string{"/workspaces", "/workspacetemplates"} {
			if got, want := list(t, a, u, plural), naiveWorkspaces(w, u); got != want {
				t.Fatalf("seed %d: %s %q, want %q", seed, plural, got, want)
			}
		}
	}
}

func list(t *testing.T, a *authz.Order, u user.Info, path string) string {
	t.Helper()
	d, err := a.Authorize(t.Context(), u, asked(t, "GET "+at+path))
	if err != nil {
		t.Fatal(err)
	}
	return seen(d)
}

// memberships returns where the user is bound: an empty list for nowhere.
func memberships(w *world, u user.Info) *authz.PartialList {
	if in, _ := w.bound.Memberships(u); in != nil {
		return in
	}
	return &authz.PartialList{}
}

func naiveNamespaces(t *testing.T, w *world, u user.Info) string {
	t.Helper()
	names := map[string]bool{}
	in := memberships(w, u)
	for _, n := range in.Namespaces {
		names[n] = true
	}
	for n := range w.of {
		for _, line := range []string{"GET " + at + "/namespaces/" + n + "/namespaces", "GET /kapi/v1/namespaces/" + n + "/namespaces"} {
			i := asked(t, line)
			i.Name = ""
			if d, _ := w.index.Authorize(t.Context(), u, i); d.Allowed() {
				names[n] = true
			}
		}
	}
	return joined(names)
}

func naiveWorkspaces(w *world, u user.Info) string {
	names := map[string]bool{}
	in := memberships(w, u)
	for _, n := range in.Workspaces {
		names[n] = true
	}
	return joined(names)
}

func joined(set map[string]bool) string {
	var out []string
	for n := range set {
		out = append(out, n)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// U18: 5 000 namespaces and 5 000 bindings of one user; no request is made.
func BenchmarkVisibleNamespaces(b *testing.B) {
	w := newWorld(b)
	for n := range 5000 {
		name := fmt.Sprintf("namespace-%04d", n)
		w.namespace(name, fmt.Sprintf("workspace-%03d", n%1000))
		w.bind("User:u", "namespace/"+name, "get core pods")
	}
	u, i := person("u"), asked(b, "GET "+at+"/namespaces")
	a := w.authorizer(nil)
	run := func(b *testing.B, before func()) {
		b.ReportAllocs()
		for range b.N {
			before()
			if d, err := a.Authorize(b.Context(), u, i); err != nil || len(d.PartialList().Namespaces) != 5000 {
				b.Fatal(err)
			}
		}
	}
	b.Run("warm", func(b *testing.B) {
		w.bound.known = map[string]*authz.PartialList{}
		run(b, func() {})
	})
	b.Run("cold", func(b *testing.B) {
		w.bound.known = nil
		n := 0
		run(b, func() { n++; w.namespace("changes", fmt.Sprintf("w%d", n)) })
	})
}

// reads is a policy that allows every read of two groups.
type reads struct{}

func (reads) Allows(_ context.Context, _ user.Info, r *request.Info) (bool, error) {
	return r.APIGroup == tenant.Group || r.APIGroup == iamGroup, nil
}

// Older installations let every user read everything in the group by a policy in Rego, and answer with what is theirs.
func TestAPolicyForAllReadsShowsOnesOwn(t *testing.T) {
	w := newWorld(t)
	w.index.CompilePolicies(func(string) (rbac.Policy, error) { return reads{}, nil })
	w.namespace("a1", "a")
	w.bind("User:member", "workspace/a", "get,list tenant.kubesphere.io namespaces")
	w.set("globalroles", "", "authenticated", map[string]any{"metadata": map[string]any{"annotations": map[string]string{"iam.kubesphere.io/rego-override": "x"}}})
	w.set("globalrolebindings", "", "authenticated", map[string]any{
		"roleRef":  map[string]string{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "authenticated"},
		"subjects": []any{map[string]string{"kind": "Group", "name": user.AllAuthenticated}},
	})
	a := w.authorizer(newFleet(t))
	for line, want := range map[string]string{
		at + "/workspaces": "a", at + "/namespaces": "a1", at + "/workspaces/a": "all", at + "/workspaces/b": "refused", at +
			"/workspaces/b/namespaces/b1": "refused",
		"/kapis/iam.kubesphere.io/v1beta1/users": "all", // elsewhere it counts as it stands
	} {
		d, err := a.Authorize(t.Context(), person("member"), asked(t, "GET "+line))
		if got := seen(d); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
}
