package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const iamAPI = "/apis/iam.kubesphere.io/v1beta1"

func TestWithoutARoleThereIsNothingToSee(t *testing.T) { // S1
	proves(t, "S1", "S6")
	name := unique("norole")
	u := newUser(t, name)
	for _, path := range []string{
		kapis + "/pods", kapis + "/namespaces/default/pods", kapis + "/secrets", kapis + "/nodes", kapis + "/namespaces", kapis + "/users",
		kapis + "/users/admin", "/kapi/v1/secrets", "/kapis/apps/v1/deployments",
		"/kapis/iam.kubesphere.io/v1beta1/users/admin", "/kapis/iam.kubesphere.io/v1beta1/globalroles", "/kapis/iam.kubesphere.io/v1beta1/globalrolebindings",
		"/api/v1/secrets", "/api/v1/nodes", "/api/v1/namespaces/kube-system/configmaps", iamAPI + "/users", iamAPI + "/users/admin",
		"/apis/session.kapis.dev/v1alpha1/sessions", "/kapis/session.kapis.dev/v1alpha1/sessions", "/clusters/host/api/v1/secrets",
		"/apis/apps/v1/watch/deployments", "/api/v1/secrets?watch=true",
	} {
		r := u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		if !strings.Contains(r.body, `"reason":"Forbidden"`) || !strings.Contains(r.body, name) {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	if l := u.list(t, "/kapis/iam.kubesphere.io/v1beta1/users"); !slices.Equal(l.names(), []string{name}) {
		t.Errorf("users: %v, want himself alone", l.names())
	}
	u.must(t, http.StatusForbidden, http.MethodPost, iamAPI+"/users", map[string]any{"metadata": map[string]any{"name": "x"}})
	u.must(t, http.StatusForbidden, http.MethodDelete, iamAPI+"/users/admin", nil)
	u.must(t, http.StatusForbidden, http.MethodGet, "/metrics", nil)
	if m := admin(t).must(t, http.StatusOK, http.MethodGet, "/metrics", nil); !strings.Contains(m.body, "ks_cache_objects") {
		t.Errorf("the admin's metrics: %s", clip(m.body))
	}
	t.Run("but oneself, and what every page needs", func(t *testing.T) {
		for _, path := range []string{
			"/kapis/iam.kubesphere.io/v1beta1/users/" + name, iamAPI + "/users/" + name, "/kapis/config.kubesphere.io/v1alpha2/configs/configz",
			"/version", "/api", "/apis", "/apis/apps/v1", "/oauth/userinfo",
		} {
			u.must(t, http.StatusOK, http.MethodGet, path, nil)
		}
	})
	t.Run("one's own user grants no more", func(t *testing.T) { // S6
		for _, patch := range []string{
			`{"spec":{"groups":["system:masters"]}}`, `{"spec":{"groups":["ops"]}}`,
			`{"metadata":{"annotations":{"iam.kubesphere.io/granted-clusters":"*"}}}`, `{"metadata":{"labels":{"a":"b"}}}`,
		} {
			r, err := u.do(t.Context(), http.MethodPatch, iamAPI+"/users/"+name, patch, "Content-Type: application/merge-patch+json")
			if err != nil || r.code < 400 || r.code > 499 {
				t.Errorf("%s: %d %s %v", patch, r.code, clip(r.body), err)
			}
		}
	})
	t.Run("a token is no way to a password", func(t *testing.T) { // S6; the first one: TestTheFirstChangeOfAPasswordByThePatchOfTheConsole
		for _, c := range []struct{ patch, says string }{
			{`[{"op":"replace","path":"/spec/password","value":"Brandnew-1"}]`, "with the current one"},
			{`[{"op":"add","path":"/metadata/annotations/iam.kubesphere.io~1uninitialized","value":"true"}]`, "annotations that the system keeps"},
		} {
			for _, root := range []string{iamAPI, iamRoutes} {
				r, err := u.do(t.Context(), http.MethodPatch, root+"/users/"+name, c.patch, "Content-Type: application/json-patch+json")
				if refused := r.code == http.StatusForbidden && strings.Contains(r.body, c.says); err != nil || r.code == http.StatusOK || !refused && root == iamAPI {
					t.Errorf("%s %s: %d %s %v", root, c.patch, r.code, clip(r.body), err)
				}
			}
		}
		// What is not shown can't be taken away by mistake either.
		u.must(t, http.StatusOK, http.MethodPatch, iamAPI+"/users/"+name, `[{"op":"remove","path":"/spec/password"}]`, "Content-Type: application/json-patch+json")
		loginAt(t, product.URL, name, password)
	})
}

func TestAnonymousSeesThePublicPathsOnly(t *testing.T) {
	proves(t, "S54")
	for path, code := range map[string]int{
		"/healthz": 200, "/livez": 200, "/livez/ping": 200, "/readyz": 200, "/version": 200, "/oauth/keys": 200,
		"/.well-known/openid-configuration": 200, "/openapi/v2": 403, "/openapi/v3": 403, "/metrics": 403,
		"/kapis/config.kubesphere.io/v1alpha2/configs/configz": 200,
		"/oauth/userinfo": 401, "/api": 403, "/apis": 403, "/api/v1/namespaces": 403, kapis + "/pods": 403, "/kapis": 403, "/kapis/version": 403,
		"/debug/pprof": 403, "/": 403, "/metrics/x": 403, "/versionx": 403, "/oauth": 403, "/proxy/x": 403, "/kapis/%3Cscript%3E": 403,
	} {
		r, err := anonymous().do(t.Context(), http.MethodGet, path, nil)
		if err != nil || r.code != code {
			t.Errorf("GET %s = %d %s %v, want %d", path, r.code, clip(r.body), err, code)
		}
	}
}

func TestBadTokensAreRefusedEverywhere(t *testing.T) { // S27, S28, S54, T6750-3, U28
	good := tokens(t, product.URL, "admin", product.AdminPassword).Access
	head, rest, _ := strings.Cut(good, ".")
	none := "eyJhbGciOiJub25lIiwidHlwIjoiYXQrand0In0." + rest
	tampered := good[:len(good)-8] + "AAAAAAAA"
	for name, value := range map[string]string{
		"garbage": "Bearer abc", "empty": "Bearer ", "spaces": "Bearer   x y", "alg none": "Bearer " + none, "unsigned": "Bearer " + head + "." +
			rest[:strings.Index(rest, ".")+1],
		"wrong signature": "Bearer " + tampered, "foreign": "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.AAAA",
		"16k of dots": "Bearer " + strings.Repeat(".", 16<<10),
	} {
		for _, path := range []string{kapis + "/pods", "/api/v1/pods", "/version", "/oauth/userinfo"} {
			r, err := anonymous().do(t.Context(), http.MethodGet, path, nil, "Authorization: "+value)
			if err != nil || r.code != http.StatusUnauthorized || !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer") ||
				!strings.Contains(r.header.Get("WWW-Authenticate"), "invalid_token") {
				t.Errorf("%s on %s: %d, WWW-Authenticate %q %v", name, path, r.code, r.header.Get("WWW-Authenticate"), err)
			}
		}
	}
	if r, err := anonymous().do(t.Context(), http.MethodGet, "/api/v1/pods", nil, "Authorization: Bearer "+strings.Repeat(".", 1<<20)); err == nil &&
		r.code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("1 MB of dots: %d", r.code)
	}
	if r, err := anonymous().do(t.Context(), http.MethodGet, "/api/v1/pods?access_token="+good, nil); err != nil || r.code != http.StatusForbidden { // T6750-2
		t.Errorf("a token in the query: %d %v", r.code, err)
	}
}

func TestServiceAccountTokensOfKubernetesWork(t *testing.T) {
	ns := newNamespace(t)
	a := admin(t)
	a.create(
		t,
		"/api/v1/namespaces/"+ns+"/serviceaccounts",
		map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "robot"}},
	)
	r := a.must(t, http.StatusCreated, http.MethodPost, "/api/v1/namespaces/"+ns+"/serviceaccounts/robot/token",
		map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{}})
	robot := caller{product.URL, decode[struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}](t, r.body).Status.Token}
	robot.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+ns+"/pods", nil)
	role(t, ns, "reader", rule{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}})
	bind(t, ns, "reader", map[string]any{"kind": "ServiceAccount", "name": "robot", "namespace": ns})
	eventually(t, "the robot's role counts", robot.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+ns+"/pods"))
	eventually(t, "at kube-apiserver too", robot.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+ns+"/pods"))
	robot.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/default/pods", nil)
}

