package iam_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
)

// installed are the objects of config/roles, with what the controllers make of the patterns for the workspace demo and the namespace proj.
func installed(t *testing.T) objects {
	t.Helper()
	files, err := filepath.Glob("../../../config/roles/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v", files, err)
	}
	o, templates := objects{}, map[string]iamv1beta1.RoleTemplate{}
	var patterns []map[string]any
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			one := map[string]any{}
			if err := yaml.Unmarshal([]byte(document), &one); err != nil {
				t.Fatal(err)
			}
			kind, _ := one["kind"].(string)
			switch kind {
			case "RoleTemplate":
				raw, _ := json.Marshal(one)
				var template iamv1beta1.RoleTemplate
				if err := json.Unmarshal(raw, &template); err != nil {
					t.Fatal(err)
				}
				templates[template.Name] = template
			case "BuiltinRole":
				patterns = append(patterns, one["role"].(map[string]any))
				continue
			case "GlobalRole", "ClusterRole", "GlobalRoleBinding":
			default:
				continue
			}
			meta := one["metadata"].(map[string]any)
			meta["uid"], meta["resourceVersion"] = "uid", "5"
			path := iamPath + strings.ToLower(kind) + "s"
			o[path] = append(o[path], one)
		}
	}
	for _, role := range patterns {
		names := role["aggregationRoleTemplates"].(map[string]any)["templateNames"].([]any)
		var rules []any
		for _, name := range names {
			for _, r := range templates[name.(string)].Spec.Rules {
				rules = append(rules, r)
			}
		}
		name := role["metadata"].(map[string]any)["name"].(string)
		members := map[string]any{"rules": rules, "aggregationRoleTemplates": map[string]any{"templateNames": names}}
		if role["kind"] == "Role" {
			o.add(iamPath+"roles", "proj", name, nil, members)
			continue
		}
		o.add(iamPath+"workspaceroles", "", "demo-"+name, map[string]string{"kubesphere.io/workspace": "demo"}, members)
	}
	return o
}

// menus are the modules that pages show, with their actions.
func (w *world) menus(by, query string) string {
	w.t.Helper()
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct{ Annotations map[string]string }
		}
		TotalItems int
	}
	if err := json.Unmarshal([]byte(w.want(200, as(by), http.MethodGet, "/users/"+by+"/roletemplates?"+query, "")), &list); err != nil {
		w.t.Fatal(err)
	}
	if len(list.Items) != list.TotalItems {
		w.t.Errorf("%d of %d", len(list.Items), list.TotalItems)
	}
	var out []string
	for _, item := range list.Items {
		rules := map[string]string{}
		if err := json.Unmarshal([]byte(item.Metadata.Annotations["iam.kubesphere.io/role-template-rules"]), &rules); err != nil || item.Kind != "RoleTemplate" {
			w.t.Fatalf("%+v: %v", item, err)
		}
		for module, action := range rules {
			out = append(out, module+":"+action)
		}
	}
	sort.Strings(out)
	return strings.Join(slices.Compact(out), " ")
}

// installedWorld has the installed roles, and people who have some of them.
func installedWorld(t *testing.T) *world {
	o := installed(t)
	for _, name := range []string{"admin", "owner", "viewer", "plain", "guest", "watcher", "grouped"} {
		o.user(name)
	}
	o.add("/api/v1/namespaces", "", "proj", map[string]string{"kubesphere.io/workspace": "demo"}, nil)
	o.bind(&binding.Workspace, demo, "owner-demo-admin", "demo-admin", "owner")
	o.bind(&binding.Workspace, demo, "viewer-demo-viewer", "demo-viewer", "viewer")
	o.bind(&binding.Namespace, proj, "guest-viewer", "viewer", "guest")
	o.bind(&binding.Cluster, cluster, "watcher-cluster-viewer", "cluster-viewer", "watcher")
	return newWorld(t).within(o)
}

