package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/tools/stack"
)

// chartPassword is what the chart sets for its user admin.
const chartPassword = "P@88w0rd"

// definition is a kind as the chart defines it: what its schema does not name is pruned, and few have a sub-resource of the status.
type definition struct {
	group, kind, plural string
	namespaced          bool
	versions            []string
	spec, status, top   string
	statusApart         bool
}

// chartKinds are the kinds of the chart that this program serves, with the fields that it gives them.
var chartKinds = []definition{
	{"iam.kubesphere.io", "BuiltinRole", "builtinroles", false, nil, "", "", "role targetSelector", false},
	{"iam.kubesphere.io", "Category", "categories", false, nil, "description displayName icon", "", "", false},
	{"iam.kubesphere.io", "ClusterRoleBinding", "clusterrolebindings", false, nil, "", "", "roleRef subjects", false},
	{"iam.kubesphere.io", "ClusterRole", "clusterroles", false, nil, "", "", "aggregationRoleTemplates rules", false},
	{"iam.kubesphere.io", "GlobalRoleBinding", "globalrolebindings", false, both, "", "", "roleRef subjects", false},
	{"iam.kubesphere.io", "GlobalRole", "globalroles", false, both, "", "", "aggregationRoleTemplates rules", false},
	{"iam.kubesphere.io", "GroupBinding", "groupbindings", false, both, "", "", "groupRef users", false},
	{"iam.kubesphere.io", "Group", "groups", false, both, "", "", "", false},
	{"iam.kubesphere.io", "LoginRecord", "loginrecords", false, both, "provider reason sourceIP success type userAgent", "", "", false},
	{"iam.kubesphere.io", "RoleBinding", "rolebindings", true, nil, "", "", "roleRef subjects", false},
	{"iam.kubesphere.io", "Role", "roles", true, nil, "", "", "aggregationRoleTemplates rules", false},
	{"iam.kubesphere.io", "RoleTemplate", "roletemplates", false, nil, "description displayName rules", "", "", false},
	{
		"iam.kubesphere.io",
		"User",
		"users",
		false,
		both,
		"description displayName email groups lang password",
		"lastLoginTime lastTransitionTime reason state",
		"",
		false,
	},
	{"iam.kubesphere.io", "WorkspaceRoleBinding", "workspacerolebindings", false, both, "", "", "roleRef subjects", false},
	{"iam.kubesphere.io", "WorkspaceRole", "workspaceroles", false, both, "", "", "aggregationRoleTemplates rules", false},
	{"tenant.kubesphere.io", "Workspace", "workspaces", false, []string{"v1alpha1", "v1beta1"}, "manager", "", "", false},
	{"tenant.kubesphere.io", "WorkspaceTemplate", "workspacetemplates", false, []string{"v1alpha2", "v1beta1"}, "placement template", "", "", false},
	{
		"cluster.kubesphere.io", "Cluster", "clusters", false, []string{"v1alpha1"}, "config connection enable externalKubeAPIEnabled joinFederation provider",
		"conditions configz kubeSphereVersion kubernetesVersion nodeCount region uid zones", "", false,
	},
	{"cluster.kubesphere.io", "Label", "labels", false, []string{"v1alpha1"}, "backgroundColor clusters key value", "", "", false},
	{"kubesphere.io", "ServiceAccount", "serviceaccounts", true, []string{"v1alpha1"}, "", "", "secrets", false},
	{"quota.kubesphere.io", "ResourceQuota", "resourcequotas", false, []string{"v1alpha2"}, "quota selector", "namespaces total", "", true},
}

var both = []string{"v1alpha2", "v1beta1"}

