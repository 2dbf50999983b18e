package v1beta1_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	iam "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
	tenant "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

// defaults are the objects of config/roles, decoded strictly and found valid.
type defaults struct {
	globalRoles    map[string]*iam.GlobalRole
	globalBindings map[string]*iam.GlobalRoleBinding
	clusterRoles   map[string]*iam.ClusterRole
	builtinRoles   map[string]*iam.BuiltinRole
	templates      map[string]*iam.RoleTemplate
	categories     map[string]*iam.Category
	crds           map[string]*crdtest.CRD
}

func load(t *testing.T) *defaults {
	t.Helper()
	d := &defaults{map[string]*iam.GlobalRole{}, map[string]*iam.GlobalRoleBinding{}, map[string]*iam.ClusterRole{},
		map[string]*iam.BuiltinRole{}, map[string]*iam.RoleTemplate{}, map[string]*iam.Category{}, map[string]*crdtest.CRD{}}
	files, err := filepath.Glob(filepath.Join(crdtest.ConfigDir(t), "roles", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in config/roles: %v", err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range strings.Split(string(raw), "\n---\n") {
			if strings.Contains(doc, "\nkind: ") {
				d.decode(t, filepath.Base(file), doc)
			}
		}
	}
	return d
}

func (d *defaults) decode(t *testing.T, file, doc string) {
	t.Helper()
	obj := crdtest.Object(t, doc)
	kind, _ := obj["kind"].(string)
	plural := strings.ToLower(kind) + "s"
	if kind == "Category" {
		plural = "categories"
	}
	if d.crds[plural] == nil {
		d.crds[plural] = crdtest.Load(t, plural, iam.GroupName)
	}
	if err := d.crds[plural].Create(t, obj); err != nil {
		t.Errorf("%s: kube-apiserver would refuse: %v\n%s", file, err, doc)
	}
	switch kind {
	case "GlobalRole":
		strict(t, file, doc, d.globalRoles)
	case "GlobalRoleBinding":
		strict(t, file, doc, d.globalBindings)
	case "ClusterRole":
		strict(t, file, doc, d.clusterRoles)
	case "BuiltinRole":
		strict(t, file, doc, d.builtinRoles)
	case "RoleTemplate":
		strict(t, file, doc, d.templates)
	case "Category":
		strict(t, file, doc, d.categories)
	default:
		t.Errorf("%s: unexpected kind %q", file, kind)
	}
}

func strict[T any, P interface {
	*T
	GetName() string
}](t *testing.T, file, doc string, into map[string]P) {
	t.Helper()
	obj := P(new(T))
	if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	if into[obj.GetName()] != nil {
		t.Errorf("%s: %s is there twice", file, obj.GetName())
	}
	into[obj.GetName()] = obj
}

func names[V any](m map[string]V) []string {
	out := []string{}
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Every name that installations and the console know, and none that has no reason to be there.
func TestEveryDefaultObjectIsThere(t *testing.T) {
	d := load(t)
	for kind, tc := range map[string]struct {
		got  []string
		want string
	}{
		"GlobalRole": {names(d.globalRoles),
			"anonymous authenticated authenticated-labels authenticated-reviews authenticated-self ks-console platform-admin platform-regular platform-self-provisioner pre-registration"},
		"GlobalRoleBinding": {names(d.globalBindings), "anonymous authenticated authenticated-labels authenticated-reviews authenticated-self ks-console platform-admin pre-registration"},
		"ClusterRole":       {names(d.clusterRoles), "cluster-admin cluster-viewer"},
		"BuiltinRole": {names(d.builtinRoles),
			"project-admin project-operator project-viewer workspace-admin workspace-regular workspace-self-provisioner workspace-viewer"},
		"Category": {names(d.categories), `cluster-access-control cluster-app-workloads-management cluster-project-management cluster-resource-management
			cluster-settings cluster-storage-management global-access-control global-cluster-management global-platform-settings
			global-workspace-management manage-app namespace-access-control namespace-app namespace-application-workloads
			namespace-configuration-management namespace-settings namespace-storage-management workspace-access-control workspace-app
			workspace-project-management workspace-settings`},
		"RoleTemplate": {names(d.templates), `cluster-manage-app-workloads cluster-manage-cluster-settings cluster-manage-crds cluster-manage-members
			cluster-manage-nodes cluster-manage-persistentvolumeclaims cluster-manage-projects cluster-manage-roles cluster-manage-storageclasses
			cluster-view-app-workloads cluster-view-cluster-settings cluster-view-components cluster-view-crds cluster-view-members cluster-view-nodes
			cluster-view-persistentvolumeclaims cluster-view-projects cluster-view-roles cluster-view-storageclasses
			global-create-workspaces global-manage-clusters global-manage-platform-settings global-manage-roles global-manage-users
			global-manage-workspaces global-role-template-manage-app global-view-clusters global-view-roles global-view-users global-view-workspaces
			namespace-create-app-releases namespace-delete-app-releases namespace-manage-app-releases namespace-manage-app-workloads
			namespace-manage-configmaps namespace-manage-members namespace-manage-persistentvolumeclaims namespace-manage-project-settings
			namespace-manage-roles namespace-manage-secrets namespace-manage-serviceaccount namespace-view-app-releases namespace-view-app-workloads
			namespace-view-configmaps namespace-view-members namespace-view-persistentvolumeclaims namespace-view-project-settings
			namespace-view-roles namespace-view-secrets namespace-view-serviceaccount
			workspace-create-projects workspace-delete-app-templates workspace-manage-app-repos workspace-manage-app-templates
			workspace-manage-members workspace-manage-projects workspace-manage-roles workspace-manage-workspace-settings workspace-view-app-repos
			workspace-view-app-templates workspace-view-create-app-templates workspace-view-members workspace-view-projects workspace-view-roles
			workspace-view-workspace-settings`},
	} {
		if want := strings.Fields(tc.want); !slices.Equal(tc.got, want) {
			t.Errorf("%s:\n got %v\nwant %v", kind, tc.got, want)
		}
	}
}

// grants tells whether rules let verb be done to a resource of a group, anywhere.
func grants(rules []rbacv1.PolicyRule, verb, group, resource string) bool {
	has := func(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return has(r.Verbs, verb) && has(r.APIGroups, group) && has(r.Resources, resource)
	})
}