type rule struct {
	Groups    []string `json:"apiGroups"`
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
}

func role(t *testing.T, ns, name string, rules ...rule) {
	t.Helper()
	admin(t).create(t, iamAPI+"/namespaces/"+ns+"/roles", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "Role", "metadata": map[string]any{"name": name}, "rules": rules,
	})
}

func bind(t *testing.T, ns, role string, subject map[string]any) string {
	t.Helper()
	name := unique(role)
	if subject["kind"] != "ServiceAccount" {
		subject["apiGroup"] = "rbac.authorization.k8s.io"
	}
	admin(t).create(t, iamAPI+"/namespaces/"+ns+"/rolebindings", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "RoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": "iam.kubesphere.io", "kind": "Role", "name": role},
		"subjects": []any{subject},
	})
	return name
}

// listsOnly returns a condition: the list has objects of the namespace, and of no other.
func (c caller) listsOnly(path, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		var l list
		if err := json.Unmarshal([]byte(r.body), &l); err != nil || r.code != http.StatusOK || len(l.Items) == 0 || *l.TotalItems != len(l.Items) {
			return fmt.Errorf("GET %s = %d %s", path, r.code, clip(r.body))
		}
		for _, i := range l.Items {
			if i.Metadata.Namespace != namespace {
				return fmt.Errorf("GET %s shows %s/%s", path, i.Metadata.Namespace, i.Metadata.Name)
			}
		}
		return nil
	}
}

