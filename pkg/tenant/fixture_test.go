package tenant_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/authz/rbac"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/storetest"
	"kapis.dev/ks-apiserver/pkg/tenant"
)

// world is an index with its objects, and the clusters and users of a cluster.
type world struct {
	t     testing.TB
	index *rbac.Index
	sinks map[string]store.Sink
	bound bound
	of    map[string]string // namespace -> workspace
}

// bound are bindings, found by walking all of them.
type bound struct {
	in      map[string]*[2][]string // subject, as "User:u" -> workspaces, namespaces
	cluster map[string]bool
	known   map[string]*authz.PartialList // results of earlier calls; no binding changes after the first
}

// Memberships implements Memberships.
func (b *bound) Memberships(u user.Info) (*authz.PartialList, bool) {
	who := []string{"User:" + u.GetName()}
	for _, g := range u.GetGroups() {
		who = append(who, "Group:"+g)
	}
	var workspaces, namespaces []string
	cluster := false
	for _, s := range who {
		if in := b.in[s]; in != nil {
			workspaces, namespaces = append(workspaces, in[0]...), append(namespaces, in[1]...)
		}
		cluster = cluster || b.cluster[s]
	}
	if p, ok := b.known[u.GetName()]; ok {
		return p, cluster
	}
	p := authz.NewPartialList(namespaces, workspaces)
	if b.known != nil {
		b.known[u.GetName()] = p
	}
	return p, cluster
}

func newWorld(t testing.TB) *world {
	t.Helper()
	x, err := rbac.NewIndex()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, index: x, sinks: map[string]store.Sink{}, of: map[string]string{}, bound: bound{in: map[string]*[2][]string{}, cluster: map[string]bool{}}}
	for gvr, s := range x.Sinks() {
		w.sinks[gvr.Resource] = s
	}
	return w
}

func (w *world) set(resource, namespace, name string, content map[string]any) {
	w.t.Helper()
	raw, err := json.Marshal(content)
	if err != nil {
		w.t.Fatal(err)
	}
	w.sinks[resource].Set(&store.Object{Namespace: namespace, Name: name, Raw: raw})
}

func (w *world) namespace(name, workspace string) {
	w.of[name] = workspace
	w.set("namespaces", "", name, map[string]any{"metadata": labelled(workspace)})
}

func labelled(workspace string) map[string]any {
	return map[string]any{"labels": map[string]string{"kubesphere.io/workspace": workspace}}
}

// bind binds a subject to a new role with rules written as "verb,verb group resource,resource". place is "", "cluster", "workspace/w" or "namespace/n".
func (w *world) bind(subject, place string, rules ...string) {
	w.t.Helper()
	var list []rbacv1.PolicyRule
	for _, r := range rules {
		f := strings.Fields(r)
		group := f[1]
		if group == "core" {
			group = ""
		}
		list = append(list, rbacv1.PolicyRule{Verbs: strings.Split(f[0], ","), APIGroups: []string{group}, Resources: strings.Split(f[2], ",")})
	}
	scope, at, _ := strings.Cut(place, "/")
	resource, kind, namespace, metadata := "globalroles", "GlobalRole", "", map[string]any{}
	in := w.bound.in[subject]
	if in == nil && at != "" {
		in = &[2][]string{}
		w.bound.in[subject] = in
	}
	switch scope {
	case "cluster":
		resource, kind = "clusterroles", "ClusterRole"
		w.bound.cluster[subject] = true
	case "workspace":
		resource, kind, metadata = "workspaceroles", "WorkspaceRole", labelled(at)
		in[0] = append(in[0], at)
	case "namespace":
		resource, kind, namespace = "roles", "Role", at
		in[1] = append(in[1], at)
	}
	name := fmt.Sprintf("r%s-%s", strings.ReplaceAll(subject, ":", "-"), strings.ReplaceAll(place, "/", "-"))
	w.set(resource, namespace, name, map[string]any{"metadata": metadata, "rules": list})
	subjectKind, who, _ := strings.Cut(subject, ":")
	w.set(strings.TrimSuffix(resource, "s")+"bindings", namespace, name, map[string]any{
		"metadata": metadata, "roleRef": rbacv1.RoleRef{APIGroup: "iam.kubesphere.io", Kind: kind, Name: name},
		"subjects": []rbacv1.Subject{{Kind: subjectKind, APIGroup: rbacv1.GroupName, Name: who}},
	})
}

func (w *world) authorizer(fleet *tenant.Clusters) *authz.Order {
	return &authz.Order{
		Authorizers: authz.Union{w.index}, Members: &tenant.Members{Rights: w.index, Bound: &w.bound, Fleet: fleet},
		Aliases: authz.Aliases{GroupOf: func(string) (gr schema.GroupResource, ok bool) { return gr, false }},
	}
}

func person(name string, groups ...string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
}

// asked returns the request.Info of a request line.
func asked(t testing.TB, line string) *request.Info {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	return requesttest.Info(t, method, path)
}

// seen returns what a decision shows: "all", "nothing" for a refusal, or the names of its partial list.
func seen(d authz.Decision) string {
	switch {
	case d.Allowed():
		return "all"
	case d.PartialList() == nil:
		return "refused"
	}
	return strings.Join(slices.Concat(d.PartialList().Namespaces, d.PartialList().Workspaces, d.PartialList().Names), " ")
}

// fleetKinds is a cluster with users and clusters.
var fleetKinds = storetest.Kinds{
	iamv1beta1.SchemeGroupVersion:      storetest.Cluster("users User"),
	clusterv1alpha1.SchemeGroupVersion: storetest.Cluster("clusters Cluster"),
}

// newFleet is a fleet of a host, a public, a granted and another cluster; the third is granted to bob.
func newFleet(t testing.TB) *tenant.Clusters {
	t.Helper()
	objects := map[string][]string{
		"/apis/cluster.kubesphere.io/v1alpha1/clusters": {
			`{"metadata":{"name":"host","labels":{"cluster-role.kubesphere.io/host":"","zone":"a"}}}`,
			`{"metadata":{"name":"open","labels":{"cluster.kubesphere.io/visibility":"public","zone":"a"}}}`,
			`{"metadata":{"name":"given","labels":{"zone":"b"}}}`, `{"metadata":{"name":"other"}}`,
		},
		"/apis/iam.kubesphere.io/v1beta1/users": {
			`{"metadata":{"name":"bob","annotations":{"iam.kubesphere.io/granted-clusters":"given, gone,"}}}`,
		},
	}
	return &tenant.Clusters{Store: kapistest.NewStoreOf(t, fleetKinds, objects), Host: "host"}
}
