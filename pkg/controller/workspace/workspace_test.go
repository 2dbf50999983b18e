package workspace

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	applicationv2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func named(name, workspace string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name}
	if workspace != "" {
		m.Labels = map[string]string{tenantv1beta1.LabelWorkspace: workspace}
	}
	return m
}

func space(name, manager string) *tenantv1beta1.Workspace {
	return &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}, Spec: tenantv1beta1.WorkspaceSpec{Manager: manager}}
}

func user(name string) *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pattern(role string) *iamv1beta1.BuiltinRole {
	return &iamv1beta1.BuiltinRole{ObjectMeta: metav1.ObjectMeta{Name: "workspace-" + role}, Role: runtime.RawExtension{Raw: []byte(
		`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"WorkspaceRole","metadata":{"name":"` + role + `"},
"aggregationRoleTemplates":{"roleSelector":{"matchLabels":{"for":"` + role + `"}}},"rules":[]}`)}}
}

func template(name, role, resource string) *iamv1beta1.RoleTemplate {
	return &iamv1beta1.RoleTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{iamv1beta1.LabelScope: "workspace", "for": role}},
		Spec:       iamv1beta1.RoleTemplateSpec{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}}}},
	}
}

type fixture struct {
	*controllertest.Cluster
	r *Reconciler
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	objects = append(objects, pattern("admin"), pattern("viewer"), template("everything", "admin", "*"), template("views", "viewer", "pods"))
	for _, d := range []string{definition, templateDefinition} {
		if !slices.ContainsFunc(objects, func(o client.Object) bool { return o.GetName() == d }) {
			objects = append(objects, controllertest.Definition(d, false))
		}
	}
	c := controllertest.New(t, func(b *fake.ClientBuilder) { b.WithIndex(&tenantv1beta1.Workspace{}, managerField, managerOf) }, objects...)
	return &fixture{c, &Reconciler{Client: c.Client, Live: c.Client, Events: c.Recorder, Now: func() time.Time { return now }}}
}

func (f *fixture) run(name string) { f.T.Helper(); f.Reconcile(f.r, name) }

func (f *fixture) role(name string) *iamv1beta1.WorkspaceRole {
	r := &iamv1beta1.WorkspaceRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !f.Has(r) {
		return nil
	}
	return r
}

func (f *fixture) binding(name string) *iamv1beta1.WorkspaceRoleBinding {
	b := &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !f.Has(b) {
		return nil
	}
	return b
}

func (f *fixture) condition(name string) string {
	f.T.Helper()
	w := space(name, "")
	if !f.Has(w) {
		f.T.Fatalf("no workspace %s", name)
	}
	if c := meta.FindStatusCondition(w.Status.Conditions, ConditionReady); c != nil {
		return string(c.Status) + " " + c.Message
	}
	return ""
}