// crd is the definition as an object. The last version is the one that is stored.
func (d definition) crd() map[string]any {
	open := obj{"x-kubernetes-preserve-unknown-fields": true}
	fields := func(names string) obj {
		out := obj{}
		for _, name := range strings.Fields(names) {
			out[name] = open
		}
		return out
	}
	properties := fields(d.top)
	properties["apiVersion"], properties["kind"], properties["metadata"] = obj{"type": "string"}, obj{"type": "string"}, obj{"type": "object"}
	for name, list := range map[string]string{"spec": d.spec, "status": d.status} {
		if list != "" {
			properties[name] = obj{"type": "object", "properties": fields(list)}
		}
	}
	versions, scope := d.versions, "Cluster"
	if versions == nil {
		versions = []string{"v1beta1"}
	}
	if d.namespaced {
		scope = "Namespaced"
	}
	out := looseCRD(d.group, d.kind, d.plural, versions...)
	spec := out["spec"].(map[string]any)
	spec["scope"] = scope
	for _, v := range spec["versions"].([]any) {
		version := v.(map[string]any)
		version["schema"] = obj{"openAPIV3Schema": obj{"type": "object", "properties": properties}}
		if d.statusApart {
			version["subresources"] = obj{"status": obj{}}
		}
	}
	return out
}

// installation is a cluster that an installation of KubeSphere has been in, and is served now.
type installation struct {
	*stack.Stack
	kubeconfig string
}

// kubectl runs it as the cluster's admin.
func (i *installation) kubectl(t *testing.T, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), product.Program("kubectl"), append([]string{"--kubeconfig", i.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// newPlane starts a control plane of the test's own, without anything of ours in it, and returns its folder.
func newPlane(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "dev")
	if out, err := exec.CommandContext(t.Context(), product.Program("dev"), "up", "--dir", dir, "--detach").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), product.Program("dev"), "down", "--dir", dir).CombinedOutput(); err != nil {
			t.Errorf("stop the control plane: %v\n%s", err, out)
		}
	})
	return dir
}

// newInstallation starts a control plane with what the chart, people and its controllers left in it; nothing of ours is there yet.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	i := &installation{kubeconfig: filepath.Join(newPlane(t), "kubeconfig")}
	list := obj{"apiVersion": "v1", "kind": "List"}
	var crds []any
	for _, d := range chartKinds {
		crds = append(crds, d.crd())
	}
	list["items"] = crds
	i.kubectl(t, encode(t, list), "apply", "--server-side", "-f", "-")
	i.kubectl(t, "", "wait", "--for=condition=Established", "crd", "--all", "--timeout=180s")
	i.kubectl(t, "", "create", "namespace", "kubesphere-system")
	i.kubectl(t, "", "apply", "--server-side", "-f", "testdata/chart", "-f", "testdata/chart/native")
	own := func(child, parent string) {
		kind, name, _ := strings.Cut(parent, "/")
		uid := i.kubectl(t, "", "get", kind, name, "-o", "jsonpath={.metadata.uid}")
		i.kubectl(t, "", "patch", child, "--type=merge", "-p", encode(t, obj{"metadata": obj{"ownerReferences": []any{obj{
			"apiVersion": "tenant.kubesphere.io/v1beta1", "kind": map[string]string{"workspaces": "Workspace", "workspacetemplates": "WorkspaceTemplate"}[kind],
			"name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true,
		}}}}))
	}
	own("namespace/legacy-project", "workspaces/legacy")
	own("workspaces/legacy", "workspacetemplates/legacy")
	return i
}

// start runs both programs on it.
func (i *installation) start(t *testing.T) {
	t.Helper()
	o := options
	o.Dir = filepath.Dir(i.kubeconfig)
	// The issuer of its configuration is http, as docs/existing.md says how to accept.
	o.Env = []string{"ADMIN_PASSWORD=" + chartPassword, "KUBESPHERE_AUTHENTICATION_ISSUER_ALLOWINSECUREURL=true"}
	s, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	i.Stack = s
}