func TestARoleInANamespaceCountsThereAndNowhereElse(t *testing.T) { // S2, S4, S9, S13
	proves(t, "S2", "S9")
	ns, name := newNamespace(t), unique("member")
	u := newUser(t, name)
	role(t, ns, "editor", rule{Groups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}},
		rule{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}})
	binding := bind(t, ns, "editor", map[string]any{"kind": "User", "name": name})
	eventually(t, "the role counts here", u.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+ns+"/deployments"))
	eventually(t, "and at kube-apiserver", u.is(http.StatusOK, http.MethodGet, "/apis/apps/v1/namespaces/"+ns+"/deployments"))
	u.must(t, http.StatusCreated, http.MethodPost, "/apis/apps/v1/namespaces/"+ns+"/deployments", deployment("mine", 1))
	for _, path := range []string{
		"/apis/apps/v1/deployments", "/apis/apps/v1/namespaces/default/deployments", kapis + "/namespaces/default/deployments", kapis + "/secrets",
		"/api/v1/namespaces/" + ns + "/secrets", kapis + "/namespaces/" + ns + "/secrets", "/kapis/other.example.com/v1/namespaces/" + ns + "/deployments",
		"/apis/apps/v1/namespaces/default/deployments?watch=true&fieldSelector=metadata.name=mine",
	} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	}
	eventually(t, "of all deployments, only those here are listed", u.listsOnly(kapis+"/deployments", ns))
	t.Run("identity headers of the client change nothing", func(t *testing.T) {
		for _, h := range []string{"X-Remote-User: admin", "X-Remote-Group: system:masters",
			"Connection: Impersonate-User, Impersonate-Group, Authorization"} {
			u.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/kube-system/secrets", nil, h)
			u.must(t, http.StatusOK, http.MethodGet, "/apis/apps/v1/namespaces/"+ns+"/deployments", nil, h)
		}
	})
	t.Run("kube-apiserver's audit log names the person", func(t *testing.T) {
		eventually(t, "the audit log names "+name, func(context.Context) error {
			text, done, err := logOf("kube-audit")
			if err != nil {
				return err
			}
			defer done()
			lines := bufio.NewScanner(text)
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				if strings.Contains(lines.Text(), `"impersonatedUser":{"username":"`+name+`"`) {
					return nil
				}
			}
			return errors.Join(fmt.Errorf("no line has %s", name), lines.Err())
		})
	})
	t.Run("a removed binding counts no more", func(t *testing.T) {
		admin(t).must(t, http.StatusOK, http.MethodDelete, iamAPI+"/namespaces/"+ns+"/rolebindings/"+binding, nil)
		within(t, revocation, "refused here", u.is(http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+ns+"/deployments"))
		within(t, revocation, "and through /apis", u.is(http.StatusForbidden, http.MethodGet, "/apis/apps/v1/namespaces/"+ns+"/deployments"))
	})
}