// S1: who merely is logged in, or is not, sees nothing that belongs to somebody.
func TestNoBodysRightsAreNarrow(t *testing.T) {
	d := load(t)
	for _, role := range []string{"anonymous", "authenticated", "platform-regular", "platform-self-provisioner"} {
		rules := d.globalRoles[role].Rules
		for _, forbidden := range []string{"/nodes", "/namespaces", "/services", "/pods", "/secrets", "/configmaps", "/events",
			"resources.kubesphere.io/clusters", "tenant.kubesphere.io/clusters", "cluster.kubesphere.io/clusters", "cluster.kubesphere.io/labels",
			"iam.kubesphere.io/users", "iam.kubesphere.io/globalroles", "iam.kubesphere.io/globalrolebindings", "iam.kubesphere.io/loginrecords",
			"tenant.kubesphere.io/workspaces", "tenant.kubesphere.io/workspacetemplates", "session.kapis.dev/sessions",
			"resources.kubesphere.io/nodes", "resources.kubesphere.io/namespaces", "resources.kubesphere.io/components",
			"rbac.authorization.k8s.io/clusterroles"} {
			group, resource, _ := strings.Cut(forbidden, "/")
			for _, verb := range []string{"get", "list", "watch", "update", "patch", "delete", "deletecollection"} {
				if grants(rules, verb, group, resource) {
					t.Errorf("%s may %s %s", role, verb, forbidden)
				}
			}
		}
	}
}

// What pages need of everybody.
func TestEverybodyCanReadWhatPagesNeed(t *testing.T) {
	d := load(t)
	for _, tc := range []struct{ role, verb, group, resource string }{
		{"anonymous", "get", "config.kubesphere.io", "configs"},
		{"authenticated", "get", "config.kubesphere.io", "configs"},
		{"authenticated", "get", "config.kubesphere.io", "platformconfigs"},
		{"authenticated", "list", "kubesphere.io", "extensions"},
		{"authenticated", "list", "extensions.kubesphere.io", "jsbundles"},
		{"authenticated", "list", "extensions.kubesphere.io", "extensionentries"},
		{"authenticated", "list", "application.kubesphere.io", "apps"},
		{"authenticated", "get", "application.kubesphere.io", "apps/versions"},
		{"authenticated", "list", "application.kubesphere.io", "categories"},
		{"authenticated", "list", "resources.kubesphere.io", "customresourcedefinitions"},
		{"authenticated-self", "get", "iam.kubesphere.io", "users"},
		{"authenticated-self", "patch", "iam.kubesphere.io", "users"},
		{"authenticated-self", "get", "iam.kubesphere.io", "users/roletemplates"},
		{"platform-admin", "delete", "any.example.com", "anything"},
	} {
		if !grants(d.globalRoles[tc.role].Rules, tc.verb, tc.group, tc.resource) {
			t.Errorf("%s may not %s %s/%s", tc.role, tc.verb, tc.group, tc.resource)
		}
	}
}

