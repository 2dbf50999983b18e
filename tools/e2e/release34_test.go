package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// golden are requests as a console and scripts of release 3.4 send them, each with the code and texts of its answer. $W is a workspace, $U a
// user and $N a namespace with a role "viewer"; what is made stays for the requests after it.
const golden = `
GET iam.kubesphere.io/v1alpha2/globalroles?label=iam.kubesphere.io/role-template=true
200 {"items":[{"kind":"GlobalRole", "iam.kubesphere.io/module":"Access Control", "iam.kubesphere.io/role-template":"true", "kubesphere.io/alias-name":"View Users"
GET iam.kubesphere.io/v1alpha2/namespaces/$N/roles?labelSelector=iam.kubesphere.io/role-template=true&limit=1
200 {"items":[{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1", "totalItems":
POST iam.kubesphere.io/v1alpha2/workspaces/$W/workspaceroles {"apiVersion":"iam.kubesphere.io/v1alpha2","kind":"WorkspaceRole","metadata":{"name":"keeper-$W","annotations":{"iam.kubesphere.io/aggregation-roles":"[\"role-template-view-roles\",\"role-template-manage-roles\"]"}},"rules":[]}
200 "templateNames":["workspace-view-roles","workspace-manage-roles"]
POST iam.kubesphere.io/v1alpha2/workspaces/$W/workspaceroles {"metadata":{"name":"none","annotations":{"iam.kubesphere.io/aggregation-roles":"[\"role-template-view-nothing\"]"}}}
400 there is no role template
POST iam.kubesphere.io/v1alpha2/workspaces/$W/groups {"apiVersion":"iam.kubesphere.io/v1alpha2","kind":"Group","metadata":{"generateName":"devs$W","labels":{"kubesphere.io/workspace":"$W"}}}
200 "generateName":"devs$W"
POST iam.kubesphere.io/v1alpha2/workspaces/$W/groups {"apiVersion":"iam.kubesphere.io/v1alpha2","kind":"Group","metadata":{"generateName":"devs$W"}}
409 AlreadyExists
POST iam.kubesphere.io/v1alpha2/workspaces/$W/workspacerolebindings [{"subjects":[{"kind":"User","name":"$U","apiGroup":"rbac.authorization.k8s.io"}],"roleRef":{"apiGroup":"iam.kubesphere.io/v1alpha2","kind":"WorkspaceRole","name":"keeper-$W"}}]
200 [{, "generateName":"$u-keeper-$w-", "iam.kubesphere.io/user-ref":"$U", "kubesphere.io/workspace":"$W"
POST iam.kubesphere.io/v1alpha2/workspaces/$W/groupbindings [{"userName":"nobody-at-all","groupName":"devs"}]
404 nothing was written
POST iam.kubesphere.io/v1alpha2/namespaces/$N/rolebindings [{"subjects":[{"kind":"User","name":"$U","apiGroup":"rbac.authorization.k8s.io"}],"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"viewer"}}]
200 [{, "roleRef":{"apiGroup":"iam.kubesphere.io","kind":"Role","name":"viewer"}
GET iam.kubesphere.io/v1alpha2/workspaces/$W/rolebindings
200 [
GET tenant.kubesphere.io/v1alpha2/federatednamespaces
200 {"items":[],"totalItems":0}
GET tenant.kubesphere.io/v1alpha2/workspaces/$W/devops?limit=10
200 {"items":[],"totalItems":0}
GET tenant.kubesphere.io/v1alpha2/workspaces/$W/workspacemembers/$U/devops
200 {"items":[],"totalItems":0}
GET config.kubesphere.io/v1alpha2/configs/gpu/kinds
200 [{"resourceName":"nvidia.com/gpu","resourceType":"GPU","default":true}]
GET tenant.kubesphere.io/v1alpha2/logs?operation=query
404 stores no logs
GET monitoring.kubesphere.io/v1alpha3/namespaces/$N/pods/a/containers/b
404 Prometheus
GET iam.kubesphere.io/v1alpha2/devops/x/members
404 no DevOps projects
POST cluster.kubesphere.io/v1alpha1/clusters/validation {}
404 one cluster
`