func TestAWorkspaceGetsItsRolesAndItsManager(t *testing.T) {
	f := newFixture(t, space("demo", "ann"), user("ann"))
	f.run("demo")
	for name, resource := range map[string]string{"demo-admin": "*", "demo-viewer": "pods"} {
		r := f.role(name)
		if r == nil || r.Labels[tenantv1beta1.LabelWorkspace] != "demo" || len(r.OwnerReferences) != 0 { // S74
			t.Fatalf("%s is %+v", name, r)
		}
		if len(r.Rules) != 1 || r.Rules[0].Resources[0] != resource {
			t.Errorf("%s grants %v at once, want %s", name, r.Rules, resource)
		}
	}
	b := f.binding("demo-admin")
	if b == nil || b.RoleRef.Name != "demo-admin" || b.RoleRef.Kind != "WorkspaceRole" || len(b.Subjects) != 1 || b.Subjects[0].Name != "ann" ||
		b.Labels[tenantv1beta1.LabelWorkspace] != "demo" || len(b.OwnerReferences) != 0 {
		t.Fatalf("the manager's binding is %+v", b)
	}
	if c := f.condition("demo"); !strings.HasPrefix(c, "True") {
		t.Errorf("the condition is %s", c)
	}
	if n := f.Written(func() { f.run("demo") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

// A name of a workspace may have up to 63 characters; with a suffix it is no valid value of a label.
func TestAWorkspaceOfALongNameHasItsManager(t *testing.T) {
	long := strings.Repeat("w", 63)
	f := newFixture(t, space(long, "ann"), user("ann"))
	f.run(long)
	b := f.binding(long + "-admin")
	if b == nil || b.RoleRef.Name != long+"-admin" || b.Labels[iamv1beta1.LabelUserReference] != "ann" {
		t.Fatalf("the manager's binding is %+v", b)
	}
	valid(t, b)
	if n := f.Written(func() { f.run(long) }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

// valid fails the test if kube-apiserver would refuse the labels.
func valid(t *testing.T, o client.Object) {
	t.Helper()
	for key, value := range o.GetLabels() {
		if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
			t.Errorf("%s: %q: %v", key, value, wrong)
		}
	}
}

func TestWhatSomebodyDeletesComesBack(t *testing.T) {
	f := newFixture(t, space("demo", "ann"), user("ann"))
	f.run("demo")
	f.Delete(f.role("demo-viewer"))
	f.Delete(f.binding("demo-admin"))
	f.run("demo")
	if f.role("demo-viewer") == nil || f.binding("demo-admin") == nil {
		t.Error("a role or the manager's binding is missing")
	}
}

func TestAFormerManagerLosesWhatHeHadByIt(t *testing.T) { // S9
	own := &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("own", "demo"), RoleRef: rbacv1.RoleRef{Kind: "WorkspaceRole", Name: "demo-viewer"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}}
	f := newFixture(t, space("demo", "ann"), user("ann"), user("bob"), own)
	f.run("demo")
	f.Patch(space("demo", ""), `{"spec":{"manager":"bob"}}`)
	f.run("demo")
	if b := f.binding("demo-admin"); b == nil || len(b.Subjects) != 1 || b.Subjects[0].Name != "bob" {
		t.Errorf("the manager's binding is %+v", b)
	}
	if b := f.binding("own"); b == nil || b.Subjects[0].Name != "ann" {
		t.Error("what ann has beside was taken")
	}
	f.Patch(space("demo", ""), `{"spec":{"manager":null}}`)
	f.run("demo")
	if f.binding("demo-admin") != nil {
		t.Error("without a manager there is a manager's binding")
	}
}

// S9, S37: a user recreated under a former name does not inherit the right, and a user who is created later gets theirs.
func TestOnlyAUserWhoIsThereIsManager(t *testing.T) {
	f := newFixture(t, space("demo", "ann"))
	f.run("demo")
	if f.binding("demo-admin") != nil || !strings.Contains(f.condition("demo"), `"ann" is no user`) {
		t.Fatalf("nobody was bound: %s", f.condition("demo"))
	}
	f.Create(user("ann"))
	if got := f.r.managedBy(context.Background(), user("ann")); len(got) != 1 || got[0].Name != "demo" {
		t.Errorf("a new user touches %v", got)
	}
	f.run("demo")
	if f.binding("demo-admin") == nil || !strings.HasPrefix(f.condition("demo"), "True") {
		t.Errorf("the user who came is not the manager: %s", f.condition("demo"))
	}
	f.Delete(user("ann"))
	f.run("demo")
	if f.binding("demo-admin") != nil {
		t.Error("the binding outlives the user")
	}
}

// S6: names are cluster-wide, and a role or binding of another workspace must not be taken over.
func TestS6TheNamesOfAnotherWorkspaceAreNotTakenOver(t *testing.T) {
	taken := &iamv1beta1.WorkspaceRole{ObjectMeta: named("a-b-admin", "a"), Rules: []rbacv1.PolicyRule{{Verbs: []string{"x"}}}}
	b := &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("a-b-admin", "a"), RoleRef: rbacv1.RoleRef{Kind: "WorkspaceRole", Name: "a-b-admin"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "eve"}}}
	f := newFixture(t, space("a-b", "ann"), user("ann"), taken, b)
	f.run("a-b")
	if r := f.role("a-b-admin"); r.Labels[tenantv1beta1.LabelWorkspace] != "a" || r.Rules[0].Verbs[0] != "x" {
		t.Errorf("the role of workspace a is %+v", r)
	}
	if got := f.binding("a-b-admin"); got.Labels[tenantv1beta1.LabelWorkspace] != "a" || got.Subjects[0].Name != "eve" {
		t.Errorf("the binding of workspace a is %+v", got)
	}
	if c := f.condition("a-b"); !strings.HasPrefix(c, "False") || !strings.Contains(c, "another workspace") || !strings.Contains(c, "the name of the binding") {
		t.Errorf("the condition is %s", c)
	}
	if f.role("a-b-viewer") == nil {
		t.Error("the other roles are missing")
	}
}

func TestAnOlderInstallationIsTakenOverAsItIs(t *testing.T) {
	role := &iamv1beta1.WorkspaceRole{
		ObjectMeta:               named("demo-viewer", "demo"),
		AggregationRoleTemplates: &iamv1beta1.AggregationRoleTemplates{TemplateNames: []string{"their-own"}},
		Rules:                    []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"own"}, Resources: []string{"things"}}},
	}
	b := &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("demo-admin", "demo"), RoleRef: rbacv1.RoleRef{Kind: "WorkspaceRole", Name: "demo-admin"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "ann"}}}
	f := newFixture(t, space("demo", "ann"), user("ann"), role, b)
	f.run("demo")
	r := f.role("demo-viewer")
	if len(r.Rules) != 2 || !slices.Contains(r.AggregationRoleTemplates.TemplateNames, "their-own") || r.AggregationRoleTemplates.RoleSelector == nil {
		t.Errorf("the role is %+v", r)
	}
	if b := f.binding("demo-admin"); b.Annotations[AnnotationManager] != "demo" || b.Subjects[0].Name != "ann" {
		t.Errorf("the manager's binding is %+v", b)
	}
	if n := f.Written(func() { f.run("demo") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

func TestAChangedPatternReachesItsRoles(t *testing.T) {
	f := newFixture(t, space("demo", ""), template("more", "other", "secrets"))
	f.run("demo")
	b := pattern("viewer")
	b.Role.Raw = []byte(strings.ReplaceAll(string(pattern("other").Role.Raw), `"name":"other"`, `"name":"viewer"`))
	f.Patch(pattern("viewer"), `{"role":`+string(b.Role.Raw)+`}`)
	if got := f.r.patterned(context.Background(), b); len(got) != 1 {
		t.Errorf("the pattern touches %v", got)
	}
	f.run("demo")
	if r := f.role("demo-viewer"); len(r.Rules) != 1 || r.Rules[0].Resources[0] != "secrets" {
		t.Errorf("the role grants %v", r.Rules)
	}
	if n := f.Written(func() { f.run("demo") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
	f.Delete(pattern("viewer"))
	f.run("demo")
	if f.role("demo-viewer") == nil {
		t.Error("with its pattern the role went, and everybody's rights")
	}
}

func namespace(name, workspace string, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: named(name, workspace)}
	for _, l := range labels {
		n.Labels[l] = "true"
	}
	return n
}

func quota(name, workspace string) client.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "quota.kubesphere.io", Version: "v1alpha2", Kind: "ResourceQuota"})
	u.SetName(name)
	u.SetLabels(map[string]string{tenantv1beta1.LabelWorkspace: workspace})
	return u
}

