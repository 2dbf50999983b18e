package resource

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

// tenants are pods, widgets and gadgets of two workspaces. Namespace a is in w1, b in w2, free in none; labels of pods make false claims.
func tenants() map[string][]string {
	return map[string][]string{
		"/api/v1/namespaces": {obj("a", labelled(plan.WorkspaceLabel, "w1"), ""), obj("b", labelled(plan.WorkspaceLabel, "w2"), ""), obj("free", "", "")},
		"/api/v1/pods": {
			obj("a/mine", "", ""),
			obj("a/says-w2", labelled(plan.WorkspaceLabel, "w2"), ""),
			obj("b/theirs", "", ""),
			obj("b/says-w1", labelled(plan.WorkspaceLabel, "w1", "app", "x"), ""),
			obj(
				"free/nobodys",
				"",
				"",
			),
			obj("free/labelled", labelled(plan.WorkspaceLabel, "w1"), ""),
			obj("unknown/labelled-too", labelled(plan.WorkspaceLabel, "w1"), ""),
		},
		"/apis/example.com/v1/gadgets": {
			obj("g1", labelled(plan.WorkspaceLabel, "w1"), ""),
			obj("g2", labelled(plan.WorkspaceLabel, "w2"), ""),
			obj("g3", "", ""),
		},
		"/apis/" + "tenant.kubesphere.io" + "/v1beta1/workspaces":         {obj("w1", "", ""), obj("w2", "", "")},
		"/apis/" + "tenant.kubesphere.io" + "/v1beta1/workspacetemplates": {obj("w1", "", ""), obj("w2", "", "")},
		"/apis/" + "iam.kubesphere.io" + "/v1beta1/workspaceroles": {
			obj("r1", labelled(plan.WorkspaceLabel, "w1"), ""),
			obj("r2", labelled(plan.WorkspaceLabel, "w2"), ""),
		},
	}
}

// filtersOfAnybody are filters that any caller may add; none of them widens what the scope shows.
var filtersOfAnybody = []string{
	"",
	"labelSelector=kubesphere.io/workspace|!kubesphere.io/workspace",
	"label=kubesphere.io/workspace",
	"names=mine,theirs,says-w1,says-w2,g1,g2,g3,a,b,free,w1,w2,nobodys,labelled",
	"name=",
	"sortBy=name",
	"sortBy=.metadata.labels['kubesphere.io/workspace']",
	"cel=true",
	"annotation=!x",
	"fieldSelector=metadata.name!=x",
	"workspace=w2",
	"workspace=w1",
}

// S1: an object shows in a workspace by its namespace, and by its label only where no other workspace has it.
func TestWorkspacesShowWhatIsTheirs(t *testing.T) {
	w := newCluster(t, tenants(), Options{})
	pods, gadgets, namespaces := w.resolve(t, "", "pods"), w.resolve(t, "example.com", "gadgets"), w.resolve(t, "", "namespaces")
	for _, raw := range filtersOfAnybody {
		for _, c := range []struct {
			scope               plan.Scope
			pods, gadgets, name string
		}{
			{plan.Scope{Workspace: "w1"}, "a/mine a/says-w2 free/labelled unknown/labelled-too", "/g1", "/a"},
			{plan.Scope{Workspace: "w2"}, "b/says-w1 b/theirs", "/g2", "/b"},
			{plan.Scope{Workspace: "w3"}, "", "", ""},
			{plan.Scope{Workspace: "w1", Namespace: "a"}, "a/mine a/says-w2", "", ""},
			{plan.Scope{Workspace: "w1", Namespace: "b"}, "", "", ""},
			{plan.Scope{Workspace: "w1", Namespace: "free"}, "free/labelled", "", ""},
			{plan.Scope{Workspace: "w2", Namespace: "free"}, "", "", ""},
		} {
			within(t, sorted(w.keys(t, pods, c.scope, raw)), c.pods, raw, c.scope)
			if c.scope.Namespace == "" {
				if !strings.HasPrefix(raw, "workspace=") {
					within(t, sorted(w.keys(t, gadgets, c.scope, raw)), c.gadgets, raw, c.scope)
				}
				within(t, sorted(w.keys(t, namespaces, c.scope, raw)), c.name, raw, c.scope)
			}
		}
	}
	for _, c := range []struct {
		scope plan.Scope
		name  string
		code  int32
	}{
		{plan.Scope{Workspace: "w1", Namespace: "a"}, "mine", 0}, {plan.Scope{Workspace: "w1", Namespace: "a"}, "says-w2", 0},
		{plan.Scope{Workspace: "w2", Namespace: "a"}, "says-w2", 404},
		{plan.Scope{Workspace: "w1", Namespace: "b"}, "says-w1", 404}, {plan.Scope{Workspace: "w2", Namespace: "b"}, "theirs", 0},
		{plan.Scope{Workspace: "w1", Namespace: "free"}, "labelled", 0},
		{plan.Scope{Workspace: "w1", Namespace: "free"}, "nobodys", 404}, {plan.Scope{Workspace: "w2", Namespace: "free"}, "labelled", 404},
	} {
		if _, err := w.Get(context.Background(), pods, c.scope, c.name); code(err) != c.code {
			t.Errorf("get %s of %+v: %v", c.name, c.scope, err)
		}
	}
	for name, want := range map[string]int32{"g1": 0, "g2": http.StatusNotFound, "g3": http.StatusNotFound} {
		if _, err := w.Get(context.Background(), gadgets, plan.Scope{Workspace: "w1"}, name); code(err) != want {
			t.Errorf("get %s: %v", name, err)
		}
	}
}

