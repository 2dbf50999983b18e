package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// annotated is an answer whose items have annotations, and where it is one object, its own.
type annotated struct {
	Items []annotated `json:"items"`
	Meta  struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// annotatedList returns the items of a list by name.
func (c caller) annotatedList(t *testing.T, path string) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	for _, i := range decode[annotated](t, c.must(t, http.StatusOK, http.MethodGet, path, nil).body).Items {
		out[i.Meta.Name] = i.Meta.Annotations
	}
	return out
}

// The roles that are shipped are in the lists from which the console's pages of roles, and its forms that give a role, are made; what is said
// of them is in both languages of the console.
func TestD1D15RolesThatAreShippedAreOffered(t *testing.T) {
	a, w := admin(t), newTenant(t, unique("offered"))
	const byCreator = "?annotation=kubesphere.io/creator&sortBy=createTime&limit=10&page=1"
	project := host + iamRoute + "/namespaces/" + w.namespace + "/roles"
	eventually(t, "the roles of the project", a.has(project+byCreator, `"viewer"`, `"operator"`, `"admin"`))
	for path, offered := range map[string]string{
		iamRoute + "/globalroles":                                   "platform-admin platform-regular platform-self-provisioner",
		host + iamRoute + "/clusterroles":                           "cluster-admin cluster-viewer",
		iamRoute + "/workspaces/" + w.workspace + "/workspaceroles": "W-admin W-regular W-self-provisioner W-viewer",
		project:                         "admin operator viewer",
		iamRoute + "/users":             "admin",
		tenants + "/workspacetemplates": "system-workspace",
	} {
		listed := a.annotatedList(t, strings.Replace(path+byCreator, "limit=10", "limit=-1", 1))
		for _, name := range strings.Fields(strings.ReplaceAll(offered, "W-", w.workspace+"-")) {
			annotations, ok := listed[name]
			if !ok {
				t.Errorf("%s: %s is not offered", path, name)
				continue
			}
			if !strings.HasSuffix(path, "roles") {
				continue
			}
			var description struct{ Zh, En string }
			if err := json.Unmarshal([]byte(annotations["kubesphere.io/description"]), &description); err != nil || description.Zh == "" || description.En == "" {
				t.Errorf("%s: %s says of itself %q: %v", path, name, annotations["kubesphere.io/description"], err)
			}
		}
	}
	for path, key := range map[string]string{
		iamRoute + "/globalroles/authenticated":                       "annotations iam.kubesphere.io/auto-aggregate",
		iamRoute + "/globalroles/platform-admin":                      "annotations iam.kubesphere.io/auto-aggregate",
		host + iamRoute + "/clusterroles/cluster-admin":               "annotations iam.kubesphere.io/auto-aggregate",
		host + iamRoute + "/clusterroles/cluster-viewer":              "annotations iam.kubesphere.io/auto-aggregate",
		iamRoute + "/roletemplates/namespace-view-project-settings":   "labels iam.kubesphere.io/basic-role-template",
		iamRoute + "/roletemplates/workspace-view-workspace-settings": "labels iam.kubesphere.io/basic-role-template",
	} {
		kind, name, _ := strings.Cut(key, " ")
		meta := decode[struct{ Metadata map[string]any }](t, a.must(t, http.StatusOK, http.MethodGet, path, nil).body).Metadata
		if of, _ := meta[kind].(map[string]any); of[name] != "true" {
			t.Errorf("%s has not %s: %v", path, key, of)
		}
	}
	// What the form of a new user sends with a role that it was offered.
	user := unique("offered")
	newUser(t, user)
	a.must(t, http.StatusOK, http.MethodPost, host+iamRoute+"/clustermembers", []any{obj{"username": user, "roleRef": "cluster-viewer"}})
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, host+iamRoute+"/clustermembers/"+user, nil)
	})
	eventually(t, "a built-in role is given", a.has(host+iamRoute+"/clustermembers?limit=-1", `"`+user+`"`, "cluster-viewer"))
}

// menus returns the modules that a user's menus are made of, with the actions of each.
func (c caller) menus(ctx context.Context, path string) (map[string][]string, error) {
	r, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil || r.code != http.StatusOK {
		return nil, fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
	}
	var l annotated
	if err := json.Unmarshal([]byte(r.body), &l); err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, i := range l.Items {
		var rules map[string]string
		if err := json.Unmarshal([]byte(i.Meta.Annotations["iam.kubesphere.io/role-template-rules"]), &rules); err != nil {
			return nil, fmt.Errorf("%s: %w", i.Meta.Name, err)
		}
		for module, action := range rules {
			out[module] = append(out[module], action)
		}
	}
	return out, nil
}