func tenants() []client.Object {
	return []client.Object{
		space("demo", "ann"), space("other", ""), user("ann"),
		namespace("p1", "demo"), namespace("p2", "demo"), namespace("q", "other"),
		namespace("kube-system", "demo"), namespace("kubesphere-system", "demo"), namespace("default", "demo"), namespace("kubesphere", "demo"),
		namespace("precious", "demo", tenantv1beta1.LabelProtectedResource),
		&iamv1beta1.WorkspaceRole{ObjectMeta: named("demo-custom", "demo")},
		&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("member", "demo")},
		&iamv1beta1.Group{ObjectMeta: named("devs", "demo")}, &iamv1beta1.GroupBinding{ObjectMeta: named("ann-devs", "demo")},
		&iamv1beta1.WorkspaceRole{ObjectMeta: named("other-custom", "other")},
		quota("q1", "demo"),
	}
}

func (f *fixture) mine(o client.Object, name string) bool {
	o.SetName(name)
	return f.Has(o)
}

// U50, S9: users' rights by a workspace end with it, system namespaces always stay, and the others stay unless their
// deletion was requested.
func TestU50ADeletedWorkspaceTakesWhatWasAskedFor(t *testing.T) {
	for propagation, stay := range map[string]bool{"": true, "Orphan": true, "nonsense": true, "Background": false, "Foreground": false} {
		t.Run("PropagationIs"+propagation, func(t *testing.T) {
			f := newFixture(t, tenants()...)
			f.run("demo")
			if propagation != "" {
				f.Patch(space("demo", ""), `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"`+propagation+`"}}}`)
			}
			f.Delete(space("demo", ""))
			f.run("demo")
			f.run("demo")
			if f.Has(space("demo", "")) {
				t.Error("the workspace is held")
			}
			for name, want := range map[string]bool{"p1": stay, "p2": stay, "q": true, "kube-system": true, "kubesphere-system": true, "default": true,
				"kubesphere": true, "precious": true} {
				n := namespace(name, "")
				if got := f.Has(n); got != want {
					t.Errorf("namespace %s is there: %t, want %t", name, got, want)
				} else if w := n.Labels[tenantv1beta1.LabelWorkspace]; got && name != "q" && w != "" {
					t.Errorf("namespace %s is still in %s", name, w)
				}
			}
			for _, name := range []string{"demo-admin", "demo-viewer", "demo-custom"} {
				if f.role(name) != nil {
					t.Errorf("role %s is left", name)
				}
			}
			if f.binding("demo-admin") != nil || f.binding("member") != nil || f.mine(&iamv1beta1.Group{}, "devs") || f.mine(&iamv1beta1.GroupBinding{}, "ann-devs") ||
				f.Has(quota("q1", "")) {
				t.Error("a grant, a group or a quota is left")
			}
			if f.role("other-custom") == nil {
				t.Error("a role of another workspace is gone")
			}
		})
	}
}

