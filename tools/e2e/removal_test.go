package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// memberWithMore makes a member of a workspace who has created a project, is a member of another, and is in a group of the workspace that is bound to a
// third. It returns him, his name, and the projects.
func memberWithMore(t *testing.T, ws string) (u caller, name string, projects []string) {
	t.Helper()
	a := admin(t)
	name = unique("leaver")
	u = newUser(t, name)
	a.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/workspaces/"+ws+"/workspacemembers", []obj{{"username": name, "roleRef": ws + "-self-provisioner"}})
	own, joined, grouped, group := unique("own"), unique("joined"), unique("grouped"), unique("devs")
	eventually(t, "he creates a project", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPost, tenants+"/workspaces/"+ws+"/namespaces",
			obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": own, "labels": obj{"kubesphere.io/managed": "true"}}})
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+own, nil) })
	newProject(t, joined, ws, nil)
	newProject(t, grouped, ws, nil)
	a.create(t, iamAPI+"/groups", iamObject("Group", group, obj{"metadata": obj{"name": group, "labels": obj{workspaceLabel: ws}}}))
	a.create(t, iamAPI+"/groupbindings", iamObject("GroupBinding", group, obj{
		"metadata": obj{
			"name":   group,
			"labels": obj{workspaceLabel: ws},
		},
		"groupRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "Group", "name": group},
		"users":    []string{name},
	}))
	for _, ns := range []string{joined, grouped} {
		eventually(t, "the project has its roles", a.is(http.StatusOK, http.MethodGet, iamRoutes+"/namespaces/"+ns+"/roles/operator"))
	}
	a.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/namespaces/"+joined+"/namespacemembers", []obj{{"username": name, "roleRef": "operator"}})
	bind(t, grouped, "operator", obj{"kind": "Group", "name": group})
	projects = []string{own, joined, grouped}
	for _, ns := range projects {
		eventually(t, "he is in "+ns, u.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+ns+"/pods"))
	}
	eventually(t, "his project is made", a.has("/api/v1/namespaces/"+own, `"kapis.dev/initialized":"true"`))
	return u, name, projects
}

func TestWhoIsRemovedFromAWorkspaceKeepsNothingInIt(t *testing.T) { // S67
	proves(t, "S67", "S9")
	a, ws := admin(t), newManagedWorkspace(t, "admin")
	members := "/workspaces/" + ws + "/workspacemembers/"
	for version, root := range map[string]string{"now": iamRoutes, "older": "/kapis/iam.kubesphere.io/v1alpha2"} {
		t.Run(version, func(t *testing.T) {
			u, name, projects := memberWithMore(t, ws)
			if r := a.must(t, http.StatusOK, http.MethodDelete, root+members+name+"?dryRun=All", nil); !strings.Contains(r.body, projects[0]) {
				t.Errorf("a dry run tells %s", r.body)
			}
			u.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces/"+projects[0]+"/pods", nil)
			r := a.must(t, http.StatusOK, http.MethodDelete, root+members+name, nil)
			for _, says := range []string{`"message":"success"`, projects[0], projects[1], `"groupbindings"`, `"workspacerolebindings"`} {
				if !strings.Contains(r.body, says) {
					t.Errorf("%s is not told: %s", says, r.body)
				}
			}
			for _, ns := range projects {
				within(t, revocation, "he is out of "+ns, u.is(http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+ns+"/pods"))
				within(t, revocation, "at kube-apiserver too", func(context.Context) error {
					if code, body := pastIt(t, name, http.MethodGet, "/api/v1/namespaces/"+ns+"/pods", ""); code != http.StatusForbidden {
						return fmt.Errorf("%d %s", code, clip(body))
					}
					return nil
				})
			}
			// Nothing brings him back: neither a role that is made again, nor a namespace that is looked at again.
			a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+projects[0]+"/roles/admin", nil)
			eventually(t, "the role is made again", a.is(http.StatusOK, http.MethodGet, iamAPI+"/namespaces/"+projects[0]+"/roles/admin"))
			u.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+projects[0]+"/pods", nil)
			a.must(t, http.StatusBadRequest, http.MethodDelete, root+members+name, nil)
		})
	}
}

func TestARemovalIsRefusedWholeToWhoMayNotDoAllOfIt(t *testing.T) { // S67
	proves(t, "S67", "S10")
	a, ws := admin(t), newManagedWorkspace(t, "admin")
	u, name, projects := memberWithMore(t, ws)
	chief := unique("chief")
	c := newUser(t, chief)
	a.create(t, iamAPI+"/workspaceroles", iamObject("WorkspaceRole", ws+"-chief", obj{
		"metadata": obj{"name": ws + "-chief", "labels": obj{workspaceLabel: ws}},
		"rules":    []rule{{[]string{"iam.kubesphere.io"}, []string{"workspacemembers", "workspacerolebindings"}, []string{"*"}}},
	}))
	eventually(t, "the role is known", a.is(http.StatusOK, http.MethodGet, iamRoutes+"/workspaces/"+ws+"/workspaceroles/"+ws+"-chief"))
	a.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/workspaces/"+ws+"/workspacemembers", []obj{{"username": chief, "roleRef": ws + "-chief"}})
	path := iamRoutes + "/workspaces/" + ws + "/workspacemembers/"
	eventually(t, "the chief manages members", c.is(http.StatusOK, http.MethodGet, path+name))
	r := c.must(t, http.StatusForbidden, http.MethodDelete, path+name, nil)
	for _, says := range []string{projects[0], projects[1], "groupbindings", "nothing was written"} {
		if !strings.Contains(r.body, says) {
			t.Errorf("%s is not told: %s", says, r.body)
		}
	}
	for _, ns := range projects {
		u.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces/"+ns+"/pods", nil)
	}
	a.must(t, http.StatusOK, http.MethodGet, path+name, nil)
	a.must(t, http.StatusConflict, http.MethodDelete, path+"admin", nil) // the manager, who would be back at once

	// Whoever is removed from his own namespace alone is not its administrator again.
	a.must(t, http.StatusOK, http.MethodDelete, iamRoutes+"/namespaces/"+projects[0]+"/namespacemembers/"+name, nil)
	within(t, revocation, "he is out of his own", u.is(http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+projects[0]+"/pods"))
	within(t, revocation, "at kube-apiserver too", func(context.Context) error {
		if code, body := pastIt(t, name, http.MethodGet, "/api/v1/namespaces/"+projects[0]+"/pods", ""); code != http.StatusForbidden {
			return fmt.Errorf("%d %s", code, clip(body))
		}
		return nil
	})
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+projects[0]+"/roles/admin", nil)
	eventually(t, "the role is made again", a.is(http.StatusOK, http.MethodGet, iamAPI+"/namespaces/"+projects[0]+"/roles/admin"))
	a.must(t, http.StatusNotFound, http.MethodGet, iamAPI+"/namespaces/"+projects[0]+"/rolebindings/"+name+"-admin", nil)
	u.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+projects[0]+"/pods", nil)
}