func sorted(keys string) string {
	f := strings.Fields(keys)
	slices.Sort(f)
	return strings.Join(f, " ")
}

// within checks that the answer is all that the scope shows where there is no filter by name, and never more.
func within(t *testing.T, got, all, raw string, scope any) {
	t.Helper()
	for key := range strings.FieldsSeq(got) {
		if !slices.Contains(strings.Fields(all), key) {
			t.Errorf("%s in %+v shows %s", raw, scope, key)
		}
	}
	if !strings.HasPrefix(raw, "name") && !strings.HasPrefix(raw, "label=") && !strings.HasPrefix(raw, "workspace=") && got != all {
		t.Errorf("%s in %+v: %q, want %q", raw, scope, got, all)
	}
}

func TestPartsShowWhatTheCallerMaySee(t *testing.T) {
	w := newCluster(t, tenants(), Options{})
	part := &authz.PartialList{Namespaces: []string{"a", "free"}, Workspaces: []string{"w1"}, Key: "1"}
	one := &authz.PartialList{Namespaces: []string{"b"}, Key: "2"}
	for _, c := range []struct {
		group, resource, want, ofOne string
	}{
		{"", "pods", "a/mine a/says-w2 free/labelled free/nobodys", "b/says-w1 b/theirs"},
		{"", "namespaces", "/a /free", "/b"},
		{"tenant.kubesphere.io", "workspaces", "/w1", ""}, {"tenant.kubesphere.io", "workspacetemplates", "/w1", ""},
		{"example.com", "gadgets", "/g1", "refused"}, {"iam.kubesphere.io", "workspaceroles", "/r1", "refused"},
	} {
		kind := w.resolve(t, c.group, c.resource)
		for _, raw := range filtersOfAnybody {
			if c.resource == "workspaceroles" && strings.HasPrefix(raw, "workspace=") {
				continue // a filter of this kind
			}
			for p, want := range map[*authz.PartialList]string{part: c.want, one: c.ofOne} {
				page, err := w.list(t, kind, plan.Scope{PartialList: p}, raw)
				if want == "refused" {
					if !errors.Is(err, plan.ErrNotVisible) || code(err) != http.StatusForbidden {
						t.Errorf("%s: %v", c.resource, err)
					}
					continue
				}
				if err != nil || !page.Partial || page.Total != page.Len() {
					t.Fatalf("%s?%s: %v %+v", c.resource, raw, err, page)
				}
				within(t, sorted(strings.Join(keysOf(t, page), " ")), want, raw, *p)
			}
		}
		if page, err := w.list(t, kind, plan.Scope{}, ""); err != nil || page.Partial {
			t.Errorf("%s of all is partial, or %v", c.resource, err)
		}
	}
	pods := w.resolve(t, "", "pods")
	if got := w.keys(t, pods, plan.Scope{PartialList: part, Namespace: "b"}, ""); got != "" {
		t.Errorf("a namespace outside of the part shows %s", got)
	}
	if got := w.keys(t, pods, plan.Scope{PartialList: part, Namespace: "a"}, ""); sorted(got) != "a/mine a/says-w2" {
		t.Errorf("a namespace of the part shows %s", got)
	}
	if got := w.keys(t, pods, plan.Scope{PartialList: &authz.PartialList{Workspaces: []string{"w1"}, Key: "3"}}, ""); got != "" {
		t.Errorf("a part without namespaces shows %s", got)
	}
}