// D16: a namespace that a deleted workspace leaves has no members of it, and the creator whom the next workspace names is bound.
func TestD16ANamespaceThatStaysForgetsItsMembers(t *testing.T) {
	member := func(namespace string) *iamv1beta1.RoleBinding {
		return &iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "old-admin", Namespace: namespace}}
	}
	for claim, c := range map[string]struct {
		going, placedElsewhere, stay bool
	}{
		"TheWorkspaceIsDeleted": {},
		"ItsDefinitionIs":       {going: true, stay: true}, // U50
		"ItIsPlacedElsewhere":   {placedElsewhere: true, stay: true},
	} {
		t.Run(claim, func(t *testing.T) {
			w, p := space("demo", "ann"), namespace("p1", "demo")
			p.Annotations = map[string]string{annotationInitialized: "true", tenantv1beta1.AnnotationCreator: "old", "own": "kept"}
			objects := []client.Object{w, p, user("ann"), member("p1"), member("q"), namespace("q", "other"), namespace("kube-system", "demo"), member("kube-system")}
			if c.going {
				objects = append(objects, controllertest.Definition(definition, true))
			}
			if c.placedElsewhere {
				w.Annotations = map[string]string{tenantv1beta1.AnnotationTemplateUID: "uid-of-template"}
				objects = append(objects, unplaced("demo", "ann"))
			}
			f := newFixture(t, objects...)
			f.run("demo")
			f.Delete(space("demo", ""))
			f.run("demo")
			if f.Has(member("p1")) != c.stay || !f.Has(member("q")) || !f.Has(member("kube-system")) {
				t.Errorf("the members are there: %t, %t, %t", f.Has(member("p1")), f.Has(member("q")), f.Has(member("kube-system")))
			}
			n := namespace("p1", "")
			if !f.Has(n) || (n.Annotations[annotationInitialized] != "") != c.stay || (n.Annotations[tenantv1beta1.AnnotationCreator] != "") != c.stay ||
				n.Annotations["own"] != "kept" {
				t.Errorf("the namespace has %v", n.Annotations)
			}
		})
	}
}

