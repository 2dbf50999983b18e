package iam_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/removal"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// estate has a workspace with two namespaces and a group, another workspace, and eve, who has something everywhere.
func estate(t *testing.T, change func(objects)) *world {
	t.Helper()
	o := objects{}
	in := map[string]string{"kubesphere.io/workspace": "demo"}
	for _, name := range []string{"boss", "eve", "ann"} {
		o.user(name)
	}
	spec := func(manager string) map[string]any {
		return map[string]any{"spec": map[string]string{"manager": manager}}
	}
	o.add("/apis/tenant.kubesphere.io/v1beta1/workspaces", "", "demo", nil, spec("boss"))
	o.add("/apis/tenant.kubesphere.io/v1beta1/workspaces", "", "other", nil, spec("eve"))
	for name, labels := range map[string]map[string]string{"made": in, "joined": in, "elsewhere": {"kubesphere.io/workspace": "other"}, "free": nil} {
		o.add("/api/v1/namespaces", "", name, labels, nil)
		at := authz.BindingScope{Scope: request.Namespace, Namespace: name}
		o.role(&binding.Namespace, at, "admin", "*")
		o.bind(&binding.Namespace, at, "eve-admin", "admin", "eve")
	}
	o.bind(&binding.Namespace, authz.BindingScope{Scope: request.Namespace, Namespace: "joined"}, "both", "admin", "eve", "ann")
	o.role(&binding.Workspace, demo, "demo-regular", "pods")
	o.bind(&binding.Workspace, demo, "eve-demo-regular", "demo-regular", "eve")
	o.add(iamPath+"groups", "", "devs", in, nil)
	o.add(iamPath+"groups", "", "theirs", map[string]string{"kubesphere.io/workspace": "other"}, nil)
	for name, group := range map[string]string{"alone": "devs", "theirs": "theirs"} {
		labels := in
		if group == "theirs" {
			labels = map[string]string{"kubesphere.io/workspace": "other"}
		}
		o.add(iamPath+"groupbindings", "", name, labels, map[string]any{"groupRef": map[string]string{"name": group}, "users": []string{"eve"}})
	}
	o.add(iamPath+"groupbindings", "", "many", in, map[string]any{"groupRef": map[string]string{"name": "devs"}, "users": []string{"ann", "eve"}})
	if change != nil {
		change(o)
	}
	return newWorld(t).within(o)
}

// kinds shortens what was sent to the method, the namespace and the name of each binding.
func kinds(sent []string) (out []string) {
	for _, s := range sent {
		line, _, _ := strings.Cut(s, " {")
		out = append(out, strings.ReplaceAll(line, iamPath, ""))
	}
	return out
}

func TestS67WhoIsRemovedFromAWorkspaceKeepsNothingInIt(t *testing.T) {
	w := estate(t, nil)
	answer := w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", "")
	got := kinds(w.changes())
	want := []string{
		"PUT namespaces/joined/rolebindings/both", "DELETE namespaces/joined/rolebindings/eve-admin", "DELETE namespaces/made/rolebindings/eve-admin",
		"DELETE groupbindings/alone", "PUT groupbindings/many", "DELETE workspacerolebindings/eve-demo-regular",
	}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q", got)
	}
	for _, s := range w.changes() {
		if strings.HasPrefix(s, "PUT") && (strings.Contains(s, `"eve"`) || !strings.Contains(s, `"ann"`) || !strings.Contains(s, `"resourceVersion":"5"`)) {
			t.Errorf("wrote %s", s)
		}
	}
	var told removal.Removal
	if err := json.Unmarshal([]byte(answer), &told); err != nil || told.Message != "success" || len(told.Removed) != len(want) ||
		told.Removed[0] != (removal.Removed{Resource: "rolebindings", Namespace: "joined", Name: "both"}) ||
		told.Removed[5] != (removal.Removed{Resource: "workspacerolebindings", Name: "eve-demo-regular"}) {
		t.Errorf("answered %s: %v", answer, err)
	}
	t.Run("ByTheOlderName", func(t *testing.T) {
		w := estate(t, nil)
		w.want(200, as("boss"), http.MethodDelete, "/kapis/iam.kubesphere.io/v1alpha2"+inDemo+"/eve", "")
		if got := kinds(w.changes()); !slices.Equal(got, want) {
			t.Errorf("sent %q", got)
		}
	})
	t.Run("WithoutEffectWhereThatIsAskedFor", func(t *testing.T) {
		w := estate(t, nil)
		w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve?dryRun=All", "")
		for _, s := range w.changes() {
			if !isDry(s) {
				t.Errorf("in earnest: %s", s)
			}
		}
		if len(w.changes()) != len(want) {
			t.Errorf("%d writes", len(w.changes()))
		}
	})
	t.Run("AlsoWhoIsInANamespaceOnly", func(t *testing.T) {
		w := estate(t, func(o objects) { delete(o, iamPath+"workspacerolebindings") })
		w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", "")
		if n := len(w.changes()); n != len(want)-1 {
			t.Errorf("%d writes", n)
		}
		w.want(400, as("boss"), http.MethodDelete, inDemo+"/stranger", "")
	})
	t.Run("ANamespaceAlone", func(t *testing.T) {
		w := estate(t, nil)
		w.want(200, as("boss"), http.MethodDelete, "/namespaces/made/namespacemembers/eve", "")
		if got := kinds(w.changes()); !slices.Equal(got, []string{"DELETE namespaces/made/rolebindings/eve-admin"}) {
			t.Errorf("sent %q", got)
		}
	})
}