// The bodies of rules: reading never runs, connects or reads credentials, and a "*" is where it is meant.
func TestRulesAreExplicit(t *testing.T) {
	d := load(t)
	all := map[string][]rbacv1.PolicyRule{}
	for name, r := range d.globalRoles {
		all["GlobalRole "+name] = r.Rules
	}
	for name, r := range d.clusterRoles {
		all["ClusterRole "+name] = r.Rules
	}
	for name, r := range d.templates {
		all["RoleTemplate "+name] = r.Spec.Rules
	}
	for name, rules := range all {
		if name == "GlobalRole platform-admin" || name == "ClusterRole cluster-admin" {
			continue
		}
		for i, rule := range rules {
			at := fmt.Sprintf("%s rule %d", name, i)
			if slices.Contains(rule.APIGroups, "*") || slices.Contains(rule.Verbs, "*") || slices.Contains(rule.NonResourceURLs, "*") {
				t.Errorf("%s has a * group, verb or URL", at)
			}
			if slices.Contains(rule.Resources, "*") && !slices.Equal(rule.APIGroups, []string{"application.kubesphere.io"}) {
				t.Errorf("%s has every resource of %v", at, rule.APIGroups)
			}
			if slices.Contains(rule.Verbs, "impersonate") {
				t.Errorf("%s impersonates", at)
			}
			for _, verb := range append(slices.Clone(rule.Verbs), rule.Resources...) {
				if verb != strings.ToLower(verb) {
					t.Errorf("%s: %q never matches", at, verb)
				}
			}
		}
		if reads := strings.Contains(name, "-view-") && !strings.HasSuffix(name, "view-secrets") || strings.HasSuffix(name, "cluster-viewer"); reads {
			for _, no := range []string{"secrets", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy",
				"serviceaccounts/token"} {
				if grants(rules, "get", "", no) || grants(rules, "create", "", no) {
					t.Errorf("%s opens %s", name, no)
				}
			}
		}
	}
}

// S6, S7: a template that lets one role be edited does not let it be widened.
func TestOnlyAdminsMayEscalate(t *testing.T) {
	d := load(t)
	for name, tpl := range d.templates {
		for _, rule := range tpl.Spec.Rules {
			if slices.Contains(rule.Verbs, "escalate") {
				t.Errorf("%s may escalate on %v", name, rule.Resources)
			}
			switch bind := slices.Contains(rule.Verbs, "bind"); {
			case bind && name == "global-manage-users" && slices.Equal(rule.Resources, []string{"globalroles"}) &&
				slices.Equal(rule.ResourceNames, []string{"platform-regular"}):
			// Who manages all workspaces invites people into any. Of the system's workspace and namespaces, where he would come to the platform's keys, the
			// verb is no right: there one gives what one holds (package admission).
			case bind && name == "global-manage-workspaces" && slices.Equal(rule.Resources, []string{"roles", "workspaceroles"}):
			case bind:
				t.Errorf("%s may bind %v %v", name, rule.Resources, rule.ResourceNames)
			}
		}
	}
}

// builtin returns what a built-in role grants, of the templates that it names.
func (d *defaults) builtin(t *testing.T, pattern string) (out []rbacv1.PolicyRule) {
	t.Helper()
	var r iam.Role
	if err := json.Unmarshal(d.builtinRoles[pattern].Role.Raw, &r); err != nil {
		t.Fatal(err)
	}
	for _, name := range r.AggregationRoleTemplates.TemplateNames {
		out = append(out, d.templates[name].Spec.Rules...)
	}
	return out
}

// What pages of a workspace and of a project ask for before they show anything.
func TestMembersSeeTheirPages(t *testing.T) {
	d := load(t)
	pages := map[string][]string{
		"workspace": {"get tenant.kubesphere.io/workspaces", "get tenant.kubesphere.io/workspacetemplates", "list tenant.kubesphere.io/clusters",
			"list tenant.kubesphere.io/metrics", "get tenant.kubesphere.io/resourcequotas", "get resources.kubesphere.io/workspaces",
			"list iam.kubesphere.io/workspacemembers", "list iam.kubesphere.io/workspaceroles", "list iam.kubesphere.io/workspacerolebindings",
			"list tenant.kubesphere.io/workspacemembers/namespaces"},
		"project": {"get tenant.kubesphere.io/namespaces", "get /namespaces", "list /limitranges", "list resources.kubesphere.io/quotas",
			"list resources.kubesphere.io/metrics", "list resources.kubesphere.io/abnormalworkloads", "list iam.kubesphere.io/namespacemembers",
			"list iam.kubesphere.io/roles", "list apps/deployments", "watch /pods", "list /events", "get /pods/log", "list /persistentvolumeclaims",
			"list networking.k8s.io/ingresses", "list apps/controllerrevisions", "get autoscaling/horizontalpodautoscalers"},
	}
	for pattern := range d.builtinRoles {
		place, _, _ := strings.Cut(pattern, "-")
		rules := d.builtin(t, pattern)
		for _, ask := range pages[place] {
			verb, what, _ := strings.Cut(ask, " ")
			group, resource, _ := strings.Cut(what, "/")
			if !grants(rules, verb, group, resource) {
				t.Errorf("%s may not %s", pattern, ask)
			}
		}
	}
}

