package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// absentOwner is an owner reference to an object that is not there: the garbage collector deletes what has it.
func absentOwner() []any {
	return []any{obj{"apiVersion": "v1", "kind": "Namespace", "name": unique("absent"), "uid": "9b1fbc8e-7a43-4c0b-9f0a-0d3f6a3b7c11"}}
}

// workspaceTemplate is a template that is placed here.
func workspaceTemplate(name, manager string, metadata obj) obj {
	m := obj{"name": name}
	for k, v := range metadata {
		m[k] = v
	}
	return obj{
		"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate", "metadata": m,
		"spec": obj{"placement": obj{"clusters": []any{obj{"name": "host"}}}, "template": obj{"spec": obj{"manager": manager}}},
	}
}

// bareWorkspace makes a Workspace without a template, with a project in it, as the admin of kube-apiserver does.
func bareWorkspace(t *testing.T, manager string) (name, project string) {
	t.Helper()
	a := admin(t)
	name, project = unique("bare"), unique("project")
	a.create(
		t,
		tenantAPI+"/workspaces",
		obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": obj{"name": name}, "spec": obj{"manager": manager}},
	)
	eventually(t, "the workspace has its roles", a.is(http.StatusOK, http.MethodGet, iamAPI+"/workspaceroles/"+name+"-admin"))
	newProject(t, project, name, nil)
	return name, project
}

// doors are the ways by which somebody creates a template: this server's routes, what it passes on, and kube-apiserver itself.
func doors(u caller, name string) map[string]func(t *testing.T, body obj) (int, string) {
	through := func(path string) func(t *testing.T, body obj) (int, string) {
		return func(t *testing.T, body obj) (int, string) {
			t.Helper()
			r, err := u.do(t.Context(), http.MethodPost, path, body)
			if err != nil {
				t.Fatal(err)
			}
			return r.code, r.body
		}
	}
	return map[string]func(t *testing.T, body obj) (int, string){
		"workspacetemplates": through(
			tenants + "/workspacetemplates",
		),
		"workspaces": through(tenants + "/workspaces"),
		"passed on":  through(tenantAPI + "/workspacetemplates"),
		pastKS: func(t *testing.T, body obj) (int, string) {
			t.Helper()
			return pastIt(t, name, http.MethodPost, tenantAPI+"/workspacetemplates", encode(t, body))
		},
	}
}

// mayCreateTemplates makes a user who may create workspaces and nothing else.
func mayCreateTemplates(t *testing.T) (caller, string) {
	t.Helper()
	name := unique("provisioner")
	u := newUser(t, name)
	global(t, name, rule{[]string{"tenant.kubesphere.io"}, []string{"workspaces", "workspacetemplates"}, []string{"create", "get", "list"}},
		rule{[]string{"cluster.kubesphere.io"}, []string{"clusters"}, []string{"delete"}}) // whoever may delete clusters places workspaces in any
	eventually(t, "he may create workspaces", u.is(http.StatusOK, http.MethodGet, tenantAPI+"/workspacetemplates"))
	eventually(t, "at kube-apiserver too", func(context.Context) error {
		if code, body := pastIt(t, name, http.MethodGet, tenantAPI+"/workspacetemplates", ""); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, clip(body))
		}
		return nil
	})
	return u, name
}

