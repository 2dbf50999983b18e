package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// everyRight is what a role grants that grants all.
var everyRight = []rule{{Groups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}

// managesRoles is the role of those who edit users, roles and bindings, as charts of existing installations have it: all verbs, on these
// resources. Kubernetes itself would take that for the right to escalate.
var managesRoles = []rule{
	{Groups: []string{"iam.kubesphere.io"}, Resources: []string{
		"builtinroles",
		"clusterrolebindings",
		"clusterroles",
		"globalrolebindings",
		"globalroles",
		"groupbindings",
		"rolebindings",
		"roles",
		"roletemplates",
		"users",
		"workspacerolebindings",
		"workspaceroles",
	}, Verbs: []string{"*"}},
	{Groups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list"}},
}

func iamObject(kind, name string, more obj) obj {
	o := obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": kind, "metadata": obj{"name": name}}
	for k, v := range more {
		o[k] = v
	}
	return o
}

func globalBinding(name, role string, users ...string) obj {
	var subjects []obj
	for _, u := range users {
		subjects = append(subjects, obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": u})
	}
	return iamObject("GlobalRoleBinding", name, obj{"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": role}, "subjects": subjects})
}

// way is how somebody reaches kube-apiserver.
type way func(t *testing.T, method, path, body string, headers ...string) (int, string)

// pastKS names the way to kube-apiserver itself.
const pastKS = "past it"

// ways are through the routes of this server, through what it passes on, and past it, with a kubeconfig.
func ways(u caller, name string) map[string]way {
	through := func(root string) way {
		return func(t *testing.T, method, path, body string, headers ...string) (int, string) {
			t.Helper()
			r, err := u.do(t.Context(), method, root+path, body, headers...)
			if err != nil {
				t.Fatal(err)
			}
			return r.code, r.body
		}
	}
	return map[string]way{
		"routes": through("/kapis/iam.kubesphere.io/v1beta1"), "passed on": through(iamAPI),
		pastKS: func(t *testing.T, method, path, body string, headers ...string) (int, string) {
			t.Helper()
			return pastIt(t, name, method, iamAPI+path, body, headers...)
		},
	}
}

// pastIt asks kube-apiserver itself as somebody.
func pastIt(t *testing.T, name, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	admin, err := product.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(config.Host, "/")+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		r.Header.Set(k, v)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func TestNobodyGivesAwayMoreThanHeHolds(t *testing.T) { // S6
	proves(t, "S6")
	a, name, role := admin(t), unique("chief"), unique("manages-roles")
	u := newUser(t, name)
	other, mine, template := unique("other"), unique("mine"), unique("template")
	newUser(t, other)
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", role, obj{"rules": managesRoles}))
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", mine, obj{"rules": managesRoles}))
	a.create(t, iamAPI+"/globalrolebindings", globalBinding(unique("chief"), role, name))
	awaited := unique("awaited") // whose binding is known once that of the other is
	a.create(t, iamAPI+"/globalrolebindings", globalBinding(unique("admins"), "platform-admin", awaited))
	a.create(t, iamAPI+"/globalrolebindings", globalBinding(unique("admins"), "platform-admin", other))
	a.create(t, iamAPI+"/roletemplates", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "RoleTemplate",
		"metadata": obj{"name": template, "labels": obj{"iam.kubesphere.io/scope": "global"}}, "spec": obj{"rules": everyRight}})
	eventually(t, "the role counts", u.is(http.StatusOK, http.MethodGet, iamAPI+"/globalroles/"+mine))
	eventually(t, "at kube-apiserver too", func(context.Context) error {
		if code, body := pastIt(t, name, http.MethodGet, iamAPI+"/globalroles/"+mine, ""); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	eventually(t, "for users, whom he has by a role of their own there", u.is(http.StatusOK, http.MethodGet, iamAPI+"/users"))
	eventually(t, "and in the webhooks", u.accepts(http.StatusCreated, http.MethodPost, iamAPI+"/globalroles?dryRun=All",
		iamObject("GlobalRole", unique("held"), obj{"rules": managesRoles[1:]})))
	eventually(t, "the other is known to hold more", a.has(iamAPI+"/users/"+other, `"iam.kubesphere.io/globalrole":"platform-admin"`))
	all := encode(t, everyRight)
	merge, patch, apply := "Content-Type: application/merge-patch+json", "Content-Type: application/json-patch+json", "Content-Type: application/apply-patch+yaml"
	for claim, do := range ways(u, name) {
		t.Run(claim, func(t *testing.T) {
			fresh := unique("fresh")
			for _, c := range []struct{ what, method, path, body, header string }{
				{"a role with all rights", http.MethodPost, "/globalroles", encode(t, iamObject("GlobalRole", fresh, obj{"rules": everyRight})), ""},
				{"a role of templates with all rights", http.MethodPost, "/globalroles",
					encode(t, iamObject("GlobalRole", fresh, obj{"aggregationRoleTemplates": obj{"templateNames": []string{template}}})), ""},
				{"a role of a namespace", http.MethodPost, "/namespaces/default/roles", encode(t, iamObject("Role", fresh, obj{"rules": everyRight})), ""},
				{"a template", http.MethodPost, "/roletemplates", encode(t, iamObject("RoleTemplate", fresh, obj{"spec": obj{"rules": everyRight}})), ""},
				{"a built-in role", http.MethodPost, "/builtinroles", encode(t, iamObject("BuiltinRole", fresh, obj{"role": obj{"kind": "Role", "rules": everyRight}})),
					""},
				{"himself an admin", http.MethodPost, "/globalrolebindings", encode(t, globalBinding(fresh, "platform-admin", name)), ""},
				{"another an admin", http.MethodPost, "/globalrolebindings", encode(t, globalBinding(fresh, "platform-admin", "nobody")), ""},
				{"a user who is an admin", http.MethodPost, "/users", encode(t, obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User",
					"metadata": obj{"name": fresh, "annotations": obj{"iam.kubesphere.io/globalrole": "platform-admin"}}}), ""},
				{"a user who is awaited as an admin", http.MethodPost, "/users", encode(t,
					obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": obj{"name": awaited},
						"spec": obj{"email": awaited + "@example.com", "password": "Taken-over-1"}}), ""},
				{"a role of templates that he could hold later", http.MethodPost, "/globalroles",
					encode(t, iamObject("GlobalRole", fresh, obj{"aggregationRoleTemplates": obj{"templateNames": []string{"later"}}})), ""},
				{"a role of templates that he could hold by a label", http.MethodPost, "/globalroles",
					encode(t, iamObject("GlobalRole", fresh, obj{"aggregationRoleTemplates": obj{"roleSelector": obj{"matchLabels": obj{"later": ""}}}})), ""},
				{"a wider role by a merge patch", http.MethodPatch, "/globalroles/" + mine, `{"rules":` + all + `}`, merge},
				{"a wider role by a JSON patch", http.MethodPatch, "/globalroles/" + mine, `[{"op":"replace","path":"/rules","value":` + all + `}]`, patch},
				{"a wider role by one more rule", http.MethodPatch, "/globalroles/" + mine, `[{"op":"add","path":"/rules/-","value":` + encode(t, everyRight[0]) + `}]`,
					patch},
				{"a wider role that is applied", http.MethodPatch, "/globalroles/" + mine + "?fieldManager=x&force=true",
					encode(t, iamObject("GlobalRole", mine, obj{"rules": everyRight})), apply},
				{"a new role that is applied", http.MethodPatch, "/globalroles/" + fresh + "?fieldManager=x",
					encode(t, iamObject("GlobalRole", fresh, obj{"rules": everyRight})), apply},
				{"a wider role by templates", http.MethodPatch, "/globalroles/" + mine, `{"aggregationRoleTemplates":{"templateNames":["` + template + `"]}}`, merge},
				{"a template that roles pick", http.MethodPatch, "/roletemplates/" + template,
					`{"metadata":{"labels":{"iam.kubesphere.io/aggregate-to-authenticated":""}}}`, merge},
				{"an admin by an annotation", http.MethodPatch, "/users/" + name, `{"metadata":{"annotations":{"iam.kubesphere.io/globalrole":"platform-admin"}}}`, merge},
				{"an admin's password", http.MethodPatch, "/users/" + other, `{"spec":{"password":"Taken-over-1"}}`, merge},
				{"an admin's address", http.MethodPatch, "/users/" + other, `[{"op":"replace","path":"/spec/email","value":"x@example.com"}]`, patch},
			} {
				var headers []string
				if c.header != "" {
					headers = append(headers, c.header)
				}
				told := func(body string) bool {
					if claim == pastKS && strings.HasPrefix(c.path, "/users") {
						return strings.Contains(body, "cannot") // there nobody has a right to users
					}
					return strings.Contains(body, "hold") || strings.Contains(body, "escalate") || strings.Contains(body, "change their own role")
				}
				if code, body := do(t, c.method, c.path, c.body, headers...); code != http.StatusForbidden || !told(body) {
					t.Errorf("%s: %d %s", c.what, code, clip(body))
				}
			}
			for _, path := range []string{"/globalroles/", "/globalrolebindings/", "/roletemplates/", "/builtinroles/", "/users/", "/namespaces/default/roles/"} {
				a.must(t, http.StatusNotFound, http.MethodGet, iamAPI+path+fresh, nil)
			}
			if r := a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/globalroles/"+mine, nil); strings.Contains(r.body, `"resources":["*"]`) ||
				strings.Contains(r.body, template) {
				t.Errorf("the role was widened: %s", clip(r.body))
			}
			t.Run("what he holds he gives", func(t *testing.T) {
				if code, body := do(t, http.MethodPost, "/globalroles", encode(t, iamObject("GlobalRole", fresh, obj{"rules": managesRoles[1:]}))); code/100 != 2 {
					t.Fatalf("a role of what he holds: %d %s", code, clip(body))
				}
				defer a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/globalroles/"+fresh, nil)
				if code, body := do(t, http.MethodPatch, "/globalroles/platform-regular", `{"metadata":{"annotations":{"example.com/note":"`+fresh+`"}}}`,
					merge); code != http.StatusOK {
					t.Errorf("a note: %d %s", code, clip(body))
				}
				if code, body := do(t, http.MethodPost, "/globalrolebindings", encode(t, globalBinding(fresh, mine, "nobody"))); code/100 != 2 {
					t.Errorf("a binding of what he holds: %d %s", code, clip(body))
				}
				a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/globalrolebindings/"+fresh, nil)
			})
		})
	}
}

// stopWebhooks lets ks-controller-manager sleep until the returned function is called.
func stopWebhooks(t *testing.T) (awake func()) {
	t.Helper()
	pid, ok := product.Process("ks-controller-manager")
	if !ok {
		t.Fatal("there is no ks-controller-manager")
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}

func TestWhileTheWebhooksAreAwayNothingIsWritten(t *testing.T) { // S60, X42
	proves(t, "S60")
	a, name := admin(t), unique("away")
	role := encode(t, iamObject("GlobalRole", name, obj{"rules": managesRoles}))
	ns, there := newNamespace(t), unique("there")
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", there, obj{"rules": managesRoles}))
	a.create(t, storeKube+"/repos", obj{"apiVersion": "application.kubesphere.io/v2", "kind": "Repo", "metadata": obj{"name": there},
		"spec": obj{"url": "https://charts.example.com"}})
	writes := []call{
		{method: http.MethodPost, path: "/kapis/iam.kubesphere.io/v1beta1/globalroles", body: role},
		{method: http.MethodPatch, path: iamAPI + "/globalroles/" + there, body: obj{"metadata": obj{"annotations": obj{"a": "b"}}}},
		{method: http.MethodPatch, path: storeKube + "/repos/" + there, body: obj{"spec": obj{"description": "x"}}},
		{method: http.MethodDelete, path: iamAPI + "/globalroles/" + there},
		{method: http.MethodPost, path: platformAPI + "/installplans", body: installPlan(name, "1.0.0", "", nil)},
		{method: http.MethodPost, path: extensionsAPI + "/apiservices", body: extensionObject("APIService", name, obj{"group": name + ".example.com",
			"version": "v1", "url": "http://127.0.0.1:9"})},
		{method: http.MethodPost, path: extensionsAPI + "/reverseproxies", body: extensionObject("ReverseProxy", name, obj{
			"matcher": obj{"path": "/proxy/" + name + "/*"}, "upstream": obj{"url": "http://127.0.0.1:9"}})},
		{method: http.MethodPost, path: extensionsAPI + "/jsbundles", body: extensionObject("JSBundle", name, obj{"raw": []byte("x")})},
		{method: http.MethodPost, path: extensionsAPI + "/extensionentries", body: extensionObject("ExtensionEntry", name, obj{
			"entries": []obj{{"name": name, "link": "/" + name}}})},
		{method: http.MethodPost, path: "/api/v1/namespaces/" + ns + "/serviceaccounts", body: obj{"apiVersion": "v1", "kind": "ServiceAccount",
			"metadata": obj{"name": name, "annotations": obj{"iam.kubesphere.io/role": "admin"}}}},
	}
	for _, k := range hostileTargets("nobody", name) {
		if strings.HasPrefix(k.api, "iam.") || strings.HasPrefix(k.api, "tenant.") {
			s := spot{target: k}
			within := ""
			if k.namespaced {
				s.namespace, within = ns, "/namespaces/"+ns
			}
			writes = append(writes, call{method: http.MethodPost, path: k.path("/apis", within), body: s.body(name)})
		}
	}
	awake := stopWebhooks(t)
	defer awake()
	group := errgroup.Group{} // at once: each waits for the webhooks as long as kube-apiserver does
	for _, c := range writes {
		group.Go(func() error {
			headers := []string{}
			if c.method == http.MethodPatch {
				headers = append(headers, asMerge)
			}
			r, err := a.do(t.Context(), c.method, c.path, c.body, headers...)
			if err != nil || r.code < 400 || !strings.Contains(r.body, "webhook") {
				t.Errorf("%s %s: %d %s %v", c.method, c.path, r.code, clip(r.body), err)
			}
			return nil
		})
	}
	_ = group.Wait()
	for _, c := range writes {
		if path := c.path + "/" + name; c.method == http.MethodPost && !strings.HasPrefix(c.path, "/kapis/") {
			a.must(t, http.StatusNotFound, http.MethodGet, path, nil)
		}
	}
	a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/globalroles/"+there, nil)
	// What is not of rights goes on.
	newNamespaceOf := unique("away")
	a.create(t, "/api/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": newNamespaceOf}})
	a.create(t, "/api/v1/namespaces/"+newNamespaceOf+"/serviceaccounts", obj{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": obj{"name": "robot"}})
	awake()
	eventually(t, "they are back", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodPost, iamAPI+"/globalroles", role)
		if err == nil && r.code != http.StatusCreated {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/globalroles/"+name, nil)
}

func TestAWebhookConfigurationThatIsDeletedComesBack(t *testing.T) { // S60
	proves(t, "S60")
	const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/ks-controller-manager.kapis.dev"
	admin(t).must(t, http.StatusOK, http.MethodDelete, path, nil)
	eventually(t, "it is back", admin(t).is(http.StatusOK, http.MethodGet, path))
	eventually(t, "kube-apiserver asks again", func(ctx context.Context) error { // a moment later, and other tests build on it
		r, err := admin(t).do(ctx, http.MethodDelete, iamAPI+"/users/admin?dryRun=All", nil)
		if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, "own account")) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
}

func TestNoPasswordIsEverStoredInClearText(t *testing.T) { // S57
	a, name, owner := admin(t), unique("hashed"), unique("owner")
	newUser(t, owner)
	eventually(t, "the owner of an address is known to ks-controller-manager", a.has(iamAPI+"/users/"+owner, `"state":"Active"`))
	const clear = "Clear-text-1"
	user := obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": obj{"name": name, "annotations": obj{
		"kubectl.kubernetes.io/last-applied-configuration": `{"kind":"User","spec":{"password":"` + clear + `"}}`,
	}}, "spec": obj{"email": name + "@example.com", "password": clear}}
	shown := a.must(t, http.StatusCreated, http.MethodPost, iamAPI+"/users", user).body
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, iamAPI+"/users/"+name, nil) })
	if kept := stored(t, iamAPI+"/users/"+name); strings.Contains(kept, clear) || !strings.Contains(kept, `\"password\":\"$2a$`) {
		t.Errorf("stored: %s", clip(kept))
	}
	if strings.Contains(shown, `"password`) || strings.Contains(shown, "$2a$") { // S3
		t.Errorf("shown: %s", clip(shown))
	}
	eventually(t, "he logs in with it", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, product.URL, name, clear)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		return err
	})
	for what, c := range map[string]struct{ method, body string }{
		"a weak one":        {http.MethodPatch, `{"spec":{"password":"short"}}`},
		"a taken address":   {http.MethodPatch, `{"spec":{"email":"` + strings.ToUpper(owner) + `@example.com"}}`},
		"no address at all": {http.MethodPatch, `{"spec":{"email":"x@.example.com"}}`},
	} {
		if r, err := a.do(t.Context(), c.method, iamAPI+"/users/"+name, c.body, "Content-Type: application/merge-patch+json"); err != nil || r.code < 400 ||
			r.code > 499 {
			t.Errorf("%s: %d %s %v", what, r.code, clip(r.body), err)
		}
	}
}

