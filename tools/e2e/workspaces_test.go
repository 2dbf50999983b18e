package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const tenantAPI = "/apis/tenant.kubesphere.io/v1beta1"

// applied has kubectl apply an object at kube-apiserver, with the kubeconfig of its admin.
func applied(t *testing.T, object obj) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), "--kubeconfig", filepath.Join(product.Dir, "kubeconfig"), "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(encode(t, object))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// newManagedWorkspace applies a template of a workspace, and returns its name once the workspace has its roles.
func newManagedWorkspace(t *testing.T, manager string) string {
	t.Helper()
	name := unique("tenancy")
	applied(t, obj{
		"apiVersion": "tenant.kubesphere.io/v1beta1",
		"kind":       "WorkspaceTemplate",
		"metadata":   obj{"name": name, "annotations": obj{"kubesphere.io/alias-name": "Tenants"}},
		"spec":       obj{"placement": obj{"clusters": []any{obj{"name": "host"}}}, "template": obj{"spec": obj{"manager": manager}}},
	})
	a, start := admin(t), time.Now()
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, tenantAPI+"/workspacetemplates/"+name, nil)
	})
	for _, role := range []string{"admin", "regular", "self-provisioner", "viewer"} {
		eventually(t, "role "+role+" of workspace "+name, a.has(iamAPI+"/workspaceroles/"+name+"-"+role, `"kubesphere.io/workspace":"`+name+`"`, `"verbs"`))
	}
	t.Logf("workspace %s had its roles %v after kubectl", name, time.Since(start).Round(time.Millisecond))
	return name
}

func newProject(t *testing.T, name, workspace string, annotations obj) {
	t.Helper()
	admin(t).create(t, "/api/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{
		"name": name, "labels": obj{workspaceLabel: workspace, "kubesphere.io/managed": "true"}, "annotations": annotations,
	}})
}

func lacks(c caller, path, text string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err == nil && (r.code != http.StatusOK || strings.Contains(r.body, text)) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	}
}

func TestAWorkspaceBringsItsRolesAndItsManager(t *testing.T) {
	proves(t, "S9")
	a, name := admin(t), unique("manager")
	u := newUser(t, name)
	u.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/kube-system/pods", nil)
	ws, project := newManagedWorkspace(t, name), unique("project")
	eventually(t, "the workspace is ready", a.has(tenantAPI+"/workspaces/"+ws, `"status":"True"`, `"kubesphere.io/alias-name":"Tenants"`, `"manager":"`+name+`"`))
	eventually(t, "and its template says so", a.has(tenantAPI+"/workspacetemplates/"+ws, `"reason":"Placed"`))
	newProject(t, project, ws, nil)
	for _, role := range []string{"admin", "operator", "viewer"} {
		eventually(t, "the project has the role "+role, a.has(iamAPI+"/namespaces/"+project+"/roles/"+role, `"verbs"`))
	}
	eventually(t, "the manager is in", u.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+project+"/pods"))
	eventually(t, "also at kube-apiserver", u.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+project+"/pods"))
	a.must(t, http.StatusOK, http.MethodPatch, tenantAPI+"/workspacetemplates/"+ws, `{"spec":{"template":{"spec":{"manager":"admin"}}}}`, asMerge)
	within(t, revocation, "a former manager is out", u.is(http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+project+"/pods")) // S9
}