// snapshot is what the objects say that were there before us, by kind and name, and the rules of roles apart, since templates add to them. What
// controllers keep is left out: status, finalizers, notes of ours, which templates a role found, the token of a service account, what a
// workspace takes over from its template.
func (i *installation) snapshot(t *testing.T) (objects map[string]string, rules map[string][]string) {
	t.Helper()
	objects, rules = map[string]string{}, map[string][]string{}
	raw := i.kubectl(t, "", "get", "-o", "json", "-f", "testdata/chart")
	crds := i.kubectl(t, "", "get", "-o", "json", "crd")
	for _, o := range append(decode[struct{ Items []map[string]any }](t, raw).Items, decode[struct{ Items []map[string]any }](t, crds).Items...) {
		metadata := o["metadata"].(map[string]any)
		name := fmt.Sprint(o["kind"], " ", metadata["name"])
		for _, own := range []string{"resourceVersion", "managedFields", "generation", "finalizers", "ownerReferences"} {
			delete(metadata, own)
		}
		delete(o, "status")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			maps.DeleteFunc(annotations, func(key string, _ any) bool {
				return strings.Contains(key, "kapis.dev/") || o["kind"] == "Workspace" && key == "kubesphere.io/alias-name"
			})
			if len(annotations) == 0 {
				delete(metadata, "annotations")
			}
		}
		switch o["kind"] {
		case "Role", "WorkspaceRole", "GlobalRole", "ClusterRole":
			list, _ := o["rules"].([]any)
			for _, r := range list {
				rules[name] = append(rules[name], encode(t, r))
			}
			delete(o, "rules")
			if from, ok := o["aggregationRoleTemplates"].(map[string]any); ok && from["roleSelector"] != nil {
				delete(from, "templateNames")
			}
		case "ServiceAccount":
			delete(o, "secrets")
		}
		objects[name] = encode(t, o)
	}
	return objects, rules
}

// versions is when which of the kinds' objects was written last.
func (i *installation) versions(ctx context.Context, admin caller) (map[string]string, error) {
	out := map[string]string{}
	for _, d := range chartKinds {
		if d.kind == "Cluster" {
			continue // tells the time of what it saw
		}
		version := "v1beta1"
		if d.versions != nil {
			version = d.versions[len(d.versions)-1]
		}
		r, err := admin.do(ctx, http.MethodGet, "/apis/"+d.group+"/"+version+"/"+d.plural, nil)
		if err != nil {
			return nil, err
		}
		var l struct {
			Items []struct {
				Metadata struct{ Name, Namespace, ResourceVersion string }
			}
		}
		if err := json.Unmarshal([]byte(r.body), &l); err != nil {
			return nil, fmt.Errorf("%s: %d %s", d.plural, r.code, clip(r.body))
		}
		for _, o := range l.Items {
			out[d.plural+" "+o.Metadata.Namespace+"/"+o.Metadata.Name] = o.Metadata.ResourceVersion
		}
	}
	return out, nil
}