func TestNobodyBindsAcrossWorkspaces(t *testing.T) { // S6
	proves(t, "S6")
	a, name, mine, theirs := admin(t), unique("wsboss"), unique("ws-mine"), unique("ws-theirs")
	u := newUser(t, name)
	workspaceRole := func(role, workspace string, rules []rule) {
		a.create(t, iamAPI+"/workspaceroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole",
			"metadata": obj{"name": role, "labels": obj{"kubesphere.io/workspace": workspace}}, "rules": rules})
	}
	binding := func(object, workspace, role string) obj {
		b := globalBinding(object, role, name)
		b["kind"], b["metadata"] = "WorkspaceRoleBinding", obj{"name": object, "labels": obj{"kubesphere.io/workspace": workspace}}
		b["roleRef"] = obj{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": role}
		return b
	}
	for _, w := range []string{mine, theirs} {
		a.create(
			t,
			"/apis/tenant.kubesphere.io/v1beta1/workspaces",
			obj{"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": "Workspace", "metadata": obj{"name": w}},
		)
		workspaceRole(
			w+"-boss",
			w,
			[]rule{{Groups: []string{"iam.kubesphere.io"}, Resources: []string{"workspacerolebindings", "workspaceroles"}, Verbs: []string{"*"}}},
		)
		workspaceRole(w+"-all", w, everyRight)
	}
	a.create(t, iamAPI+"/workspacerolebindings", binding(unique("boss"), mine, mine+"-boss"))
	routes := "/kapis/iam.kubesphere.io/v1beta1/workspaces/"
	eventually(t, "he runs his workspace's roles", u.has(routes+mine+"/workspaceroles", mine+"-boss", mine+"-all"))
	for what, c := range map[string]struct {
		path   string
		object obj
		reason string
	}{
		"more in his workspace": {routes + mine + "/workspacerolebindings", binding(unique("bad"), mine, mine+"-all"), "hold"},
		"the other by his path": {routes + mine + "/workspacerolebindings", binding(unique("bad"), theirs, theirs+"-boss"), "another workspace"},
		"the other's path":      {routes + theirs + "/workspacerolebindings", binding(unique("bad"), theirs, theirs+"-boss"), "cannot create"},
		"the platform's path":   {"/kapis/iam.kubesphere.io/v1beta1/workspacerolebindings", binding(unique("bad"), theirs, theirs+"-boss"), "cannot create"},
		"past the routes":       {iamAPI + "/workspacerolebindings", binding(unique("bad"), theirs, theirs+"-boss"), "cannot create"},
		"the platform's role":   {routes + mine + "/globalrolebindings", globalBinding(unique("bad"), "platform-admin", name), ""},
		"a role with more than his": {routes + mine + "/workspaceroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole",
			"metadata": obj{"name": unique("bad")}, "rules": everyRight}, "hold"},
	} {
		r, err := u.do(t.Context(), http.MethodPost, c.path, encode(t, c.object))
		if err != nil || r.code < 400 || r.code > 499 || !strings.Contains(r.body, c.reason) {
			t.Errorf("%s: %d %s %v", what, r.code, clip(r.body), err)
		}
		kind := strings.ToLower(c.object["kind"].(string)) + "s"
		a.must(t, http.StatusNotFound, http.MethodGet, iamAPI+"/"+kind+"/"+c.object["metadata"].(obj)["name"].(string), nil)
	}
}