// S6: the annotation that gives the creator of a namespace a right names who creates it, and nobody changes it.
func TestS6NobodyWritesHimselfInAsTheCreator(t *testing.T) {
	proves(t, "S6")
	a, ws, name, project := admin(t), newManagedWorkspace(t, "admin"), unique("forger"), unique("project")
	u := newUser(t, name)
	global(t, name, rule{[]string{""}, []string{"namespaces", "namespaces/status"}, []string{"*"}})
	namespace := func(creator string) obj {
		return obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": project,
			"labels": obj{workspaceLabel: ws, "kubesphere.io/managed": "true"}, "annotations": obj{"kubesphere.io/creator": creator}}}
	}
	eventually(t, "he may create namespaces", u.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces"))
	const refusal = "may name nobody but who creates the namespace"
	if r := u.must(t, http.StatusForbidden, http.MethodPost, "/api/v1/namespaces", namespace("admin")); !strings.Contains(r.body, refusal) {
		t.Errorf("another's name: %s", clip(r.body))
	}
	newProject(t, project, ws, obj{"kubesphere.io/creator": "admin"})
	eventually(t, "the creator is bound", a.has(iamAPI+"/namespaces/"+project+"/rolebindings/admin-admin", `"name":"admin"`))
	eventually(t, "once", a.has("/api/v1/namespaces/"+project, `"kapis.dev/initialized":"true"`))
	for body, want := range map[string]string{
		`{"metadata":{"annotations":{"kubesphere.io/creator":"` + name + `"}}}`: refusal,
		`{"metadata":{"annotations":{"kapis.dev/initialized":null}}}`:           "the system's own",
	} {
		for _, sub := range []string{"", "/status"} {
			eventually(t, body+sub, func(ctx context.Context) error {
				r, err := u.do(ctx, http.MethodPatch, "/api/v1/namespaces/"+project+sub, body, asMerge)
				if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, want)) {
					err = fmt.Errorf("%d %s", r.code, clip(r.body))
				}
				return err
			})
		}
	}
	own := unique("project")
	object := namespace(name)
	object["metadata"].(obj)["name"] = own
	u.must(t, http.StatusCreated, http.MethodPost, "/api/v1/namespaces", object)
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+own, nil) })
	eventually(t, "he is bound in his own", a.has(iamAPI+"/namespaces/"+own+"/rolebindings/"+name+"-admin", `"name":"`+name+`"`))
	eventually(t, "it has its roles", a.has("/api/v1/namespaces/"+own, `"kapis.dev/initialized":"true"`))
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+own+"/rolebindings/"+name+"-admin", nil)
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+own+"/roles/admin", nil)
	eventually(t, "the role is made again", a.is(http.StatusOK, http.MethodGet, iamAPI+"/namespaces/"+own+"/roles/admin"))
	a.must(t, http.StatusNotFound, http.MethodGet, iamAPI+"/namespaces/"+own+"/rolebindings/"+name+"-admin", nil)
}

// global gives a user a GlobalRole of his own.
func global(t *testing.T, user string, rules ...rule) {
	t.Helper()
	a := admin(t)
	a.create(t, iamAPI+"/globalroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRole", "metadata": obj{"name": user}, "rules": rules})
	a.create(t, iamAPI+"/globalrolebindings", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRoleBinding", "metadata": obj{"name": user},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": user},
		"subjects": []any{obj{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}},
	})
}