// The definitions, roles, templates, people and settings of an installation are served as they are, and people go on where they were.
func TestAnInstallationOfTheChartIsServedUnchanged(t *testing.T) {
	t.Parallel() // it has a control plane of its own
	i := newInstallation(t)
	before, granted := i.snapshot(t)
	i.start(t)
	first := loginAt(t, i.URL, "admin", chartPassword)

	t.Run("its configuration is read", func(t *testing.T) {
		folder := t.TempDir() // as the Deployment mounts it
		text := i.kubectl(t, "", "-n", "kubesphere-system", "get", "configmap", "kubesphere-config", "-o", `jsonpath={.data.kubesphere\.yaml}`)
		err := os.Mkdir(filepath.Join(folder, "configmap"), 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, "configmap", "kubesphere.yaml"), []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		var log printed
		r, err := i.LoggedReplica(t.Context(), &log, "--config", folder)
		if err != nil {
			t.Fatal(err)
		}
		if said := log.String(); !strings.Contains(said, `keys="authentication.issuer.jwtSecret, s3.secretAccessKey"`) || strings.Contains(said, "pT4kZs1w") {
			t.Errorf("what of it is a secret is not said, or the secret is: %s", said)
		}
		loginAt(t, r.URL, "admin", chartPassword).must(t, http.StatusOK, http.MethodGet, iamRoute+"/users/admin", nil)
		if err := r.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("its people are known, and have what they had", func(t *testing.T) {
		bob := loginAt(t, i.URL, "bob", chartPassword)
		if l := bob.list(t, tenants+"/workspaces"); !slices.Equal(l.names(), []string{"legacy"}) {
			t.Errorf("workspaces %v", l.names())
		}
		if l := bob.list(t, tenants+"/namespaces"); !slices.Equal(l.names(), []string{"legacy-project"}) {
			t.Errorf("namespaces %v", l.names())
		}
		bob.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces/legacy-project/configmaps", nil)
		eventually(t, "also at kube-apiserver", bob.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces/legacy-project/configmaps"))
		bob.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/kubesphere-system/configmaps", nil)
		bob.must(
			t,
			http.StatusForbidden,
			http.MethodPatch,
			"/apis/tenant.kubesphere.io/v1beta1/workspacetemplates/legacy",
			`{"spec":{"template":{"spec":{"manager":"bob"}}}}`,
			asMerge,
		)
	})
	t.Run("the Rego of a role counts", func(t *testing.T) {
		bob := loginAt(t, i.URL, "bob", chartPassword)
		// A busy machine may not give it the 100 ms that a policy has each time.
		eventually(t, "it allows what it names", bob.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/default/configmaps"))
		bob.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/kube-system/configmaps", nil)
		bob.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/default/secrets", nil)
	})
	t.Run("what was mirrored is what the roles say", func(t *testing.T) { // S9
		native := "/apis/rbac.authorization.k8s.io/v1"
		for _, path := range []string{
			native + "/namespaces/legacy-project/rolebindings/kubesphere:iam:mallory-viewer",
			native + "/clusterrolebindings/kubesphere:iam:mallory-cluster-viewer", native + "/clusterroles/kubesphere:iam:deleted-long-ago",
		} {
			eventually(t, path+" is gone", first.is(http.StatusNotFound, http.MethodGet, path))
		}
		mirrored, binding := native+"/namespaces/legacy-project/roles/kubesphere:iam:viewer", iamAPI+"/namespaces/legacy-project/rolebindings"
		eventually(t, "the role of which nobody has any use is gone", first.is(http.StatusNotFound, http.MethodGet, mirrored))
		first.create(t, binding, obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "RoleBinding", "metadata": obj{"name": "bob-viewer"},
			"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "Role", "name": "viewer"},
			"subjects": []any{obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}}})
		eventually(t, "the role is mirrored again", first.has(mirrored, `"kapis.dev/mirror-of":"Role/legacy-project/viewer"`, "pods/containers"))
		eventually(t, "and no more than the role", lacks(first, mirrored, `"resources":["*"]`))
		eventually(t, "for whom ks-apiserver names", first.has(native+"/namespaces/legacy-project/rolebindings/kubesphere:iam:viewer", "kapis:namespace:viewer"))
		first.must(t, http.StatusOK, http.MethodDelete, binding+"/bob-viewer", nil)
	})
	t.Run("roles follow their templates", func(t *testing.T) {
		for path, texts := range map[string][]string{
			iamAPI + "/workspaceroles/legacy-viewer":             {"persistentvolumeclaims", "workspacemembers", `"workspaces"`},
			iamAPI + "/workspaceroles/legacy-admin":              {`"verbs":["*"]`},
			iamAPI + "/workspaceroles/system-workspace-admin":    {`"verbs":["*"]`},
			iamAPI + "/namespaces/legacy-project/roles/viewer":   {"pods/containers", "namespacemembers"},
			iamAPI + "/namespaces/legacy-project/roles/operator": {"pods/exec"},
			iamAPI + "/namespaces/legacy-project/roles/admin":    {`"resources":["*"]`},
		} {
			eventually(t, path, first.has(path, texts...))
		}
		first.create(t, iamAPI+"/roletemplates", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "RoleTemplate",
			"metadata": obj{"name": "workspace-view-gizmos", "labels": obj{"iam.kubesphere.io/scope": "workspace", "iam.kubesphere.io/aggregate-to-viewer": ""}},
			"spec":     obj{"rules": []any{rule{[]string{"x.example.com"}, []string{"gizmos"}, []string{"list"}}}}})
		eventually(t, "a new template counts", first.has(iamAPI+"/workspaceroles/legacy-viewer", "gizmos"))
	})
	t.Run("nothing of it is changed", func(t *testing.T) {
		after, grants := i.snapshot(t)
		for name, was := range before {
			if after[name] != was {
				t.Errorf("%s was\n%s, and is\n%s", name, was, after[name])
			}
			for _, r := range granted[name] {
				if !slices.Contains(grants[name], r) {
					t.Errorf("%s has lost the rule %s", name, r)
				}
			}
		}
	})
	a := i.adminSetsHisPassword(t, first)
	i.consoleGoesOn(t, a)
	t.Run("and then all is quiet", func(t *testing.T) {
		eventually(t, "no object is written again and again", func(ctx context.Context) error {
			one, err := i.versions(ctx, a)
			if err != nil {
				return err
			}
			select { // how long is looked at, not how long is waited for something
			case <-time.After(3 * time.Second):
			case <-ctx.Done():
			}
			two, err := i.versions(ctx, a)
			if err != nil {
				return err
			}
			var moved []string
			for name := range two {
				if one[name] != two[name] {
					moved = append(moved, name)
				}
			}
			if len(moved) > 0 {
				slices.Sort(moved)
				return errors.New(strings.Join(moved, ", "))
			}
			return nil
		})
	})
	t.Run("and it goes back", i.goesBack)
}

// adminSetsHisPassword goes on as the console does, whose first page after the chart's admin has logged in is that of a new password.
func (i *installation) adminSetsHisPassword(t *testing.T, first caller) caller {
	t.Helper()
	_, payload := claims(t, first.token)
	if extra, _ := payload["extra"].(map[string]any); fmt.Sprint(extra["uninitialized"]) != "[true]" {
		t.Errorf("the token does not say that the password has to be changed: %v", payload)
	}
	const next = "Nextpass-1"
	first.must(t, http.StatusOK, http.MethodPatch, iamAPI+"/users/admin",
		`[{"op":"remove","path":"/metadata/annotations/iam.kubesphere.io~1uninitialized"},{"op":"replace","path":"/spec/password","value":"`+next+`"}]`,
		"Content-Type: application/json-patch+json")
	var a caller
	eventually(t, "the new password opens", func(ctx context.Context) error {
		r, err := passwordGrant(ctx, i.URL, "admin", next)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, r.body)
		}
		if err == nil {
			a = caller{i.URL, decode[tokenReply](t, r.body).Access}
		}
		return err
	})
	if r, err := passwordGrant(t.Context(), i.URL, "admin", chartPassword); err != nil || r.code == http.StatusOK {
		t.Errorf("the old password: %d %v", r.code, err)
	}
	return a
}