func TestAWorkspaceRoleCountsInTheWorkspacesNamespaces(t *testing.T) {
	a, ws, name := admin(t), unique("ws"), unique("wsmember")
	u := newUser(t, name)
	a.create(
		t,
		"/apis/tenant.kubesphere.io/v1beta1/workspaces",
		map[string]any{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": map[string]any{"name": ws}},
	)
	a.create(t, iamAPI+"/workspaceroles", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind":       "WorkspaceRole",
		"metadata":   map[string]any{"name": ws + "-watcher", "labels": map[string]any{"kubesphere.io/workspace": ws}},
		"rules":      []rule{{[]string{""}, []string{"pods", "configmaps"}, []string{"get", "list"}}},
	})
	a.create(t, iamAPI+"/workspacerolebindings", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind":       "WorkspaceRoleBinding",
		"metadata":   map[string]any{"name": unique("wrb"), "labels": map[string]any{"kubesphere.io/workspace": ws}},
		"roleRef":    map[string]any{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": ws + "-watcher"},
		"subjects":   []any{map[string]any{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}},
	})
	in, out := unique("in"), newNamespace(t)
	a.create(
		t,
		"/api/v1/namespaces",
		map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": in, "labels": map[string]any{"kubesphere.io/workspace": ws}}},
	)
	eventually(t, "listed from the cache", u.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/"+in+"/configmaps"))
	eventually(t, "listed through /api", u.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+in+"/configmaps"))
	u.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+out+"/configmaps", nil)
	u.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/"+out+"/configmaps", nil)
	eventually(t, "of all ConfigMaps, only those of the workspace are listed", u.listsOnly(kapis+"/configmaps", in))
	a.must(
		t,
		http.StatusOK,
		http.MethodPatch,
		"/api/v1/namespaces/"+in,
		`{"metadata":{"labels":{"kubesphere.io/workspace":null}}}`,
		"Content-Type: application/merge-patch+json",
	)
	within(t, revocation, "a namespace that left is refused", u.is(http.StatusForbidden, http.MethodGet, kapis+"/namespaces/"+in+"/configmaps"))
}