// U50, S9: whatever is deleted first, no right is left, and no namespace goes that nobody asked to go.
func TestU50AWorkspaceGoesInAnyOrder(t *testing.T) {
	proves(t, "S9")
	a := admin(t)
	for claim, c := range map[string]struct {
		propagation string
		first       string
		stays       bool
	}{
		"TheTemplateAndItsNamespaces":  {"Background", "workspacetemplates", false},
		"TheTemplateAlone":             {"Orphan", "workspacetemplates", true},
		"TheWorkspaceThenItsTemplate":  {"Foreground", "workspaces", false},
		"TheWorkspaceAloneThenThatToo": {"", "workspaces", true},
	} {
		t.Run(claim, func(t *testing.T) {
			name := unique("leaver")
			u := newUser(t, name)
			ws, project := newManagedWorkspace(t, name), unique("project")
			newProject(t, project, ws, nil)
			eventually(t, "the manager is in", u.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+project+"/pods"))
			if c.propagation != "" {
				a.must(
					t,
					http.StatusOK,
					http.MethodPatch,
					tenantAPI+"/workspacetemplates/"+ws,
					`{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"`+c.propagation+`"}}}`,
					asMerge,
				)
				eventually(t, "the workspace knows", a.has(tenantAPI+"/workspaces/"+ws, c.propagation))
			}
			a.must(t, http.StatusOK, http.MethodDelete, tenantAPI+"/"+c.first+"/"+ws, nil)
			if c.first == "workspaces" {
				a.must(t, http.StatusOK, http.MethodDelete, tenantAPI+"/workspacetemplates/"+ws, nil)
			}
			for _, path := range []string{tenantAPI + "/workspacetemplates/" + ws, tenantAPI + "/workspaces/" + ws, iamAPI + "/workspaceroles/" + ws + "-admin", iamAPI +
				"/workspacerolebindings/" + ws + "-admin"} {
				eventually(t, path+" is gone", a.is(http.StatusNotFound, http.MethodGet, path))
			}
			within(t, revocation, "the manager is out", u.is(http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+project+"/pods"))
			if !c.stays {
				eventually(t, "the namespace is gone", a.is(http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/"+project))
				return
			}
			if r := a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+project, nil); strings.Contains(r.body, `"`+workspaceLabel+`"`) ||
				strings.Contains(r.body, "deletionTimestamp") {
				t.Errorf("the namespace is %s", r.body)
			}
		})
	}
}

// What a template says of its namespaces, for a deletion that did not come to pass, is not what a plain deletion asks for.
func TestAPlainDeletionOfAWorkspaceLeavesItsNamespaces(t *testing.T) {
	a, name := admin(t), unique("leaver")
	newUser(t, name)
	ws, project := newManagedWorkspace(t, name), unique("project")
	newProject(t, project, ws, nil)
	template := tenantAPI + "/workspacetemplates/" + ws
	a.must(t, http.StatusOK, http.MethodPatch, template, `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Background"}}}`, asMerge)
	eventually(t, "the workspace knows", a.has(tenantAPI+"/workspaces/"+ws, `"kubesphere.io/deletion-propagation":"Background"`))
	route := "/kapis/tenant.kubesphere.io/v1beta1/workspacetemplates/" + ws
	for _, body := range []any{nil, obj{"propagationPolicy": "Orphan"}} {
		a.must(t, http.StatusOK, http.MethodDelete, route+"?dryRun=All", body)
		if r := a.must(t, http.StatusOK, http.MethodGet, template, nil); !strings.Contains(r.body, `"Background"`) || strings.Contains(r.body, "deletionTimestamp") {
			t.Errorf("after a dry run the template is %s", clip(r.body))
		}
	}
	a.must(t, http.StatusOK, http.MethodDelete, route, nil)
	eventually(t, "the template is gone", a.is(http.StatusNotFound, http.MethodGet, template))
	eventually(t, "the namespace is in no workspace", lacks(a, "/api/v1/namespaces/"+project, workspaceLabel+`":"`))
	if r := a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+project, nil); strings.Contains(r.body, "deletionTimestamp") {
		t.Errorf("the namespace is %s", clip(r.body))
	}
}

func TestU33AGroupCountsWhileItsBindingDoes(t *testing.T) {
	proves(t, "S9")
	a, name, group := admin(t), unique("member"), unique("devs")
	u := newUser(t, name)
	a.create(t, iamAPI+"/groups", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "Group", "metadata": obj{"name": group}})
	ns := newNamespace(t)
	role(t, ns, "reader", rule{[]string{""}, []string{"pods"}, []string{"list"}})
	binding := bind(t, ns, "reader", obj{"kind": "Group", "name": group})
	u.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+ns+"/pods", nil)
	put := func() {
		t.Helper()
		a.must(t, http.StatusCreated, http.MethodPost, iamAPI+"/groupbindings", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GroupBinding",
			"metadata": obj{"name": group}, "groupRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "Group", "name": group}, "users": []string{name}})
		eventually(t, "the group counts", u.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+ns+"/pods"))
	}
	put()
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/groupbindings/"+group, nil)
	within(t, revocation, "and no more", u.is(http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+ns+"/pods")) // S9
	put()
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/groups/"+group, nil)
	within(t, revocation, "a deleted group gives nothing", u.is(http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+ns+"/pods"))
	eventually(t, "nor is it bound", a.is(http.StatusNotFound, http.MethodGet, iamAPI+"/namespaces/"+ns+"/rolebindings/"+binding))
	eventually(t, "nor in the user", lacks(a, iamAPI+"/users/"+name, group))
}