// D16: a member who binds himself again while the bindings are deleted is no member of the namespace that stays.
func TestD16ANamespaceIsReleasedOnceNobodyIsBoundInIt(t *testing.T) {
	bound := func(name string, subject rbacv1.Subject) *iamv1beta1.RoleBinding {
		return &iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "p1"}, Subjects: []rbacv1.Subject{subject}}
	}
	bob := rbacv1.Subject{Kind: rbacv1.UserKind, Name: "bob"}
	own := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "p1", Name: "robot"}
	f := newFixture(t, space("demo", ""), namespace("p1", "demo"), namespace("p2", "demo"), bound("first", bob))
	f.run("demo")
	f.Delete(space("demo", ""))
	create := func(b *iamv1beta1.RoleBinding) {
		t.Helper()
		if err := f.Client.Create(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for _, again := range []rbacv1.Subject{bob, {Kind: rbacv1.GroupKind, Name: "bobs"}, {Kind: rbacv1.ServiceAccountKind, Namespace: "p2", Name: "robot"}} {
		got, p1, p2 := f.Reconcile(f.r, "demo"), namespace("p1", ""), namespace("p2", "")
		if got.RequeueAfter == 0 || !f.Has(space("demo", "")) || !f.Has(p1) || p1.Labels[tenantv1beta1.LabelWorkspace] != "demo" ||
			!f.Has(p2) || p2.Labels[tenantv1beta1.LabelWorkspace] != "" || f.Has(bound("first", bob)) {
			t.Fatalf("it does not look again: %v, %v, %v", got, p1.Labels, p2.Labels)
		}
		create(bound("first", again))
	}
	f.run("demo")
	held := bound("held", bob)
	held.Finalizers = []string{"example.com/stay"}
	create(held)
	f.Delete(bound("held", bob))
	create(bound("robot", own))
	f.run("demo")
	if p1 := namespace("p1", ""); f.Has(space("demo", "")) || !f.Has(p1) || p1.Labels[tenantv1beta1.LabelWorkspace] != "" || f.Has(bound("first", bob)) {
		t.Errorf("what binds nobody, or the namespace's own service account, holds the workspace: %v", p1.Labels)
	}
}

func TestASystemWorkspaceNeverTakesANamespace(t *testing.T) { // U50
	w := space(tenantv1beta1.SystemWorkspace, "")
	w.Annotations = map[string]string{tenantv1beta1.AnnotationDeletionPropagation: "Background"}
	f := newFixture(t, w, namespace("monitoring", w.Name))
	f.run(w.Name)
	f.Delete(space(w.Name, ""))
	f.run(w.Name)
	if n := namespace("monitoring", ""); f.Has(w) || !f.Has(n) ||
		n.Labels[tenantv1beta1.LabelWorkspace] != w.Name { // S7: without the label, others could add it to their workspaces
		t.Errorf("the workspace is held, or a namespace of the system went or left it: %v", n.Labels)
	}
}

func TestForegroundWaitsForTheNamespaces(t *testing.T) {
	held := namespace("p1", "demo")
	held.Finalizers = []string{"example.com/held"}
	w := space("demo", "")
	w.Annotations = map[string]string{tenantv1beta1.AnnotationDeletionPropagation: "Foreground"}
	f := newFixture(t, w, held)
	f.run("demo")
	f.Delete(space("demo", ""))
	if got := f.Reconcile(f.r, "demo"); got.RequeueAfter == 0 || !f.Has(space("demo", "")) {
		t.Error("it did not wait")
	}
	f.Patch(namespace("p1", ""), `{"metadata":{"finalizers":null}}`)
	f.run("demo")
	if f.Has(space("demo", "")) {
		t.Error("it waits for nothing")
	}
}

// U50, S74: deleting a CRD ends no namespace and no right; all are in their workspaces again afterwards.
func TestU50ADeletedDefinitionTouchesNothingOfAWorkspace(t *testing.T) {
	w := space("demo", "ann")
	w.Annotations = map[string]string{tenantv1beta1.AnnotationDeletionPropagation: "Background"}
	member := &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("member", "demo")}
	f := newFixture(t, w, user("ann"), namespace("p1", "demo"), member, quota("q1", "demo"),
		&iamv1beta1.WorkspaceRole{ObjectMeta: named("demo-custom", "demo")}, &iamv1beta1.Group{ObjectMeta: named("devs", "demo")},
		&iamv1beta1.GroupBinding{ObjectMeta: named("ann-devs", "demo")}, controllertest.Definition(definition, true))
	f.run("demo")
	f.Delete(space("demo", ""))
	f.Refuse = func(verb string, o client.Object) error {
		if _, ok := o.(*tenantv1beta1.Workspace); !ok {
			t.Errorf("%s of %T %s", verb, o, o.GetName())
		}
		return nil
	}
	f.run("demo")
	n := namespace("p1", "")
	if f.Has(space("demo", "")) || !f.Has(n) || n.Labels[tenantv1beta1.LabelWorkspace] != "demo" {
		t.Error("the workspace is held, or its namespace was touched")
	}
	if f.binding("member") == nil || f.binding("demo-admin") == nil || f.role("demo-custom") == nil || f.role("demo-viewer") == nil ||
		!f.mine(&iamv1beta1.Group{}, "devs") || !f.mine(&iamv1beta1.GroupBinding{}, "ann-devs") || !f.Has(quota("q1", "")) {
		t.Error("what people have in the workspace is gone")
	}
}

