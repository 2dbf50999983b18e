package admission

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// world has what users hold, rule by rule, and which roles there are.
type world struct {
	holds map[string][]string // "ann@on the platform" -> letters of rules
	roles map[authz.RoleRef]string
	verbs map[string]bool            // "ann@on the platform bind globalroles/x"
	bound map[string][]authz.RoleRef // "bob@on the platform", "g:dev@on the platform"
	in    map[string]string          // the workspaces of namespaces
	left  map[string]bool            // the workspaces that bindings name
}

func at(u user.Info, p authz.BindingScope) string { return u.GetName() + "@" + p.String() }

func (w *world) Missing(u user.Info, p authz.BindingScope, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, r := range rules {
		name := "*"
		if len(r.Resources) > 0 {
			name = r.Resources[0]
		}
		if held := w.holds[at(u, p)]; !slices.Contains(held, name) && !slices.Contains(held, "*") {
			out = append(out, r)
		}
	}
	return out
}

func (w *world) MissingOf(u user.Info, p authz.BindingScope, role authz.RoleRef) ([]rbacv1.PolicyRule, bool) {
	letters, ok := w.roles[role]
	return w.Missing(u, p, rules(letters)), ok
}

func (w *world) HoldsVerb(u user.Info, p authz.BindingScope, verb, resource, name string) bool {
	return slices.Contains(w.holds[at(u, p)], "*") || w.verbs[at(u, p)+" "+verb+" "+resource+"/"+name]
}

// Memberships finds the scopes in the keys of bound.
func (w *world) Memberships(u user.Info) (*authz.PartialList, bool) {
	var namespaces, workspaces []string
	for key := range w.bound {
		for _, name := range append([]string{u.GetName()}, prefixed(u.GetGroups())...) {
			if in, ok := strings.CutPrefix(key, name+`@in the namespace "`); ok {
				namespaces = append(namespaces, strings.TrimSuffix(in, `"`))
			} else if in, ok := strings.CutPrefix(key, name+`@in the workspace "`); ok {
				workspaces = append(workspaces, strings.TrimSuffix(in, `"`))
			}
		}
	}
	return authz.NewPartialList(namespaces, workspaces), false
}

func (w *world) WorkspaceOf(namespace string) string { return w.in[namespace] }

func (w *world) Leftovers(workspace string) (namespaces, bindings bool) {
	for _, of := range w.in {
		namespaces = namespaces || of == workspace
	}
	return namespaces, w.left[workspace]
}

func (w *world) Held(u user.Info, p authz.BindingScope) (out []authz.Grant) {
	for _, name := range append([]string{u.GetName()}, prefixed(u.GetGroups())...) {
		for _, role := range w.bound[name+"@"+p.String()] {
			out = append(out, authz.Grant{Scope: p, Role: role})
		}
	}
	return out
}

func prefixed(groups []string) (out []string) {
	for _, g := range groups {
		out = append(out, "g:"+g)
	}
	return out
}

// rules returns one rule for each letter: get that resource.
func rules(letters string) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	for _, l := range letters {
		out = append(out, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{string(l)}})
	}
	return out
}