func TestClientsOfRelease34(t *testing.T) { // O24, O26, O27, O41
	a, ws, name, ns := admin(t), unique("release34"), unique("rolekeeper"), newNamespace(t)
	newTeam(t, ws)
	u := newUser(t, name)
	role(t, ns, "viewer", rule{[]string{""}, []string{"configmaps"}, []string{"get"}})
	eventually(t, "the role is known", a.is(http.StatusOK, http.MethodGet, iamRoutes+"/namespaces/"+ns+"/roles/viewer"))
	lines := strings.Split(strings.TrimSpace(strings.NewReplacer("$W", ws, "$U", name, "$N", ns, "$u", name, "$w", ws).Replace(golden)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		f := strings.SplitN(lines[i], " ", 3)
		var body any
		if len(f) > 2 {
			body = f[2]
		}
		r, err := a.whenLoaded(t.Context(), f[0], "/kapis/"+f[1], body)
		if err != nil {
			t.Fatal(err)
		}
		code, texts, _ := strings.Cut(lines[i+1], " ")
		for _, text := range strings.Split(texts, ", ") {
			if fmt.Sprint(r.code) != code || !strings.Contains(r.body, text) {
				t.Errorf("%s\n  %d %s\n  want %s %s", lines[i], r.code, clip(r.body), code, text)
			}
		}
	}

	roles := "/kapis/iam.kubesphere.io/v1alpha2/workspaces/" + ws + "/workspaceroles"
	keeper := roles + "/keeper-" + ws
	step(t, "a creation with a version is an update", func(t *testing.T) {
		eventually(t, "the rules are those of the templates", a.has(keeper, `"rules":[{`, `"iam.kubesphere.io/aggregation-roles":"[\"workspace-view-roles\",`))
		o := decode[obj](t, a.must(t, http.StatusOK, http.MethodGet, keeper, nil).body)
		o["metadata"].(obj)["annotations"].(obj)["kubesphere.io/description"] = "changed by POST"
		if r, err := a.do(t.Context(), http.MethodPost, roles, o); err != nil || r.code != http.StatusOK && r.code != http.StatusConflict {
			t.Errorf("%d %s %v", r.code, clip(r.body), err)
		}
	})
	step(t, "nobody makes a role of more than they hold", func(t *testing.T) { // O26
		eventually(t, "the binding counts", u.is(http.StatusOK, http.MethodGet, keeper))
		make := func(template string) obj {
			return obj{"metadata": obj{"name": unique("made"), "annotations": obj{"iam.kubesphere.io/aggregation-roles": `["` + template + `"]`}}}
		}
		eventually(t, "what they hold may be given", func(ctx context.Context) error {
			r, err := u.do(ctx, http.MethodPost, roles, make("role-template-view-roles"))
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
		u.must(t, http.StatusForbidden, http.MethodPost, roles, make("role-template-manage-members"))
		u.must(t, http.StatusForbidden, http.MethodPatch, keeper, obj{"metadata": obj{"annotations": obj{
			"iam.kubesphere.io/aggregation-roles": `["role-template-manage-members"]`}}}, "Content-Type: application/merge-patch+json")
		u.must(t, http.StatusForbidden, http.MethodPost, roles[:strings.LastIndex(roles, "/")]+"/workspacerolebindings", []obj{{
			"subjects": []obj{{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}}, "roleRef": obj{"kind": "WorkspaceRole", "name": ws + "-admin"},
		}})
		u.must(t, http.StatusOK, http.MethodGet, "/kapis/tenant.kubesphere.io/v1alpha2/federatednamespaces", nil)
		anonymous().must(t, http.StatusForbidden, http.MethodGet, "/kapis/tenant.kubesphere.io/v1alpha2/federatednamespaces", nil)
	})
	step(t, "a login at a provider is the password grant, for trusted clients", func(t *testing.T) {
		r := anonymous().must(t, http.StatusBadRequest, http.MethodPost, "/oauth/login/none", "username=a&password=b", "Content-Type: application/x-www-form-urlencoded")
		if !strings.Contains(r.body, "invalid_client") {
			t.Errorf("%s", r.body)
		}
	})
}