// S74: if the definition is gone, its workspaces may come back: no rights are deleted.
func TestS74RightsAreNotSweptWithADefinition(t *testing.T) {
	old := named("old", "gone")
	old.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	for _, going := range []string{definition, templateDefinition} {
		f := newFixture(t, &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: old}, &iamv1beta1.WorkspaceRole{ObjectMeta: old}, controllertest.Definition(going, true))
		if got := f.Reconcile(f.r, "gone"); got.RequeueAfter == 0 || f.binding("old") == nil || f.role("old") == nil {
			t.Errorf("%s goes: rights were swept, or nobody looks again (after %v)", going, got.RequeueAfter)
		}
	}
}

// S74: an object that was given to another workspace since it was read is not deleted.
func TestS74WhatIsNoLongerTheWorkspacesStays(t *testing.T) {
	for claim, of := range map[string][]client.Object{"TheWorkspaceIsDeleted": {space("demo", "")}, "ItWasGoneBefore": nil} {
		t.Run(claim, func(t *testing.T) {
			moved := named("moved", "demo")
			moved.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
			f := newFixture(t, append(of, &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: moved})...)
			if of != nil {
				f.run("demo")
				f.Delete(space("demo", ""))
			}
			f.Refuse = func(verb string, o client.Object) error {
				if verb == "delete" && o.GetName() == "moved" {
					f.Refuse = nil
					f.Patch(&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "moved"}}, `{"metadata":{"labels":{"kubesphere.io/workspace":"other"}}}`)
				}
				return nil
			}
			f.run("demo")
			f.run("demo")
			if f.binding("moved") == nil {
				t.Error("a binding of another workspace was deleted")
			}
		})
	}
}

// U50, S74: a namespace that was given to another workspace, or protected, since it was read is not deleted.
func TestU50ANamespaceThatWasMovedMeanwhileStays(t *testing.T) {
	for claim, labels := range map[string]string{"Moved": `"kubesphere.io/workspace":"other"`, "Protected": `"kubesphere.io/protected-resource":"true"`,
		"Released": `"kubesphere.io/workspace":null`} {
		t.Run(claim, func(t *testing.T) {
			f := newFixture(t, tenants()...)
			f.run("demo")
			f.Patch(space("demo", ""), `{"metadata":{"annotations":{"kubesphere.io/deletion-propagation":"Background"}}}`)
			f.Delete(space("demo", ""))
			f.Refuse = func(verb string, o client.Object) error {
				if verb == "delete" && o.GetName() == "p1" {
					f.Refuse = nil
					f.Patch(namespace("p2", ""), `{"metadata":{"labels":{`+labels+`}}}`)
				}
				return nil
			}
			for range 3 {
				_, err := f.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "demo"}})
				if err != nil && !apierrors.IsConflict(err) {
					t.Fatal(err)
				}
			}
			if f.Has(namespace("p1", "")) || !f.Has(namespace("p2", "")) {
				t.Errorf("p1 is there: %t, p2: %t", f.Has(namespace("p1", "")), f.Has(namespace("p2", "")))
			}
		})
	}
}