func TestAggregatedRolesFollowTheirTemplates(t *testing.T) {
	a, name, tpl := admin(t), unique("aggregated"), unique("template")
	u := newUser(t, name)
	templates := iamAPI + "/roletemplates"
	a.create(t, templates, map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind":       "RoleTemplate",
		"metadata":   map[string]any{"name": tpl, "labels": map[string]any{"iam.kubesphere.io/scope": "global"}},
		"spec":       map[string]any{"displayName": map[string]any{"en": "x"}, "rules": []rule{{[]string{""}, []string{"nodes"}, []string{"list"}}}},
	})
	a.create(t, iamAPI+"/globalroles", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRole", "metadata": map[string]any{"name": name},
		"aggregationRoleTemplates": map[string]any{"templateNames": []string{tpl}}, "rules": []rule{},
	})
	a.create(t, iamAPI+"/globalrolebindings", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRoleBinding", "metadata": map[string]any{"name": name},
		"roleRef":  map[string]any{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": name},
		"subjects": []any{map[string]any{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}},
	})
	eventually(t, "the template's rule counts", u.is(http.StatusOK, http.MethodGet, kapis+"/nodes"))
	eventually(t, "and through /api", u.is(http.StatusOK, http.MethodGet, "/api/v1/nodes"))
	a.must(
		t,
		http.StatusOK,
		http.MethodPatch,
		templates+"/"+tpl,
		`{"spec":{"rules":[{"apiGroups":[""],"resources":["persistentvolumes"],"verbs":["list"]}]}}`,
		"Content-Type: application/merge-patch+json",
	)
	eventually(t, "a removed rule is gone", u.is(http.StatusForbidden, http.MethodGet, kapis+"/nodes"))
	eventually(t, "and through /api", u.is(http.StatusForbidden, http.MethodGet, "/api/v1/nodes"))
	eventually(t, "an added one counts", u.is(http.StatusOK, http.MethodGet, kapis+"/persistentvolumes"))
}

func TestNewPasswordsAreHashedAndUsersActivated(t *testing.T) {
	name := unique("hashed")
	newUser(t, name)
	u := decode[struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec   map[string]any `json:"spec"`
		Status map[string]any `json:"status"`
	}](t, stored(t, iamAPI+"/users/"+name))
	if hash, _ := u.Spec["password"].(string); !strings.HasPrefix(hash, "$2a$10$") {
		t.Errorf("the password is not a bcrypt hash of cost 10 (%d characters)", len(hash))
	}
	if u.Status["state"] != "Active" {
		t.Errorf("state %v", u.Status["state"])
	}
	if at, err := time.Parse(time.RFC3339, u.Metadata.Annotations["iam.kubesphere.io/last-password-change-time"]); err != nil || time.Since(at) > time.Hour {
		t.Errorf("last change %v %v", at, err)
	}
	for _, bad := range []map[string]any{
		{"spec": map[string]any{"password": "short"}}, {"spec": map[string]any{"password": "nodigitsorupper"}}, {"spec": map[string]any{"email": "no address"}},
		{"spec": map[string]any{"groups": []string{"system:masters"}}},
	} {
		bad["apiVersion"], bad["kind"], bad["metadata"] = "iam.kubesphere.io/v1beta1", "User", map[string]any{"name": unique("bad")}
		admin(t).must(t, http.StatusUnprocessableEntity, http.MethodPost, iamAPI+"/users", bad)
	}
}

func TestTheHostClusterIsThere(t *testing.T) {
	r := admin(t).must(t, http.StatusOK, http.MethodGet, kapis+"/clusters/host", nil)
	c := decode[struct {
		Status map[string]any `json:"status"`
	}](t, r.body)
	if v, _ := c.Status["kubeSphereVersion"].(string); !strings.HasPrefix(v, "v4.1.") {
		t.Errorf("kubeSphereVersion %v", c.Status["kubeSphereVersion"])
	}
	v := decode[map[string]any](t, anonymous().must(t, http.StatusOK, http.MethodGet, "/version", nil).body)
	if s, _ := v["gitVersion"].(string); !strings.HasPrefix(s, "v4.1.") || !strings.Contains(s, "+") {
		t.Errorf("gitVersion %v", v["gitVersion"])
	}
	if k, _ := v["kubernetes"].(map[string]any); k["gitVersion"] != "v1.37.1" {
		t.Errorf("kubernetes %v", v["kubernetes"])
	}
}