// The answer to one caller is never the answer to another who may see something else.
func TestResultKeysTellScopesApart(t *testing.T) {
	w := newCluster(t, tenants(), Options{})
	kind, seen := w.resolve(t, "", "pods"), map[string]string{}
	for _, scope := range []plan.Scope{
		{}, {Namespace: "a"}, {Namespace: "b"}, {Workspace: "a"}, {Workspace: "w1"}, {Namespace: "a", Workspace: "w1"}, {Namespace: "w1", Workspace: "a"},
		{PartialList: &authz.PartialList{Key: ""}}, {PartialList: &authz.PartialList{Key: "a"}}, {PartialList: &authz.PartialList{Key: "b"}},
		{PartialList: &authz.PartialList{Key: "a"}, Workspace: "w1"},
	} {
		if scope.PartialList != nil {
			scope.PartialList.Namespaces = []string{"a"}
		}
		for _, raw := range []string{"name=x", "name=xx", "serviceName=x", "sortBy=name", "status=a", "phase=a", "status=a&phase=b", "status=a&phase=b&name=x", "q=x",
			"cel=true", "q=x&cel=true"} {
			q := parsed(t, raw)
			b, err := w.planner.Plan(context.Background(), kind, scope, q)
			if err != nil {
				t.Fatal(err)
			}
			what := fmt.Sprintf("%+v %+v %s", scope, scope.PartialList, raw)
			key := string(b.ResultKey(nil))
			if other, ok := seen[key]; ok {
				t.Errorf("%s has the key of %s", what, other)
			}
			seen[key] = what
		}
	}
}

func TestServedOnlyServesWhatIsLabelled(t *testing.T) {
	definitions := map[string][]string{"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
		obj(
			"widgets.example.com",
			labelled(servedLabel, "true"),
			"",
		),
		obj("gadgets.example.com", labelled(servedLabel, "false"), ""),
		obj("users.iam.kubesphere.io", "", ""),
	}}
	only, all := newCluster(t, definitions, Options{ServedOnly: true}), newCluster(t, definitions, Options{})
	for _, c := range []struct {
		group, resource string
		code            int32
	}{
		{"", "pods", 0}, {"apps", "deployments", 0}, {"storage.k8s.io", "storageclasses", 0}, {"iam.kubesphere.io", "users", 0}, {"example.com", "widgets", 0},
		{"example.com", "gadgets", 404},
	} {
		if err := only.Served(context.Background(), only.resolve(t, c.group, c.resource)); code(err) != c.code {
			t.Errorf("%s: %v", c.resource, err)
		}
		if err := all.Served(context.Background(), all.resolve(t, c.group, c.resource)); err != nil {
			t.Errorf("%s, where all are served: %v", c.resource, err)
		}
	}
}

// A term that is not the whole condition must never be the answer by itself.
func TestTermsThatNarrowAreNotTheAnswer(t *testing.T) {
	w := newCluster(t, tenants(), Options{})
	kind := w.resolve(t, "", "pods")
	b, err := w.planner.Plan(t.Context(), kind, plan.Scope{Workspace: "w3"}, parsed(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := w.store.Snapshot(t.Context(), kind.GVR)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Direct(snap); ok {
		t.Error("the index alone answers")
	}
	if !slices.ContainsFunc(b.Conditions, func(c plan.Condition) bool { return len(c.Terms) == 0 }) {
		t.Error("nothing checks")
	}
}

func TestTenancyIsMadeOnceForAMoment(t *testing.T) {
	w := newCluster(t, tenants(), Options{})
	first, err := w.planner.NamespaceOwners(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.planner.NamespaceOwners(context.Background()); err != nil || again != first {
		t.Error("it was made twice")
	}
}