// ann holds a and b on the platform, a in workspace w and in namespace n. Her workspace has the groups dev (a) and ops (a, c on the platform).
func newWorld(t *testing.T) (*world, *Guard) {
	t.Helper()
	w := &world{
		holds: map[string][]string{
			"ann@on the platform": {"a", "b"}, `ann@in the workspace "w"`: {"a"}, `ann@in the namespace "n"`: {"a"}, "ann@in the cluster": {"a"},
			"root@on the platform": {"*"}, `root@in the workspace "w"`: {"*"},
		},
		roles: map[authz.RoleRef]string{
			{Name: "ab"}:                                "ab",
			{Name: "c"}:                                 "c",
			{Name: "bindable"}:                          "cd",
			{Scope: request.Workspace, Name: "w-a"}:     "a",
			{Scope: request.Workspace, Name: "w-admin"}: "abc",
			{Scope: request.Namespace, Namespace: "n", Name: "viewer"}: "a",
			{Scope: request.Namespace, Namespace: "n", Name: "admin"}:  "ac",
			{Scope: request.Cluster, Name: "a"}:                        "a",
			{Scope: request.Cluster, Name: "c"}:                        "c",
		},
		verbs: map[string]bool{
			"ann@on the platform bind globalroles/bindable": true,
			"ann@on the platform escalate globalroles/free": true,
			"ann@on the platform bind groups/open":          true,
		},
	}
	w.in = map[string]string{"n": "w", "v1": "v", "operator": "system-workspace"}
	k := NewCache()
	feed := func(resource, namespace, name, raw string) {
		for gvr, sink := range k.Sinks() {
			if gvr.Resource == resource {
				sink.Set(&store.Object{Namespace: namespace, Name: name, Raw: []byte(raw)})
			}
		}
	}
	for name, scope := range map[string]string{"ta": "global", "tc": "global", "wa": "workspace", "wc": "workspace", "nc": "namespace", "cc": "cluster"} {
		feed(
			"roletemplates",
			"",
			name,
			`{"metadata":{"labels":{"iam.kubesphere.io/scope":"`+scope+`","pick":"`+name+`"}},"spec":{"rules":`+text(t, rules(name[1:]))+`}}`,
		)
	}
	inW := `{"metadata":{"labels":{"kubesphere.io/workspace":"w"}}`
	feed("groups", "", "dev", inW+`}`)
	feed("groups", "", "ops", inW+`}`)
	feed("groups", "", "wide", `{"metadata":{}}`)
	feed("groups", "", "open", `{"metadata":{}}`)
	feed(
		"workspacerolebindings",
		"",
		"dev-a",
		inW+`,"roleRef":{"name":"w-a"},"subjects":[{"kind":"Group","name":"dev"},{"kind":"Group","name":"ops"},{"kind":"User","name":"dev"}]}`,
	)
	feed("globalrolebindings", "", "ops-c", `{"roleRef":{"name":"c"},"subjects":[{"kind":"Group","name":"ops"}]}`)
	w.bound = map[string][]authz.RoleRef{
		"chief@on the platform": {{Name: "c"}}, "lead@in the cluster": {{Scope: request.Cluster, Name: "c"}}, "low@on the platform": {{Name: "ab"}},
		"g:ops@on the platform": {{Name: "c"}}, "dangling@on the platform": {{Name: "gone"}}, "chief2@on the platform": {{Name: "c"}},
		"g:system:authenticated@on the platform": {{Name: "everybody"}},
	}
	w.roles[authz.RoleRef{Name: "everybody"}] = "d"
	return w, &Guard{Holdings: w, Known: k}
}

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// write is one case: what a user writes over the old object.
type write struct {
	by, resource, namespace, name string
	old, now                      string
	refused                       string // a part of the reason; empty if the write is allowed
}

func (w write) check(t *testing.T, g *Guard) {
	t.Helper()
	by := w.by
	if by == "" {
		by = "ann"
	}
	group := "iam.kubesphere.io"
	switch w.resource {
	case "workspaces", "workspacetemplates":
		group = "tenant.kubesphere.io"
	case "serviceaccounts":
		group = ""
	}
	verb := "create"
	if w.old != "" {
		verb = "update"
	}
	err := g.Check(t.Context(), &Write{
		By: &user.DefaultInfo{
			Name:   by,
			Groups: []string{user.AllAuthenticated},
		},
		Verb:      verb,
		GVR:       schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: w.resource},
		Namespace: w.namespace,
		Name:      w.name,
		Object:    []byte(w.now),
		Old:       []byte(w.old),
	})
	switch {
	case w.refused == "" && err != nil:
		t.Errorf("refused: %v", err)
	case w.refused != "" && !apierrors.IsForbidden(err):
		t.Errorf("got %v, want a refusal", err)
	case w.refused != "" && !strings.Contains(err.Error(), w.refused):
		t.Errorf("the reason is %v, want %q in it", err, w.refused)
	}
}

func all(t *testing.T, g *Guard, cases map[string]write) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { c.check(t, g) })
	}
}

// never returns a Native that must not be called.
func never(t *testing.T) func(context.Context, user.Info, string, schema.GroupVersionResource, string, string) (bool, error) {
	return func(context.Context, user.Info, string, schema.GroupVersionResource, string, string) (bool, error) {
		t.Error("kube-apiserver was asked")
		return false, nil
	}
}