// consoleGoesOn makes a user, a workspace, a namespace and a member with the bodies of the console.
func (i *installation) consoleGoesOn(t *testing.T, a caller) {
	t.Helper()
	a.must(t, http.StatusOK, http.MethodPost, iamRoute+"/users", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1",
		"kind":       "User",
		"metadata": obj{
			"name":        "carol",
			"annotations": obj{"iam.kubesphere.io/uninitialized": "true", "kubesphere.io/creator": "admin", "iam.kubesphere.io/globalrole": "platform-regular"},
		},
		"spec": obj{"email": "carol@example.com", "password": password},
	})
	a.must(t, http.StatusOK, http.MethodPost, tenants+"/workspacetemplates", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate",
		"metadata": obj{"name": "fresh", "annotations": obj{"kubesphere.io/alias-name": "Fresh", "kubesphere.io/creator": "admin"}},
		"spec":     obj{"template": obj{"spec": obj{"manager": "admin"}}, "placement": obj{"clusters": []any{obj{"name": "host"}}}}})
	eventually(
		t,
		"the workspace has its roles",
		a.has(iamRoute+"/workspaces/fresh/workspaceroles", "fresh-admin", "fresh-viewer", "fresh-regular", "fresh-self-provisioner"),
	)
	eventually(t, "and the workspace is there", a.is(http.StatusOK, http.MethodGet, tenants+"/workspaces/fresh"))
	a.must(
		t,
		http.StatusOK,
		http.MethodPost,
		"/clusters/host"+tenants+"/workspaces/fresh/namespaces",
		obj{
			"cluster":    "host",
			"apiVersion": "v1",
			"kind":       "Namespace",
			"metadata": obj{
				"name":        "fresh-project",
				"labels":      obj{workspaceLabel: "fresh", "kubesphere.io/managed": "true"},
				"annotations": obj{"kubesphere.io/creator": "admin"},
			},
		},
	)
	eventually(t, "the project has its roles", a.has(iamRoute+"/namespaces/fresh-project/roles", `"admin"`, `"operator"`, `"viewer"`))
	a.must(t, http.StatusOK, http.MethodPost, iamRoute+"/workspaces/fresh/workspacemembers", []any{obj{"username": "carol", "roleRef": "fresh-regular"}})
	a.must(
		t,
		http.StatusOK,
		http.MethodPost,
		"/clusters/host"+iamRoute+"/namespaces/fresh-project/namespacemembers",
		[]any{obj{"username": "carol", "roleRef": "operator"}},
	)
	carol := loginAt(t, i.URL, "carol", password)
	eventually(t, "the member works", carol.is(http.StatusOK, http.MethodGet, kapis+"/namespaces/fresh-project/deployments"))
	eventually(t, "and writes", func(ctx context.Context) error {
		r, err := carol.do(
			ctx,
			http.MethodPost,
			"/api/v1/namespaces/fresh-project/configmaps",
			obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "hers"}},
		)
		if err == nil && r.code != http.StatusCreated && r.code != http.StatusConflict {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	carol.must(t, http.StatusForbidden, http.MethodGet, kapis+"/namespaces/legacy-project/configmaps", nil)
	i.whatEverybodyMay(t, a, carol)
	if l := carol.list(t, tenants+"/workspaces"); !slices.Equal(l.names(), []string{"fresh"}) {
		t.Errorf("her workspaces: %v", l.names())
	}
}