// U50: who deletes the definition of workspaces has asked for the end of no namespace and of nobody's rights; and what their templates want comes back.
func TestU50ADeletedDefinitionTakesNoNamespace(t *testing.T) {
	proves(t, "S74")
	a, name, other := admin(t), unique("survivor"), unique("member")
	u, v := newUser(t, name), newUser(t, other)
	ws, project := newManagedWorkspace(t, name), unique("project")
	newProject(t, project, ws, nil)
	a.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/workspaces/"+ws+"/workspacemembers", []obj{{"username": other, "roleRef": ws + "-admin"}})
	custom := iamAPI + "/workspaceroles/" + ws + "-custom"
	a.create(t, iamAPI+"/workspaceroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole",
		"metadata": obj{"name": ws + "-custom", "labels": obj{workspaceLabel: ws}}, "rules": []any{}})
	// As an older installation has it: the garbage collector would take the role along.
	uid := decode[struct{ Metadata struct{ UID string } }](t, a.must(t, http.StatusOK, http.MethodGet, tenantAPI+"/workspaces/"+ws, nil).body).Metadata.UID
	a.must(t, http.StatusOK, http.MethodPatch, custom, obj{"metadata": obj{"ownerReferences": []any{
		obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "name": ws, "uid": uid}}}}, asMerge)
	eventually(t, "the workspace does not own it", lacks(a, custom, "ownerReferences"))
	eventually(t, "the other member is in", v.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+project+"/pods"))
	eventually(t, "the manager is in", u.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+project+"/pods"))
	a.must(
		t,
		http.StatusOK,
		http.MethodPatch,
		tenantAPI+"/workspaces/"+ws,
		`{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Background"}}}`,
		asMerge,
	)
	crd := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workspaces.tenant.kubesphere.io"
	a.must(t, http.StatusOK, http.MethodDelete, crd, nil)
	t.Cleanup(func() {
		if out, err := script(context.Background(), product, "install.sh"); err != nil {
			t.Errorf("install again: %v\n%s", err, out)
		}
	})
	eventually(t, "the definition is gone", a.is(http.StatusNotFound, http.MethodGet, crd))
	for _, path := range []string{custom, iamAPI + "/workspaceroles/" + ws + "-viewer", iamAPI + "/workspacerolebindings/" + ws + "-admin", iamAPI +
		"/workspacerolebindings/" + other + "-" + ws + "-admin"} {
		if r := a.must(t, http.StatusOK, http.MethodGet, path, nil); strings.Contains(r.body, "deletionTimestamp") {
			t.Errorf("%s goes", path)
		}
	}
	v.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces/"+project+"/pods", nil)
	for _, ns := range []string{project, "kube-system", "kubesphere-system"} {
		if r := a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+ns, nil); strings.Contains(r.body, "deletionTimestamp") {
			t.Errorf("namespace %s goes", ns)
		}
	}
	if out, err := script(t.Context(), product, "install.sh"); err != nil {
		t.Fatalf("install again: %v\n%s", err, out)
	}
	within(t, 30*time.Second, "the workspace is back", a.is(http.StatusOK, http.MethodGet, iamAPI+"/workspaceroles/"+ws+"-admin"))
	for who, c := range map[string]caller{"the manager": u, "the other member": v} {
		within(t, 30*time.Second, who+" is in", c.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+project+"/pods"))
	}
	within(t, 30*time.Second, "the manager is in again", u.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+project+"/pods"))
}