// Nothing is written for a caller who may not remove all of it, and each binding that they may not remove is named.
func TestS67ARemovalIsAuthorizedWholeBeforeItIsBegun(t *testing.T) {
	deny := func(w *world, no func(*request.Info) bool) {
		w.h.Authorizer = authz.Func(func(_ context.Context, _ user.Info, i *request.Info) (authz.Decision, error) {
			if i.Verb == "delete" && i.Resource == "namespacemembers" && (i.Name != "eve" || i.Scope != request.Namespace || i.Namespace == "") {
				t.Errorf("asked about %+v", i)
			}
			if no(i) {
				return authz.Decision{}, nil
			}
			return authz.Allow("", "kapis:namespace:test"), nil
		})
	}
	for name, c := range map[string]struct {
		prepare func(*world)
		says    []string
	}{
		"ANamespace": {func(w *world) { deny(w, func(i *request.Info) bool { return i.Namespace == "made" }) }, []string{"rolebindings made/eve-admin"}},
		"AllOfThem": {func(w *world) { deny(w, func(i *request.Info) bool { return i.Namespace != "" }) },
			[]string{"rolebindings made/eve-admin", "rolebindings joined/eve-admin", "rolebindings joined/both"}},
		"AGroup": {func(w *world) {
			deny(w, func(i *request.Info) bool { return i.Resource == "groupbindings" && i.Verb == "delete" })
		}, []string{"groupbindings alone"}},
		"AChangeOfAGroup": {func(w *world) {
			deny(w, func(i *request.Info) bool { return i.Resource == "groupbindings" && i.Verb == "update" })
		}, []string{"groupbindings many"}},
		"TheGuardSaysNo": {func(w *world) { w.forbidden["delete rolebindings eve-admin"] = true }, []string{"rolebindings made/eve-admin",
			"rolebindings joined/eve-admin"}},
		"TheWorkspacesOwn": {func(w *world) { w.forbidden["delete workspacerolebindings eve-demo-regular"] = true },
			[]string{"workspacerolebindings eve-demo-regular"}},
		"TheGuardOfAGroup": {func(w *world) { w.forbidden["update groupbindings many"] = true }, []string{"groupbindings many"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := estate(t, nil)
			c.prepare(w)
			removesNothing(t, w, c.says...)
		})
	}
	// in has eve in groups of the workspace by her User alone, or by a binding too that was removed a moment ago.
	in := func(annotations map[string]string) func(objects) {
		return func(o objects) {
			o.add(iamPath+"groups", "", "devs2", map[string]string{"kubesphere.io/workspace": "demo"}, nil)
			for _, one := range o[iamPath+"users"] {
				u := one.(map[string]any)
				if meta := u["metadata"].(map[string]any); meta["name"] == "eve" {
					meta["annotations"], u["spec"] = annotations, map[string]any{"groups": []string{"devs2"}}
				}
			}
		}
	}
	t.Run("ByTheUserHimself", func(t *testing.T) {
		removesNothing(t, estate(t, in(nil)), "devs2")
	})
	t.Run("NotByABindingThatIsGone", func(t *testing.T) {
		w := estate(t, in(map[string]string{"kapis.dev/bound-groups": "devs2"}))
		w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", "")
	})
}