// The console's menus, with the installed roles.
func TestPagesShowWhatSomebodyMayDo(t *testing.T) {
	w := installedWorld(t)
	for name, c := range map[string]struct {
		who, query, all string   // all is exactly what is shown
		some, none      []string // some are among it, none is not
	}{
		"AnAdministratorOnThePlatform": {who: "admin", query: "scope=global", some: []string{"workspaces:manage", "clusters:manage", "users:manage",
			"roles:manage", "platform-settings:manage", "manage-app:manage"}},
		"AnAdministratorInTheCluster": {who: "admin", query: "scope=cluster&cluster=host", some: []string{"cluster-settings:manage", "nodes:manage",
			"projects:manage", "deployments:manage", "members:manage", "roles:manage",
			"storageclasses:manage", "customresources:manage"}},
		"AnAdministratorInAWorkspace": {who: "admin", query: "scope=workspace&workspace=demo", some: []string{"workspace-settings:manage",
			"projects:manage", "members:manage", "roles:manage", "app-repos:manage", "app-templates:manage"}},
		"AnAdministratorInANamespace": {who: "admin", query: "scope=namespace&namespace=proj", some: []string{"project-settings:manage", "members:manage",
			"roles:manage", "deployments:manage", "secrets:manage"}},
		"TheOwnerOnThePlatform": {who: "owner", query: "scope=global"},
		"TheOwnerInHisWorkspace": {who: "owner", query: "scope=workspace&workspace=demo", some: []string{"workspace-settings:manage",
			"projects:manage", "members:manage", "roles:manage", "app-repos:manage", "app-templates:manage"}},
		"TheOwnerInANamespaceOfIt": {who: "owner", query: "scope=namespace&namespace=proj", some: []string{"deployments:manage", "configmaps:manage",
			"volumes:manage"}},
		"TheOwnerInAnotherWorkspace": {who: "owner", query: "scope=workspace&workspace=other"},
		"TheOwnerInTheCluster":       {who: "owner", query: "scope=cluster"},
		"AViewerInTheWorkspace": {who: "viewer", query: "scope=workspace&workspace=demo", some: []string{"projects:view", "members:view",
			"roles:view"}, none: []string{"projects:manage", "members:manage", "projects:create"}},
		"AViewerInANamespaceOfIt": {who: "viewer", query: "scope=namespace&namespace=proj", some: []string{"deployments:view"},
			none: []string{"deployments:manage", "secrets:view", "members:manage"}},
		"AGuestInHisNamespace": {who: "guest", query: "scope=namespace&namespace=proj", some: []string{"deployments:view", "members:view",
			"configmaps:view"}, none: []string{"secrets:view", "deployments:manage"}},
		"AGuestInTheWorkspace": {who: "guest", query: "scope=workspace&workspace=demo"},
		"AViewerOfTheClusterInIt": {who: "watcher", query: "scope=cluster", some: []string{"nodes:view", "members:view", "storageclasses:view"},
			none: []string{"nodes:manage", "members:manage"}},
		"SomebodyWithoutARoleAnywhere":   {who: "plain", query: "scope=global"},
		"SomebodyWithoutARoleInACluster": {who: "plain", query: "scope=cluster"},
		"SomebodyWithoutARoleInAProject": {who: "plain", query: "scope=namespace&namespace=proj"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			got := w.menus(c.who, c.query)
			shown := strings.Fields(got)
			if len(c.some) == 0 && got != c.all {
				t.Errorf("%s is shown %s", c.who, got)
			}
			for _, module := range c.some {
				if !slices.Contains(shown, module) {
					t.Errorf("%s lacks %s: %s", c.who, module, got)
				}
			}
			for _, module := range c.none {
				if slices.Contains(shown, module) {
					t.Errorf("%s is shown %s: %s", c.who, module, got)
				}
			}
		})
	}
	w.t = t
	for _, query := range []string{"", "scope=x", "scope=workspace", "scope=namespace&workspace=demo"} {
		w.want(400, as("admin"), http.MethodGet, "/users/admin/roletemplates?"+query, "")
	}
	w.want(404, as("admin"), http.MethodGet, "/users/nobody/roletemplates?scope=global", "")
}