// The menus of a project and of a cluster have the keys by which the console shows a page, for those who view it as for those who manage it.
func TestD6MenusHaveTheirKeys(t *testing.T) {
	a, w := admin(t), newTenant(t, unique("menus"))
	eventually(t, "the roles of the project", a.has(iamRoute+"/namespaces/"+w.namespace+"/roles", `"operator"`, `"viewer"`))
	for role, action := range map[string]string{"viewer": "view", "operator": "manage"} {
		user := unique(role)
		u := newUser(t, user)
		a.must(t, http.StatusOK, http.MethodPost, iamRoute+"/namespaces/"+w.namespace+"/namespacemembers", []obj{{"username": user, "roleRef": role}})
		eventually(t, "the menus of a "+role, func(ctx context.Context) error {
			got, err := u.menus(ctx, host+iamRoute+"/users/"+user+"/roletemplates?scope=namespace&namespace="+w.namespace)
			if err != nil {
				return err
			}
			for _, module := range []string{"persistentvolumeclaims", "volumes", "applications", "app-workloads", "app-releases", "configmaps"} {
				if !slices.Contains(got[module], action) {
					return fmt.Errorf("%s: %v, want %s", module, got[module], action)
				}
			}
			return nil
		})
	}
	got, err := a.menus(t.Context(), host+iamRoute+"/users/admin/roletemplates?scope=cluster&cluster=host")
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range []string{"persistentvolumeclaims", "volumes", "configmaps", "secrets", "serviceaccounts", "deployments"} {
		if !slices.Contains(got[module], "manage") {
			t.Errorf("the menus of the cluster: %s: %v", module, got[module])
		}
	}
}

// Overviews count the roles and bindings that pages list, and not those of RBAC; and ingresses by the older key of quotas too.
func TestD7D9OverviewsCountWhatPagesList(t *testing.T) {
	a, w := admin(t), newTenant(t, unique("counted"))
	a.create(t, "/apis/rbac.authorization.k8s.io/v1/namespaces/"+w.namespace+"/roles", obj{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": obj{"name": "native"}, "rules": []any{}})
	a.create(t, "/apis/networking.k8s.io/v1/namespaces/"+w.namespace+"/ingresses", obj{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": obj{"name": "web"},
		"spec": obj{"defaultBackend": obj{"service": obj{"name": "web", "port": obj{"number": 80}}}}})
	eventually(t, "the roles of the project", a.has(iamRoute+"/namespaces/"+w.namespace+"/roles", `"operator"`, `"viewer"`))
	a.must(t, http.StatusOK, http.MethodPost, iamRoute+"/namespaces/"+w.namespace+"/namespacemembers", []obj{{"username": w.user, "roleRef": "viewer"}})
	counts := func(ctx context.Context, path string) (map[string]string, error) {
		r, err := a.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return nil, err
		}
		var body struct {
			Results []struct {
				Name string `json:"metric_name"`
				Data struct {
					Result []struct{ Value []any }
				}
			}
		}
		if err := json.Unmarshal([]byte(r.body), &body); err != nil {
			return nil, fmt.Errorf("%d %s: %w", r.code, clip(r.body), err)
		}
		out := map[string]string{}
		for _, m := range body.Results {
			if len(m.Data.Result) == 1 && len(m.Data.Result[0].Value) == 2 {
				out[m.Name] = fmt.Sprint(m.Data.Result[0].Value[1])
			}
		}
		return out, nil
	}
	for path, lists := range map[string]map[string]string{
		host + kapis + "/namespaces/" + w.namespace + "/metrics": {
			"namespace_role_count":        "/namespaces/" + w.namespace + "/roles?limit=1",
			"namespace_rolebinding_count": "/namespaces/" + w.namespace + "/rolebindings?limit=1",
		},
		host + kapis + "/metrics": {"cluster_clusterrole_count": "/clusterroles?limit=1", "cluster_clusterrolebinding_count": "/clusterrolebindings?limit=1"},
	} {
		eventually(t, "the counts of "+path, func(ctx context.Context) error {
			got, err := counts(ctx, path)
			if err != nil {
				return err
			}
			for metric, list := range lists {
				r, err := a.do(ctx, http.MethodGet, host+iamRoute+list, nil)
				if err != nil {
					return err
				}
				if want := `"totalItems":` + got[metric]; got[metric] == "" || !strings.Contains(r.body+"}", want+"}") && !strings.Contains(r.body, want+",") {
					return fmt.Errorf("%s is %q, where pages list %s", metric, got[metric], clip(r.body))
				}
			}
			return nil
		})
	}
	eventually(t, "ingresses are counted by the key that the page reads", a.has(host+older+"/namespaces/"+w.namespace+"/quotas",
		`"count/ingresses.extensions":"1"`, `"count/ingresses.networking.k8s.io":"1"`))
}

// The page of logins says why each ended as it did.
func TestD10LoginsHaveTheirReason(t *testing.T) {
	name := unique("reasons")
	newUser(t, name)
	if code := from(t, "127.0.0.69", name, "Wrong-123"); code != http.StatusBadRequest {
		t.Fatalf("a wrong password: %d", code)
	}
	eventually(t, "both have a reason", admin(t).has(iamRoute+"/users/"+name+"/loginrecords?sortBy=createTime&limit=10&page=1",
		`"reason":"authenticated successfully"`, `"reason":"wrong password`))
}

// The category that clients know for the quotas of workspaces leads to them.
func TestD17QuotaIsACategory(t *testing.T) {
	name := unique("category")
	newTeam(t, name)
	admin(t).create(t, "/apis/quota.kubesphere.io/v1alpha2/resourcequotas", obj{
		"apiVersion": "quota.kubesphere.io/v1alpha2", "kind": "ResourceQuota", "metadata": obj{"name": name, "labels": obj{workspaceLabel: name}},
		"spec": obj{"selector": obj{workspaceLabel: name}, "quota": obj{"hard": obj{"services": "20"}}}})
	if out := mustKubectlAt(t, "", "get", "quota", "-o", "name"); !strings.Contains(out, "resourcequota.quota.kubesphere.io/"+name) {
		t.Errorf("kubectl get quota: %s", out)
	}
}