func TestAStrangersTemplateEndsNoWorkspace(t *testing.T) { // S65
	proves(t, "S65")
	a := admin(t)
	u, name := mayCreateTemplates(t)
	ws, project := bareWorkspace(t, "admin")
	hostile := obj{
		"ownerReferences": absentOwner(),
		"finalizers":      []any{"kubesphere.io/cascading-deletion"},
		"annotations":     obj{"kubesphere.io/deletion-propagation": "Background"},
	}
	for door, create := range doors(u, name) {
		for claim, body := range map[string]obj{
			"with everything": workspaceTemplate(ws, name, hostile), "as it is": workspaceTemplate(ws, name, nil), "without a manager": workspaceTemplate(ws, "", nil),
			"not placed": {"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate", "metadata": obj{"name": ws}, "spec": obj{}},
		} {
			if code, answer := create(t, body); code != http.StatusForbidden {
				t.Errorf("%s, %s: %d %s", door, claim, code, clip(answer))
			}
		}
		for claim, metadata := range map[string]obj{
			"owners": {"ownerReferences": absentOwner()}, "finalizers": {"finalizers": []any{"kubesphere.io/cascading-deletion"}},
			"propagation": {"annotations": obj{"kubesphere.io/deletion-propagation": "Foreground"}},
		} {
			if code, answer := create(t, workspaceTemplate(unique("own"), name, metadata)); code != http.StatusForbidden {
				t.Errorf("%s, a new one with %s: %d %s", door, claim, code, clip(answer))
			}
		}
	}
	// Somebody who may do all this makes such a template, which the garbage collector deletes: it takes nothing along that it did not make.
	delete(hostile, "finalizers") // the controller puts it on
	a.must(t, http.StatusCreated, http.MethodPost, tenantAPI+"/workspacetemplates", workspaceTemplate(ws, name, hostile))
	eventually(t, "the garbage collector has deleted the template", a.is(http.StatusNotFound, http.MethodGet, tenantAPI+"/workspacetemplates/"+ws))
	for _, path := range []string{tenantAPI + "/workspaces/" + ws, "/api/v1/namespaces/" + project, iamAPI + "/workspacerolebindings/" + ws + "-admin"} {
		if r := a.must(t, http.StatusOK, http.MethodGet, path, nil); strings.Contains(r.body, "deletionTimestamp") || strings.Contains(r.body, name) {
			t.Errorf("%s is %s", path, clip(r.body))
		}
	}
}