// Nobody gives away more than he holds, so that an admin must hold what the roles that he gives to others grant: in his own place, and
// a workspace's in the projects of the workspace.
func TestAdminsHoldWhatTheyGive(t *testing.T) {
	d := load(t)
	for _, tc := range []struct{ admin, role string }{
		{"project-admin", "project-operator"}, {"project-admin", "project-viewer"}, {"workspace-admin", "project-admin"},
		{"workspace-admin", "workspace-regular"}, {"workspace-admin", "workspace-self-provisioner"}, {"workspace-admin", "workspace-viewer"},
	} {
		held := d.builtin(t, tc.admin)
		for _, rule := range d.builtin(t, tc.role) {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						if !grants(held, verb, group, resource) {
							t.Errorf("%s can't give %s: he may not %s %s/%s", tc.admin, tc.role, verb, group, resource)
						}
					}
				}
			}
		}
	}
}

// Conditions compile with the variables that the authorizer gives them, and say what they are for.
func TestConditions(t *testing.T) {
	d := load(t)
	env, err := cel.NewEnv(
		cel.Variable("user", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("request", cel.MapType(cel.StringType, cel.DynType)),
	)
	if err != nil {
		t.Fatal(err)
	}
	request := func(path, resource, name string) map[string]any {
		return map[string]any{"verb": "get", "cluster": "", "workspace": "", "namespace": "", "apiGroup": "iam.kubesphere.io", "apiVersion": "v1beta1",
			"resource": resource, "subresource": "", "name": name, "path": path, "isResource": true}
	}
	for _, tc := range []struct {
		claim, role, user string
		request           map[string]any
		want              bool
	}{
		{"OwnUser", "authenticated-self", "bob", request("/apis/iam.kubesphere.io/v1beta1/users/bob", "users", "bob"), true},
		{"AnotherUser", "authenticated-self", "bob", request("/apis/iam.kubesphere.io/v1beta1/users/eve", "users", "eve"), false},
		{"AllUsers", "authenticated-self", "bob", request("/apis/iam.kubesphere.io/v1beta1/users", "users", ""), false},
		{"NobodyIsNotAllUsers", "authenticated-self", "", request("/apis/iam.kubesphere.io/v1beta1/users", "users", ""), false},
		{"LabelsByKey", "authenticated-labels", "bob", request("/kapis/cluster.kubesphere.io/v1alpha1/labels", "labels", ""), true},
		{"LabelsAsObjects", "authenticated-labels", "bob", request("/apis/cluster.kubesphere.io/v1alpha1/labels", "labels", ""), false},
		{"AReviewIsAboutWhomItNames", "authenticated-reviews", "bob", request("/kapis/iam.kubesphere.io/v1beta1/subjectaccessreviews", "subjectaccessreviews", ""),
			true},
		{"AReviewAboutOneself", "authenticated-reviews", "bob", request("/kapis/iam.kubesphere.io/v1beta1/subjectaccessreviews/bob", "subjectaccessreviews", "bob"),
			true},
		{"AReviewAboutAnother", "authenticated-reviews", "bob", request("/kapis/iam.kubesphere.io/v1beta1/subjectaccessreviews/eve", "subjectaccessreviews", "eve"),
			false},
		{"OwnUserIsMadeByTheRoute", "pre-registration", "system:pre-registration", request("/kapis/iam.kubesphere.io/v1beta1/users", "users", ""), true},
		{"OwnUserIsNotMadeAtKubeAPIServer", "pre-registration", "system:pre-registration", request("/apis/iam.kubesphere.io/v1beta1/users", "users", ""), false},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			ast, iss := env.Compile(d.globalRoles[tc.role].Annotations[iam.AnnotationCELCondition])
			if iss.Err() != nil {
				t.Fatal(iss.Err())
			}
			program, err := env.Program(ast)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := program.Eval(map[string]any{"request": tc.request,
				"user": map[string]any{"name": tc.user, "uid": "", "groups": []string{}, "extra": map[string][]string{}}})
			if err != nil || got.Value() != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// Names point at what is there, and annotations are what pages parse.
func TestReferencesHold(t *testing.T) {
	d := load(t)
	scopes := []string{iam.ScopeGlobal, iam.ScopeCluster, iam.ScopeWorkspace, iam.ScopeNamespace}
	for name, tpl := range d.templates {
		scope := tpl.Labels[iam.LabelScope]
		category := d.categories[tpl.Labels[iam.LabelCategory]]
		if category == nil || category.Labels[iam.LabelScope] != scope || !slices.Contains(scopes, scope) {
			t.Errorf("%s: category %q is not of scope %q", name, tpl.Labels[iam.LabelCategory], scope)
		}
		if tpl.Labels[tenant.LabelManaged] != "true" {
			t.Errorf("%s: pages select managed templates", name)
		}
		if tpl.Spec.DisplayName["en"] == "" || tpl.Spec.DisplayName["zh"] == "" || tpl.Spec.Description["en"] == "" || tpl.Spec.Description["zh"] == "" {
			t.Errorf("%s: a name or description is missing", name)
		}
		modules := map[string]string{}
		if err := json.Unmarshal([]byte(tpl.Annotations[iam.AnnotationRoleTemplateRules]), &modules); err != nil || len(modules) == 0 {
			t.Errorf("%s: modules %v, %v", name, modules, err)
		}
		for module, action := range modules {
			if !slices.Contains([]string{"view", "create", "edit", "delete", "manage"}, action) {
				t.Errorf("%s: %s: unknown action %s", name, module, action)
			}
		}
		var dependencies []string
		if raw, ok := tpl.Annotations[iam.AnnotationDependencies]; ok {
			if err := json.Unmarshal([]byte(raw), &dependencies); err != nil {
				t.Errorf("%s: dependencies: %v", name, err)
			}
		}
		for _, dep := range dependencies {
			if d.templates[dep] == nil || d.templates[dep].Labels[iam.LabelScope] != scope {
				t.Errorf("%s depends on %s, which is not of its scope", name, dep)
			}
		}
		if (scope == iam.ScopeCluster) != (len(tpl.Spec.Rules) == 0) {
			t.Errorf("%s of scope %s has %d rules", name, scope, len(tpl.Spec.Rules))
		}
	}
	check := func(of, scope string, a *iam.AggregationRoleTemplates) {
		if a == nil {
			return
		}
		for _, name := range a.TemplateNames {
			if d.templates[name] == nil || d.templates[name].Labels[iam.LabelScope] != scope {
				t.Errorf("%s names %s, which is not a template of scope %s", of, name, scope)
			}
		}
	}
	for name, r := range d.globalRoles {
		check(name, iam.ScopeGlobal, r.AggregationRoleTemplates)
	}
	for name, r := range d.clusterRoles {
		check(name, iam.ScopeCluster, r.AggregationRoleTemplates)
	}
	for name, b := range d.builtinRoles {
		var r iam.Role // a WorkspaceRole has the same fields
		if err := json.Unmarshal(b.Role.Raw, &r); err != nil {
			t.Fatal(err)
		}
		check(name, b.Labels[iam.LabelScope], r.AggregationRoleTemplates)
		if _, role, _ := strings.Cut(name, "-"); r.Name != role || r.Kind == "" || r.AggregationRoleTemplates.RoleSelector == nil {
			t.Errorf("%s makes %s %s", name, r.Kind, r.Name)
		}
	}
	for name, b := range d.globalBindings {
		if d.globalRoles[b.RoleRef.Name] == nil || b.Labels[iam.LabelRoleReference] != b.RoleRef.Name {
			t.Errorf("binding %s: role %s", name, b.RoleRef.Name)
		}
	}
}

// The admin sees every page: pages are shown by the templates that his role names.
func TestAdminsNameAllTemplates(t *testing.T) {
	d := load(t)
	count := map[string]int{}
	for _, tpl := range d.templates {
		count[tpl.Labels[iam.LabelScope]]++
	}
	if got := len(d.globalRoles["platform-admin"].AggregationRoleTemplates.TemplateNames); got != count[iam.ScopeGlobal] {
		t.Errorf("platform-admin names %d of %d", got, count[iam.ScopeGlobal])
	}
	if got := len(d.clusterRoles["cluster-admin"].AggregationRoleTemplates.TemplateNames); got != count[iam.ScopeCluster] {
		t.Errorf("cluster-admin names %d of %d", got, count[iam.ScopeCluster])
	}
}