// O25: older clients read the same templates below a user or a member, as a bare array of roles of the scope's kind.
func TestOlderClientsReadTemplatesAsRoles(t *testing.T) {
	w := installedWorld(t)
	type item struct {
		APIVersion, Kind string
		Metadata         struct {
			Name        string
			Annotations map[string]string
		}
		Rules []any
	}
	names := func(items []item) []string {
		out := []string{}
		for _, i := range items {
			out = append(out, i.Metadata.Name)
		}
		return out
	}
	const older = "/kapis/iam.kubesphere.io/v1alpha2"
	for _, c := range []struct{ who, path, roles, query, kind string }{
		{"admin", "/users/admin", "/globalroles", "scope=global", "GlobalRole"},
		{"plain", "/users/plain", "/globalroles", "scope=global", "GlobalRole"},
		{"watcher", "/clustermembers/watcher", "/clusterroles", "scope=cluster", "ClusterRole"},
		{"viewer", inDemo + "/viewer", "/workspaceroles", "scope=workspace&workspace=demo", "WorkspaceRole"},
		{"viewer", "/workspaces/none/workspacemembers/viewer", "/workspaceroles", "scope=workspace&workspace=none", "WorkspaceRole"},
		{"guest", inProj + "/guest", "/roles", "scope=namespace&namespace=proj", "Role"},
		{"guest", "/namespaces/proj/members/guest", "/roles", "scope=namespace&namespace=proj", "Role"},
		{"plain", inProj + "/plain", "/roles", "scope=namespace&namespace=proj", "Role"},
	} {
		var want struct{ Items []item }
		if err := json.Unmarshal([]byte(w.want(200, as(c.who), http.MethodGet, "/users/"+c.who+"/roletemplates?"+c.query, "")), &want); err != nil {
			t.Fatal(err)
		}
		if c.who != "plain" && !strings.Contains(c.path, "/none/") && len(want.Items) == 0 {
			t.Errorf("%s has no templates with %s", c.who, c.query)
		}
		var got []item
		answer := w.want(200, as(c.who), http.MethodGet, older+c.path+c.roles, "")
		if err := json.Unmarshal([]byte(answer), &got); err != nil || answer[0] != '[' || !slices.Equal(names(got), names(want.Items)) {
			t.Errorf("%s%s: got %v, %v; want an array of %v", c.path, c.roles, names(got), err, names(want.Items))
		}
		for _, role := range got {
			group := "iam.kubesphere.io/v1alpha2"
			if c.kind == "ClusterRole" || c.kind == "Role" {
				group = "rbac.authorization.k8s.io/v1"
			}
			if role.Kind != c.kind || role.APIVersion != group || role.Rules == nil || role.Metadata.Annotations["iam.kubesphere.io/role-template-rules"] == "" {
				t.Errorf("%s%s has %+v", c.path, c.roles, role)
			}
		}
		w.want(404, as("admin"), http.MethodGet, older+strings.Replace(c.path, c.who, "nobody", 1)+c.roles, "")
	}
	for _, path := range []string{root + inDemo + "/viewer/workspaceroles", older + inDemo + "/viewer/roles", older + "/clustermembers/viewer/roles",
		older + "/members/viewer/roles"} {
		w.want(404, as("viewer"), http.MethodGet, path, "")
	}
}

func TestHeldIsWhatIsBoundAtOnePlace(t *testing.T) {
	o := objects{}
	o.bind(&binding.Namespace, proj, "z", "viewer", "alice")
	o.bind(&binding.Namespace, proj, "a", "operator", "alice", "@team")
	o.bind(&binding.Platform, authz.BindingScope{}, "p", "platform-regular", "alice")
	w := newWorld(t).within(o)
	held := w.h.Rights.Held(binding.WithoutGroups("alice"), proj)
	if len(held) != 2 || held[0].Binding != "a" || held[0].Role.Name != "operator" || held[0].Role.Namespace != "proj" || held[1].Binding != "z" ||
		held[1].Subject.Name != "alice" {
		t.Errorf("%+v", held)
	}
	for _, at := range []authz.BindingScope{demo, cluster, {Scope: 9}} {
		if held := w.h.Rights.Held(binding.WithoutGroups("alice"), at); held != nil {
			t.Errorf("%s: %+v", at, held)
		}
	}
	if held := w.h.Rights.Held(binding.WithoutGroups(""), proj); held != nil {
		t.Errorf("nobody: %+v", held)
	}
}
