package rbac

import (
	"fmt"
	"runtime"
	"testing"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

func (w *world) rulesOf(t *testing.T, namespace, name string) *rules {
	t.Helper()
	w.index.mu.Lock()
	defer w.index.mu.Unlock()
	r := w.index.roles[roleKey{request.Namespace, namespace, name}]
	if r == nil || r.content.Load() == nil {
		t.Fatalf("there is no role %s/%s", namespace, name)
	}
	return r.content.Load().rules
}

func TestRolesWithTheSameRulesShareThem(t *testing.T) {
	w := newWorld(t)
	w.role("roles", "a/viewer", rule("get", "", "pods"))
	w.role("roles", "b/viewer", rule("get", "", "pods"))
	w.role("roles", "b/other", rule("get", "", "secrets"))
	w.bind("rolebindings", "a/x", "", "viewer", "User:ann")
	w.bind("rolebindings", "b/x", "", "viewer", "User:ann")
	if w.rulesOf(t, "a", "viewer") != w.rulesOf(t, "b", "viewer") {
		t.Error("the same rules are kept twice")
	}
	if w.rulesOf(t, "b", "other") == w.rulesOf(t, "b", "viewer") {
		t.Error("other rules are the same")
	}
	w.role("roles", "a/viewer", rule("list", "", "pods")) // of one alone
	for _, c := range []struct {
		verb, namespace string
		want            bool
	}{{"get", "a", false}, {"list", "a", true}, {"get", "b", true}, {"list", "b", false}} {
		if d, err := w.index.Authorize(t.Context(), person("ann"), ask(c.verb, "/pods", "x", "ns:"+c.namespace)); err != nil || d.Allowed() != c.want {
			t.Errorf("%s in %s: %t %v", c.verb, c.namespace, d.Allowed(), err)
		}
	}
}

func TestARoleWhoseRulesCannotBeReadGrantsNothing(t *testing.T) {
	w := newWorld(t)
	w.role("roles", "a/viewer", rule("get", "", "pods"))
	w.bind("rolebindings", "a/x", "", "viewer", "User:ann")
	w.sink("roles").Set(&store.Object{Namespace: "a", Name: "viewer", Raw: []byte(`{"rules":"all"}`)})
	if d, err := w.index.Authorize(t.Context(), person("ann"), ask("get", "/pods", "x", "ns:a")); err != nil || d.Allowed() {
		t.Errorf("allowed %t %v", d.Allowed(), err)
	}
}

func TestRulesThatNobodyHasAreForgotten(t *testing.T) {
	var s interned[rules]
	for i := range 100 {
		if _, err := s.of(fmt.Appendf(nil, `[{"verbs":["get"],"apiGroups":[""],"resources":["kind%d"]}]`, i), readRules); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := s.of([]byte(`[]`), readRules)
	if err != nil {
		t.Fatal(err)
	}
	for left := 101; left > 1; { // until the garbage collector has run the cleanups, or the test's deadline
		runtime.GC()
		runtime.Gosched()
		s.mu.Lock()
		left = len(s.byText)
		s.mu.Unlock()
	}
	if again, err := s.of([]byte(`[]`), readRules); err != nil || again != kept {
		t.Errorf("rules that somebody has were made anew: %v", err)
	}
	runtime.KeepAlive(kept)
}
