package resource

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

func parsed(t testing.TB, raw string) *query.Query {
	t.Helper()
	v, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	q, err := query.Parse(v)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestFreeText(t *testing.T) {
	w := newCluster(t, map[string][]string{"/api/v1/pods": {
		obj(
			"a/web-1",
			labelled("app.kubernetes.io/name", "Shop"),
			"",
		),
		obj("a/web-2", `"annotations":{"kubesphere.io/alias-name":"Front \"door\"","k":"image nginx:1.27"}`, ""),
		obj("a/db", `"annotations":{"note":"Ähre <b>\nline"}`, ""),
	}}, Options{})
	pods := w.resolve(t, "", "pods")
	for text, want := range map[string]string{
		"WEB": "web-1 web-2", "shop": "web-1", "web shop": "web-1", "shop db": "", "kubernetes.io/NAME": "web-1", `"door"`: "web-2", "nginx:1.27": "web-2",
		"front nginx web": "web-2",
		"ähre":            "db", "ÄHRE": "db", "<b>": "db", "line": "db", "nline": "", "u003c": "", ":": "web-2", ",": "", "{": "", "  ": "db web-1 web-2", `":"`: "",
		"last-applied": "",
	} {
		if got := namesOf(w.keys(t, pods, plan.Scope{}, "q="+url.QueryEscape(text)), true); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestExpressionsFilter(t *testing.T) {
	var pods []string
	for i := range 20 {
		pods = append(pods, obj(fmt.Sprintf("a/p%02d", i), "", fmt.Sprintf(`"spec":{"n":%d},"status":{"phase":%q}`, i, []string{"Running", "Pending"}[i%2])))
	}
	w := newCluster(t, map[string][]string{"/api/v1/pods": pods}, Options{})
	kind := w.resolve(t, "", "pods")
	ask := func(expression, more string) (*page.Page, error) {
		return w.list(t, kind, plan.Scope{}, "cel="+url.QueryEscape(expression)+more)
	}
	for expression, want := range map[string]int{
		"object.spec.n >= 15": 5, "object.spec.n >= 15 && object.status.phase == 'Running'": 2, "object.spec.absent == 1": 0, "!has(object.spec.absent)": 20,
		"object.spec.n": 0, "true": 20,
	} {
		if p, err := ask(expression, "&limit=3&sortBy=.spec.n"); err != nil || p.Total != want {
			t.Errorf("%s: %v %v", expression, p, err)
		}
	}
	for expression, says := range map[string]string{
		"object.spec.n >": "line 1, column 16", "subject == 1": "undeclared", "1": "true or false",
		"[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, a+b+c+d > 0))))": "costs less",
	} {
		_, err := ask(expression, "")
		if code(err) != 400 || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), `"cel"`) {
			t.Errorf("%s: %v", expression, err)
		}
		if _, again := ask(expression, ""); again == nil || again.Error() != err.Error() {
			t.Errorf("%s, asked again: %v", expression, again)
		}
	}
}

// S1: an expression is never evaluated for an object that its caller may not see, so neither its answer nor its cost reveals it.
func TestExpressionsSeeNothingOutOfScope(t *testing.T) {
	w := newCluster(t, tenants(), Options{})
	kind := w.resolve(t, "", "pods")
	for _, scope := range []plan.Scope{{Namespace: "a"}, {Workspace: "w1"}, {Workspace: "w2", Namespace: "b"}} {
		b, err := w.planner.Plan(t.Context(), kind, scope, parsed(t, "cel=true"))
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Conditions) == 0 {
			t.Fatal("no conditions")
		}
		last := &b.Conditions[len(b.Conditions)-1]
		expression := last.Holds
		last.Holds = func(r *index.Record) bool {
			tenancy, err := w.planner.NamespaceOwners(t.Context())
			if err != nil || scope.Namespace != "" && r.Namespace != scope.Namespace || scope.Workspace != "" && !tenancy.Has(r, scope.Workspace) {
				t.Errorf("%+v: the expression sees %s/%s", scope, r.Namespace, r.Name)
			}
			return expression(r)
		}
		snap, err := w.store.Snapshot(t.Context(), kind.GVR)
		if err != nil {
			t.Fatal(err)
		}
		if m, _, _, err := w.execute(snap, b); err != nil || m.Len() == 0 {
			t.Errorf("%+v: %v", scope, err)
		}
	}
}
