package rbac

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"
)

// world feeds an index as the store does: with JSON, through its sinks.
type world struct {
	t     testing.TB
	index *Index
	sinks map[schema.GroupVersionResource]store.Sink
}

func newWorld(t testing.TB) *world {
	t.Helper()
	x, err := NewIndex()
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, index: x, sinks: x.Sinks()}
}

func (w *world) sink(resource string) store.Sink {
	for gvr, s := range w.sinks {
		if gvr.Resource == resource {
			return s
		}
	}
	w.t.Fatalf("nothing follows %q", resource)
	return nil
}

func (w *world) set(resource, namespace, name string, content map[string]any) {
	w.t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		w.t.Fatal(err)
	}
	w.sink(resource).Set(&store.Object{Namespace: namespace, Name: name, Raw: raw})
}

// role sets a role of the plural's scope; its name is "name" or "namespace/name".
func (w *world) role(resource, name string, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	namespace, name := split(name)
	w.set(resource, namespace, name, map[string]any{"rules": rules})
}

func (w *world) condition(resource, name, expression string, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	namespace, name := split(name)
	w.set(resource, namespace, name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{"iam.kubesphere.io/cel-condition": expression}},
		"rules":    rules,
	})
}

// bind binds subjects ("User:bob", "ServiceAccount:ns:name") to a role of the binding's scope.
func (w *world) bind(resource, name, workspace, role string, subjects ...string) {
	w.t.Helper()
	namespace, name := split(name)
	var list []rbacv1.Subject
	for _, s := range subjects {
		kind, who, _ := strings.Cut(s, ":")
		subject := rbacv1.Subject{Kind: kind, Name: who, APIGroup: rbacv1.GroupName}
		if kind == "ServiceAccount" {
			subject.APIGroup = ""
			subject.Namespace, subject.Name, _ = strings.Cut(who, ":")
		}
		list = append(list, subject)
	}
	w.set(resource, namespace, name, map[string]any{
		"metadata": map[string]any{"labels": map[string]string{"kubesphere.io/workspace": workspace}},
		"roleRef":  rbacv1.RoleRef{APIGroup: "iam.kubesphere.io", Kind: kindOf(resource), Name: role},
		"subjects": list,
	})
}

func (w *world) namespace(name, workspace string) {
	w.t.Helper()
	w.set("namespaces", "", name, map[string]any{"metadata": map[string]any{"labels": map[string]string{"kubesphere.io/workspace": workspace}}})
}

func (w *world) decide(u user.Info, r *request.Info) authz.Decision {
	w.t.Helper()
	d, err := w.index.Authorize(w.t.Context(), u, r)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func split(name string) (string, string) {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return namespace, rest
	}
	return "", name
}

func kindOf(bindings string) string {
	return map[string]string{
		"globalrolebindings": "GlobalRole", "workspacerolebindings": "WorkspaceRole",
		"clusterrolebindings": "ClusterRole", "rolebindings": "Role",
	}[bindings]
}

func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: strings.Split(verbs, ","), APIGroups: strings.Split(groups, ","), Resources: strings.Split(resources, ","), ResourceNames: names,
	}
}

func pathRule(verbs, paths string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), NonResourceURLs: strings.Split(paths, ",")}
}

func person(name string, groups ...string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: groups}
}

// ask returns a request for "verb group/resource[/subresource][ name]", at the scope that places give it.
func ask(verb, what, name string, places ...string) *request.Info {
	group, resource, _ := strings.Cut(what, "/")
	resource, sub, _ := strings.Cut(resource, "/")
	r := &request.Info{Verb: verb, APIGroup: group, Resource: resource, Subresource: sub, Name: name, IsResource: true, Scope: request.Cluster}
	for _, p := range places {
		switch where, what, _ := strings.Cut(p, ":"); where {
		case "ns":
			r.Namespace, r.Scope = what, request.Namespace
		case "ws":
			r.Workspace = what
			if r.Scope != request.Namespace {
				r.Scope = request.Workspace
			}
		case "global":
			r.Scope = request.Global
		}
	}
	return r
}

func askPath(verb, path string) *request.Info {
	return &request.Info{Verb: verb, Path: path, Scope: request.Cluster}
}

// naiveAllows is RBAC's rule match as its documentation describes it, in as few steps as possible.
func naiveAllows(list []rbacv1.PolicyRule, r *request.Info) bool {
	in := func(list []string, values ...string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return v != "" && slices.Contains(list, v) })
	}
	for _, rule := range list {
		if !r.IsResource {
			verbs := []string{}
			for _, v := range rule.Verbs {
				verbs = append(verbs, strings.ToLower(v))
			}
			verb := strings.Replace(r.Verb, "head", "get", 1)
			if in(verbs, verb, "*") && slices.ContainsFunc(rule.NonResourceURLs, func(u string) bool {
				return u != "" && (u == r.Path || strings.HasSuffix(u, "*") && strings.HasPrefix(r.Path, strings.TrimRight(u, "*")))
			}) {
				return true
			}
			continue
		}
		combined, wild := r.Resource, ""
		if r.Subresource != "" {
			combined, wild = r.Resource+"/"+r.Subresource, "*/"+r.Subresource
		}
		if in(rule.Verbs, r.Verb, "*") && (slices.Contains(rule.APIGroups, r.APIGroup) || in(rule.APIGroups, "*")) &&
			in(rule.Resources, combined, wild, "*") && (len(rule.ResourceNames) == 0 || in(rule.ResourceNames, r.Name)) {
			return true
		}
	}
	return false
}