// whatEverybodyMay looks at two rights that the chart's role for everybody who is logged in has: to list users, and to patch workspace templates. carol
// is an ordinary member of the workspace fresh.
func (i *installation) whatEverybodyMay(t *testing.T, a, carol caller) {
	t.Helper()
	// S3: at kube-apiserver itself the list would show everybody's password hash.
	native := i.kubectl(t, encode(t, obj{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": obj{
		"user": "carol", "groups": []string{"system:authenticated"}, "resourceAttributes": obj{"group": "iam.kubesphere.io", "resource": "users", "verb": "list"},
	}}), "create", "-f", "-", "-o", "jsonpath={.status.allowed}")
	if native != "false" {
		t.Errorf("kube-apiserver lets everybody list users: %q", native)
	}
	var users string
	eventually(t, "she lists users here", func(ctx context.Context) error {
		r, err := carol.do(ctx, http.MethodGet, iamAPI+"/users", nil)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		users = r.body
		return err
	})
	shows(t, "the list of users", users)
	// S10: whoever may patch any template, and no more, writes none.
	for _, path := range []string{tenants, "/apis/tenant.kubesphere.io/v1beta1"} {
		for _, name := range []string{"legacy", "fresh"} {
			carol.must(
				t,
				http.StatusForbidden,
				http.MethodPatch,
				path+"/workspacetemplates/"+name,
				`{"metadata":{"annotations":{"kubesphere.io/alias-name":"Hers"}}}`,
				asMerge,
			)
		}
	}
	a.must(t, http.StatusOK, http.MethodPut, iamRoute+"/workspaces/fresh/workspacemembers/carol", obj{"username": "carol", "roleRef": "fresh-admin"})
	eventually(t, "who runs the workspace does", func(ctx context.Context) error {
		r, err := carol.do(ctx, http.MethodPatch, tenants+"/workspacetemplates/fresh", `{"metadata":{"annotations":{"kubesphere.io/alias-name":"Hers"}}}`, asMerge)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
}