// Of a template and a Workspace of one name that are made at the same time, the template changes what it made, or nothing.
func TestATemplateTakesNoWorkspaceThatCameAtTheSameTime(t *testing.T) { // S65
	proves(t, "S65")
	a := admin(t)
	u, name := mayCreateTemplates(t)
	for range 8 {
		ws := unique("race")
		var both sync.WaitGroup
		var made reply
		both.Go(func() {
			_, _ = u.do(t.Context(), http.MethodPost, tenantAPI+"/workspacetemplates", workspaceTemplate(ws, name, nil))
		})
		both.Go(func() {
			made, _ = a.do(t.Context(), http.MethodPost, tenantAPI+"/workspaces",
				obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": obj{"name": ws}, "spec": obj{"manager": "admin"}})
		})
		both.Wait()
		t.Cleanup(func() {
			_, _ = a.do(context.Background(), http.MethodDelete, tenantAPI+"/workspacetemplates/"+ws, nil)
			_, _ = a.do(context.Background(), http.MethodDelete, tenantAPI+"/workspaces/"+ws, nil)
		})
		if made.code != http.StatusCreated {
			continue // the template was first, and has made it
		}
		if r, err := a.do(t.Context(), http.MethodGet, tenantAPI+"/workspacetemplates/"+ws, nil); err == nil && r.code == http.StatusOK {
			eventually(t, "the template says whose it is", a.has(tenantAPI+"/workspacetemplates/"+ws, `"reason":"WorkspaceOfAnother"`))
		}
		if r := a.must(t, http.StatusOK, http.MethodGet, tenantAPI+"/workspaces/"+ws, nil); !strings.Contains(r.body, `"manager":"admin"`) {
			t.Errorf("the workspace is %s", clip(r.body))
		}
	}
}

// What says that a workspace, its template or a namespace goes is written by those who may delete it.
func TestNobodyHasTheGarbageCollectorDelete(t *testing.T) { // S65
	proves(t, "S65")
	a, name := admin(t), unique("editor")
	u := newUser(t, name)
	ws, project := newManagedWorkspace(t, "admin"), unique("project")
	newProject(t, project, ws, nil)
	global(t, name, rule{[]string{"tenant.kubesphere.io"}, []string{"workspaces", "workspacetemplates"}, []string{"get", "update", "patch"}},
		rule{[]string{""}, []string{"namespaces", "namespaces/status"}, []string{"get", "update", "patch"}})
	eventually(t, "he may edit them", u.is(http.StatusOK, http.MethodGet, tenantAPI+"/workspaces/"+ws))
	owners := encode(t, obj{"metadata": obj{"ownerReferences": absentOwner()}})
	// One that is there, and that somebody may end: his own user, which an administrator deletes one day.
	uid := decode[struct{ Metadata struct{ UID string } }](t, a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/users/"+name, nil).body).Metadata.UID
	owned := encode(t, obj{"metadata": obj{"ownerReferences": []obj{{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "name": name, "uid": uid}}}})
	for _, c := range []struct{ path, body string }{
		{tenantAPI + "/workspaces/" + ws, owners}, {tenantAPI + "/workspacetemplates/" + ws, owners}, {tenants + "/workspacetemplates/" + ws, owners},
		{tenantAPI + "/workspaces/" + ws, owned}, {tenantAPI + "/workspacetemplates/" + ws, owned}, {"/api/v1/namespaces/" + project, owned},
		{"/api/v1/namespaces/" + project, owners}, {"/api/v1/namespaces/" + project + "/status", owners}, {"/kapi/v1/namespaces/" + project, owners},
		{tenantAPI + "/workspaces/" + ws, `{"metadata":{"finalizers":[]}}`}, {tenantAPI + "/workspacetemplates/" + ws,
			`{"metadata":{"finalizers":["example.com/held"]}}`},
		{tenantAPI + "/workspaces/" + ws, `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Background"}}}`},
		{tenantAPI + "/workspacetemplates/" + ws, `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Background"}}}`},
		{tenantAPI + "/workspaces/" + ws, `{"metadata":{"annotations":{"kapis.dev/workspacetemplate-uid":"9b1fbc8e-7a43-4c0b-9f0a-0d3f6a3b7c11"}}}`},
	} {
		eventually(t, c.path+" refuses "+c.body, func(ctx context.Context) error {
			r, err := u.do(ctx, http.MethodPatch, c.path, c.body, asMerge)
			if err != nil {
				return err
			}
			if r.code != http.StatusForbidden || !strings.Contains(r.body, "delete") && !strings.Contains(r.body, "finalizers") {
				return fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return nil
		})
	}
	a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+project, `{"metadata":{"labels":{"note":"x"}}}`, asMerge)
	for _, path := range []string{tenantAPI + "/workspaces/" + ws, tenantAPI + "/workspacetemplates/" + ws, "/api/v1/namespaces/" + project} {
		if r := a.must(t, http.StatusOK, http.MethodGet, path, nil); strings.Contains(r.body, "deletionTimestamp") || strings.Contains(r.body, "ownerReferences") {
			t.Errorf("%s is %s", path, clip(r.body))
		}
	}
}

// A namespace that a workspace left behind is not had by making a workspace of that name.
func TestNamespacesOfAWorkspaceThatIsGoneFallToNobody(t *testing.T) { // S69
	proves(t, "S69")
	a, gone, project := admin(t), unique("gone"), unique("project")
	newProject(t, project, gone, nil)
	u, name := mayCreateTemplates(t)
	refused := func(body obj) {
		t.Helper()
		for door, create := range doors(u, name) {
			if code, answer := create(t, body); code != http.StatusForbidden || !strings.Contains(answer, "of this name") {
				t.Errorf("%s: %d %s", door, code, clip(answer))
			}
		}
		workspace := obj{
			"apiVersion": "tenant.kubesphere.io/v1beta1",
			"kind":       "Workspace",
			"metadata":   obj{"name": body["metadata"].(obj)["name"]},
			"spec":       obj{"manager": name},
		}
		for door, code := range map[string]int{
			"passed on": func() int {
				r, err := u.do(t.Context(), http.MethodPost, tenantAPI+"/workspaces", workspace)
				if err != nil {
					t.Fatal(err)
				}
				return r.code
			}(),
			pastKS: func() int {
				code, _ := pastIt(t, name, http.MethodPost, tenantAPI+"/workspaces", encode(t, workspace))
				return code
			}(),
		} {
			if code != http.StatusForbidden {
				t.Errorf("a workspace, %s: %d", door, code)
			}
		}
	}
	refused(workspaceTemplate(gone, name, nil))
	u.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+project+"/pods", nil)

	bound := unique("bound")
	a.create(t, iamAPI+"/workspacerolebindings", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind":       "WorkspaceRoleBinding",
		"metadata": obj{
			"name":   bound,
			"labels": obj{workspaceLabel: bound},
		},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": "system-workspace-viewer"},
		"subjects": []any{obj{"kind": "User", "name": "somebody", "apiGroup": "rbac.authorization.k8s.io"}},
	})
	eventually(t, "the binding of a workspace that is not there is known", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPost, tenants+"/workspacetemplates?dryRun=All", workspaceTemplate(bound, name, nil))
		if err == nil && r.code != http.StatusForbidden {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})

	for plural, kind := range map[string]string{"applications": "Application", "applicationreleases": "ApplicationRelease"} {
		left := unique("left")
		a.create(t, "/apis/application.kubesphere.io/v2/"+plural, obj{
			"apiVersion": "application.kubesphere.io/v2",
			"kind":       kind,
			"metadata": obj{
				"name":        left,
				"labels":      obj{workspaceLabel: left},
				"annotations": obj{"application.kubesphere.io/req-user": "admin"},
			},
			"spec": obj{},
		})
		refused(workspaceTemplate(left, name, nil))
	}

	free := unique("free")
	u.must(t, http.StatusOK, http.MethodPost, tenants+"/workspacetemplates", workspaceTemplate(free, name, nil))
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, tenantAPI+"/workspacetemplates/"+free, nil)
	})
	eventually(t, "a workspace of a name that is free is his", u.is(http.StatusOK, http.MethodGet, tenants+"/workspaces/"+free))
	a.must(t, http.StatusOK, http.MethodPost, tenants+"/workspacetemplates", workspaceTemplate(gone, "admin", nil))
	t.Cleanup(func() {
		_, _ = a.do(context.Background(), http.MethodDelete, tenantAPI+"/workspacetemplates/"+gone, nil)
	})
}