// removesNothing checks that eve is not removed, and that it is said why.
func removesNothing(t *testing.T, w *world, says ...string) {
	t.Helper()
	answer := w.want(403, as("boss"), http.MethodDelete, inDemo+"/eve", "")
	for _, text := range append(says, "nothing was written") {
		if !strings.Contains(answer, text) {
			t.Errorf("%q is not in %s", text, answer)
		}
	}
	if len(w.sent) != 0 {
		t.Errorf("sent %q", w.sent)
	}
}

// A user who would be bound again at once is not removed.
func TestS67WhoComesBackIsNotRemoved(t *testing.T) {
	young := func(annotations string, labels map[string]string) func(objects) {
		return func(o objects) {
			o["/api/v1/namespaces"] = append(o["/api/v1/namespaces"],
				json.RawMessage(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"young","uid":"u","resourceVersion":"5","labels":`+
					encodeText(labels)+`,"annotations":`+annotations+`}}`))
		}
	}
	managed := map[string]string{"kubesphere.io/workspace": "demo", "kubesphere.io/managed": "true"}
	for name, c := range map[string]struct {
		change func(objects)
		code   int
		member string
	}{
		"TheManager":                 {nil, 409, "boss"},
		"TheManagerOfAnother":        {nil, 200, "eve"},
		"TheCreatorOfOneThatIsMade":  {young(`{"kubesphere.io/creator":"eve"}`, managed), 409, "eve"},
		"TheCreatorOfOneThatWasMade": {young(`{"kubesphere.io/creator":"eve","kapis.dev/initialized":"true"}`, managed), 200, "eve"},
		"AnotherIsTheCreator":        {young(`{"kubesphere.io/creator":"ann"}`, managed), 200, "eve"},
		"TheCreatorOfAnUnmanagedOne": {young(`{"kubesphere.io/creator":"eve"}`, map[string]string{"kubesphere.io/workspace": "demo"}), 200, "eve"},
		"TheCreatorInAnotherWorkspace": {young(`{"kubesphere.io/creator":"eve"}`, map[string]string{"kubesphere.io/workspace": "other",
			"kubesphere.io/managed": "true"}), 200, "eve"},
	} {
		t.Run(name, func(t *testing.T) {
			w := estate(t, func(o objects) {
				o.bind(&binding.Workspace, demo, "boss-demo-regular", "demo-regular", "boss")
				if c.change != nil {
					c.change(o)
				}
			})
			w.want(c.code, as("ann"), http.MethodDelete, inDemo+"/"+c.member, "")
			if c.code != 200 && len(w.sent) != 0 {
				t.Errorf("sent %q", w.sent)
			}
		})
	}
}

func encodeText(v any) string {
	raw, _ := json.Marshal(v) // a map of strings is JSON
	return string(raw)
}

// What can't be removed is reported, and the user stays a member until it is gone.
func TestS67WhatIsLeftOfARemovalIsTold(t *testing.T) {
	w := estate(t, nil)
	w.fails["DELETE "+iamPath+"namespaces/made/rolebindings/eve-admin"] = []int{403}
	answer := w.want(403, as("boss"), http.MethodDelete, inDemo+"/eve", "")
	for _, says := range []string{"rolebindings made/eve-admin", "workspacerolebindings eve-demo-regular", "4 bindings were removed", "remove the member again"} {
		if !strings.Contains(answer, says) {
			t.Errorf("%q is not in %s", says, answer)
		}
	}
	if got := kinds(w.changes()); slices.Contains(got, "DELETE workspacerolebindings/eve-demo-regular") || len(got) != 5 {
		t.Errorf("sent %q", got)
	}
}

// S67: bindings that come while a user is removed are removed too, and if they go on coming nobody is told that the user is gone.
func TestS67WhoBindsHimselfWhileHeIsRemovedIsNotTakenForGone(t *testing.T) {
	made := authz.BindingScope{Scope: request.Namespace, Namespace: "made"}
	for name, c := range map[string]struct {
		path, says string
		at         authz.BindingScope
		often      int
		removed    int
	}{
		"FromAWorkspaceForAWhile": {path: inDemo + "/eve", at: demo, often: 2, removed: 8},
		"FromAWorkspace":          {path: inDemo + "/eve", at: demo, often: 9, says: "8 bindings were removed"},
		"FromANamespaceForAWhile": {path: "/namespaces/made/namespacemembers/eve", at: made, often: 2, removed: 3},
		"FromANamespace":          {path: "/namespaces/made/namespacemembers/eve", at: made, often: 9, says: "3 bindings were removed"},
	} {
		t.Run(name, func(t *testing.T) {
			var all objects
			w := estate(t, func(o objects) { all = o })
			w.h.Caches = &binds{Caches: w.h.Caches, w: w, o: all, at: c.at, often: c.often}
			code := 200
			if c.says != "" {
				code = 409
			}
			answer := w.want(code, as("boss"), http.MethodDelete, c.path, "")
			if got := strings.Count(answer, `"resource":`); c.says == "" && got != c.removed {
				t.Errorf("%d bindings were removed: %s", got, answer)
			}
			for _, text := range []string{c.says, "again-3", "remove the member again"} {
				if c.says != "" && !strings.Contains(answer, text) {
					t.Errorf("%q is not in %s", text, answer)
				}
			}
		})
	}
}

// binds are caches into which eve comes again, some times, each time the removal waits for her to be gone.
type binds struct {
	binding.Caches
	w     *world
	o     objects
	at    authz.BindingScope
	often int
	times int
}

func (c *binds) SnapshotWithout(ctx context.Context, gvr schema.GroupVersionResource, _, _, _ string) (*index.Snapshot, error) {
	scope := &binding.Workspace
	if c.at.Scope == request.Namespace {
		scope = &binding.Namespace
	}
	if gvr.Resource == scope.BindingResource && c.times < c.often {
		c.times++
		name, path := fmt.Sprintf("again-%d", c.times), iamPath+gvr.Resource
		c.o.bind(scope, c.at, name, "demo-regular", "eve")
		raw, err := json.Marshal(c.o[path][len(c.o[path])-1])
		if err != nil {
			return nil, err
		}
		c.w.h.Rights.(rights).index.Sinks()[gvr].Set(&store.Object{Name: name, Namespace: c.at.Namespace, Raw: raw})
		c.Caches = kapistest.NewAccounts(c.w.t, c.o)
	}
	return c.Snapshot(ctx, gvr)
}

// S74: a binding that was moved to another workspace since it was read, or no longer names the user, is not written.
func TestS74ABindingIsReadAgainAsOneOfItsWorkspace(t *testing.T) {
	const path = iamPath + "workspacerolebindings/eve-demo-regular"
	binding := func(workspace, subject string) string {
		return `{"metadata":{"name":"eve-demo-regular","uid":"u2","resourceVersion":"7","labels":{"kubesphere.io/workspace":"` + workspace +
			`"}},"subjects":[` + subject + `]}`
	}
	const eve, ann = `{"kind":"User","name":"eve"}`, `{"kind":"User","name":"ann"}`
	for name, c := range map[string]struct {
		live    string
		written bool
	}{
		"AnotherWorkspaces":   {binding("other", eve), false},
		"NoWorkspaces":        {`{"metadata":{"name":"eve-demo-regular","uid":"u2","resourceVersion":"7"},"subjects":[` + eve + `]}`, false},
		"SomebodyElses":       {binding("demo", ann), false},
		"Nobodys":             {`{"metadata":{"name":"eve-demo-regular","uid":"u2","resourceVersion":"7","labels":{"kubesphere.io/workspace":"demo"}}}`, false},
		"AGroupsOfHisName":    {binding("demo", `{"kind":"Group","name":"eve"}`), false},
		"TheSameInAnotherOne": {binding("demo", eve), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := estate(t, func(o objects) {
				for path := range o {
					if path == iamPath+"rolebindings" || path == iamPath+"groupbindings" {
						delete(o, path)
					}
				}
			})
			w.fails["DELETE "+path], w.live[path] = []int{409}, c.live
			w.want(200, as("boss"), http.MethodDelete, inDemo+"/eve", "")
			if got := kinds(w.changes()); (len(got) == 2) != c.written {
				t.Errorf("sent %q", got)
			}
		})
	}
}
