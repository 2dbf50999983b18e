package iam_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// rights are those of an index; missing rules are found rule by rule, in the simplest way.
type rights struct {
	t     *testing.T
	index *rbac.Index
	rules map[string][]rbacv1.PolicyRule // of roles, by kind and name
}

func (x rights) Held(u user.Info, at authz.BindingScope) []authz.Grant {
	if x.index == nil {
		return nil
	}
	return x.index.Held(u, at)
}

func (x rights) Memberships(u user.Info) (*authz.PartialList, bool) {
	if x.index == nil {
		return nil, false
	}
	return x.index.Memberships(u)
}

func (x rights) WorkspaceOf(namespace string) string { return x.index.WorkspaceOf(namespace) }

func (x rights) Missing(u user.Info, at authz.BindingScope, rules []rbacv1.PolicyRule) (missing []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					kind, sub, _ := strings.Cut(resource, "/")
					d, err := x.index.Authorize(x.t.Context(), u, &request.Info{
						Verb: verb, APIGroup: group, Resource: kind, Subresource: sub, IsResource: true,
						Scope: at.Scope, Workspace: at.Workspace, Namespace: at.Namespace,
					})
					if err != nil {
						x.t.Fatal(err)
					}
					if !d.Allowed() {
						return append(missing, rule)
					}
				}
			}
		}
	}
	return nil
}

func (x rights) MissingOf(u user.Info, at authz.BindingScope, role authz.RoleRef) ([]rbacv1.PolicyRule, bool) {
	rules, found := x.rules[fmt.Sprint(role.Scope, role.Namespace, role.Name)]
	return x.Missing(u, at, rules), found
}

// objects are what a cluster holds, by the path of their kind.
type objects map[string][]any

func (o objects) add(path, namespace, name string, labels map[string]string, members map[string]any) {
	meta := map[string]any{
		"name": name, "uid": "uid-" + name, "resourceVersion": "5", "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z",
	}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	object := map[string]any{"apiVersion": "v1", "kind": map[string]string{iamPath + "users": "User"}[path], "metadata": meta}
	for k, v := range members {
		object[k] = v
	}
	o[path] = append(o[path], object)
}

const iamPath = "/apis/iam.kubesphere.io/v1beta1/"

// bind adds a binding of a role at a scope to subjects, of which those that begin with @ are groups.
func (o objects) bind(l *binding.Scope, at authz.BindingScope, name, role string, subjects ...string) {
	var list []map[string]string
	for _, s := range subjects {
		kind := "User"
		if g, ok := strings.CutPrefix(s, "@"); ok {
			kind, s = "Group", g
		}
		list = append(list, map[string]string{"apiGroup": rbacv1.GroupName, "kind": kind, "name": s})
	}
	labels := map[string]string{}
	if at.Workspace != "" {
		labels["kubesphere.io/workspace"] = at.Workspace
	}
	o.add(iamPath+l.BindingResource, at.Namespace, name, labels, map[string]any{
		"subjects": list, "roleRef": map[string]string{"apiGroup": wire.Group, "kind": l.RoleKind, "name": role},
	})
}

// role adds a role with a rule for each of resources, all verbs of it.
func (o objects) role(l *binding.Scope, at authz.BindingScope, name string, resources ...string) {
	labels := map[string]string{}
	if at.Workspace != "" {
		labels["kubesphere.io/workspace"] = at.Workspace
	}
	var rules []rbacv1.PolicyRule
	for _, r := range resources {
		rules = append(rules, rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{r}})
	}
	o.add(iamPath+l.RoleResource, at.Namespace, name, labels, map[string]any{"rules": rules})
}

// user adds a User.
func (o objects) user(name string) {
	o.add(iamPath+"users", "", name, nil, map[string]any{
		"spec": map[string]string{"email": name + "@example.com", "password": "$2a$10$canary"}, "status": map[string]string{"state": "Active"},
	})
}

// within puts the objects into the caches and the index of the world.
func (w *world) within(o objects) *world {
	w.t.Helper()
	index, err := rbac.NewIndex()
	if err != nil {
		w.t.Fatal(err)
	}
	x := rights{w.t, index, map[string][]rbacv1.PolicyRule{}}
	for gvr, sink := range index.Sinks() {
		path := iamPath + gvr.Resource
		if gvr.Group == "" {
			path = "/api/v1/" + gvr.Resource
		}
		for _, one := range o[path] {
			raw, err := json.Marshal(one)
			if err != nil {
				w.t.Fatal(err)
			}
			var v struct {
				Metadata struct{ Name, Namespace string }
				Rules    []rbacv1.PolicyRule
			}
			if err := json.Unmarshal(raw, &v); err != nil {
				w.t.Fatal(err)
			}
			sink.Set(&store.Object{Name: v.Metadata.Name, Namespace: v.Metadata.Namespace, Raw: raw})
			for _, l := range []*binding.Scope{&binding.Platform, &binding.Cluster, &binding.Workspace, &binding.Namespace} {
				if l.RoleResource == gvr.Resource {
					x.rules[fmt.Sprint(l.Kind, v.Metadata.Namespace, v.Metadata.Name)] = v.Rules
				}
			}
		}
	}
	for _, one := range o[iamPath+"users"] {
		raw, err := json.Marshal(one)
		if err != nil {
			w.t.Fatal(err)
		}
		name := one.(map[string]any)["metadata"].(map[string]any)["name"].(string)
		w.users.Set(&store.Object{Name: name, Raw: raw})
	}
	caches := kapistest.NewAccounts(w.t, o)
	w.h.Rights, w.h.Caches, w.h.Resources = x, waits{caches, w}, resource.New(caches, resource.Options{})
	return w
}

// waits are caches that never change, and record what is waited for.
type waits struct {
	binding.Caches
	w *world
}

func (c waits) SnapshotAt(ctx context.Context, gvr schema.GroupVersionResource, version string) (*index.Snapshot, error) {
	c.w.waited = append(c.w.waited, gvr.Resource+" at "+version)
	return c.Snapshot(ctx, gvr)
}

func (c waits) SnapshotWithout(ctx context.Context, gvr schema.GroupVersionResource, namespace, name, uid string) (*index.Snapshot, error) {
	c.w.waited = append(c.w.waited, fmt.Sprintf("%s without %s/%s %s", gvr.Resource, namespace, name, uid))
	return c.Snapshot(ctx, gvr)
}

// changes are the writes at kube-apiserver, without the user who made them.
func (w *world) changes() []string {
	var out []string
	for _, s := range w.sent {
		_, what, _ := strings.Cut(s, " ")
		if !strings.HasPrefix(what, "GET ") {
			out = append(out, what)
		}
	}
	return out
}