// A binding that is another workspace's by now stays when the workspace ends that it was of.
func TestABindingThatIsAnotherWorkspacesStays(t *testing.T) { // S74
	proves(t, "S74")
	a, name := admin(t), unique("moved")
	newUser(t, name)
	ws, other := newManagedWorkspace(t, "admin"), newManagedWorkspace(t, "admin")
	bindings := iamAPI + "/workspacerolebindings"
	for _, one := range []string{name + "-stays", name + "-goes"} {
		a.create(t, bindings, obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRoleBinding",
			"metadata": obj{"name": one, "labels": obj{workspaceLabel: ws}},
			"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": ws + "-viewer"},
			"subjects": []obj{{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}}})
	}
	a.must(t, http.StatusOK, http.MethodPatch, bindings+"/"+name+"-stays", obj{"metadata": obj{"labels": obj{workspaceLabel: other}}}, asMerge)
	a.must(t, http.StatusOK, http.MethodDelete, tenantAPI+"/workspacetemplates/"+ws, obj{"kind": "DeleteOptions", "apiVersion": "v1",
		"propagationPolicy": "Background"})
	eventually(t, "the workspace is gone", a.is(http.StatusNotFound, http.MethodGet, tenantAPI+"/workspaces/"+ws))
	eventually(t, "and its binding", a.is(http.StatusNotFound, http.MethodGet, bindings+"/"+name+"-goes"))
	if r := a.must(t, http.StatusOK, http.MethodGet, bindings+"/"+name+"-stays", nil); strings.Contains(r.body, "deletionTimestamp") {
		t.Errorf("the other one is %s", clip(r.body))
	}
}