// A binding that only claims to be this workspace's manager's is not taken over.
func TestS65ABindingOfAnotherWorkspaceIsNotTheManagers(t *testing.T) {
	b := &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("demo-admin", "other"), Subjects: []rbacv1.Subject{{Kind: "User", Name: "eve"}}}
	b.Annotations = map[string]string{AnnotationManager: "demo"}
	for _, manager := range []string{"", "ann"} {
		f := newFixture(t, space("demo", manager), user("ann"), b.DeepCopy())
		f.run("demo")
		if got := f.binding("demo-admin"); got == nil || got.Labels[tenantv1beta1.LabelWorkspace] != "other" || got.Subjects[0].Name != "eve" {
			t.Errorf("managed by %q: the binding is %+v", manager, got)
		}
	}
}

// S9: a workspace that was deleted without its finalizer leaves rights. They are deleted, unless the workspace may come back.
func TestS9RightsOfNoWorkspaceAreSwept(t *testing.T) {
	old, young := named("old", "gone"), named("young", "gone")
	old.CreationTimestamp, young.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now.Add(-10*time.Second))
	objects := func() []client.Object {
		return []client.Object{
			&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: old}, &iamv1beta1.WorkspaceRole{ObjectMeta: old},
			&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: young}, &iamv1beta1.WorkspaceRole{ObjectMeta: named("else", "other")},
		}
	}
	f := newFixture(t, objects()...)
	if got := f.Reconcile(f.r, "gone"); got.RequeueAfter != 50*time.Second {
		t.Errorf("it looks again after %v", got.RequeueAfter)
	}
	if f.binding("old") != nil || f.role("old") != nil {
		t.Error("old rights are left")
	}
	if f.binding("young") == nil || f.role("else") == nil {
		t.Error("a right that may be due, or another workspace's, was swept")
	}
	manager, another := named("gone-admin", "gone"), named("another", "gone")
	for _, m := range []*metav1.ObjectMeta{&manager, &another} {
		m.CreationTimestamp, m.Annotations = metav1.NewTime(now), map[string]string{AnnotationManager: "gone"}
	}
	f = newFixture(t, &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: manager}, &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: another})
	f.run("gone")
	if f.binding("gone-admin") != nil {
		t.Error("the manager's binding, which was made while the workspace was deleted, is left")
	}
	if f.binding("another") == nil {
		t.Error("a right that may be due was swept for its annotation")
	}
	for name, o := range map[string]client.Object{
		"ATemplateBringsItBack": &tenantv1beta1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gone"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(objects(), o)...)
			f.run("gone")
			if f.binding("old") == nil || f.role("old") == nil {
				t.Error("rights were swept")
			}
		})
	}
}

// S69: whatever kind of the store an object with the label of a workspace is of, it is found.
func TestWhatTheStoreHasOfAWorkspaceIsFound(t *testing.T) {
	for plural, o := range map[string]client.Object{
		"repos":               &applicationv2.Repo{ObjectMeta: named("one", "shop")},
		"applications":        &applicationv2.Application{ObjectMeta: named("one", "shop")},
		"applicationversions": &applicationv2.ApplicationVersion{ObjectMeta: named("one", "shop")},
		"applicationreleases": &applicationv2.ApplicationRelease{ObjectMeta: named("one", "shop")},
	} {
		f := newFixture(t, o)
		for workspace, want := range map[string]string{"shop": plural, "other": ""} {
			if got, err := InStore(t.Context(), f.Client, workspace); got != want || err != nil {
				t.Errorf("%s in %s: got %q %v, want %q", plural, workspace, got, err, want)
			}
		}
	}
}

func TestAKindThatIsMissingIsLookedForAgain(t *testing.T) {
	f := newFixture(t, space("demo", ""))
	f.Refuse = func(verb string, o client.Object) error {
		if _, ok := o.(*iamv1beta1.WorkspaceRole); ok {
			return apierrors.NewGenericServerResponse(404, "post", schema.GroupResource{}, "", "", 0, true)
		}
		return nil
	}
	if got := f.Reconcile(f.r, "demo"); got.RequeueAfter != retry.Missing {
		t.Errorf("again after %v", got.RequeueAfter)
	}
}
