package namespace

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

func pattern(role string) *iamv1beta1.BuiltinRole {
	return &iamv1beta1.BuiltinRole{
		ObjectMeta:     metav1.ObjectMeta{Name: "project-" + role},
		TargetSelector: metav1.LabelSelector{MatchLabels: map[string]string{tenantv1beta1.LabelManaged: "true"}},
		Role: runtime.RawExtension{Raw: []byte(`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"Role","metadata":{"name":"` + role + `"},
"aggregationRoleTemplates":{"roleSelector":{"matchLabels":{"for":"` + role + `"}}},"rules":[]}`)},
	}
}

func template(name, scope string) *iamv1beta1.RoleTemplate {
	return &iamv1beta1.RoleTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{iamv1beta1.LabelScope: scope, "for": admin}},
		Spec:       iamv1beta1.RoleTemplateSpec{Rules: []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{name}}}},
	}
}

func project(name, workspace, creator string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{tenantv1beta1.LabelManaged: "true"}}}
	if workspace != "" {
		n.Labels[tenantv1beta1.LabelWorkspace] = workspace
	}
	if creator != "" {
		n.Annotations = map[string]string{tenantv1beta1.AnnotationCreator: creator}
	}
	return n
}

func space(name string) *tenantv1beta1.Workspace {
	return &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func user(name string) *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

type fixture struct {
	*controllertest.Cluster
	r *Reconciler
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	objects = append(objects, pattern("admin"), pattern("viewer"), template("pods", "namespace"), template("platform", "global"), space("demo"), user("ann"))
	c := controllertest.New(t, func(b *fake.ClientBuilder) { b.WithIndex(empty(""), workspaceField, workspaceOf) }, objects...)
	return &fixture{c, &Reconciler{Client: c.Client, Events: c.Recorder}}
}

func (f *fixture) run(name string) { f.T.Helper(); f.Reconcile(f.r, name) }

func (f *fixture) role(name string) *iamv1beta1.Role {
	r := &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: name}}
	if !f.Has(r) {
		return nil
	}
	return r
}

// bound returns the subjects that are bound in the namespace p.
func (f *fixture) bound() string { f.T.Helper(); return f.boundIn("p") }

func (f *fixture) boundIn(namespace string) string {
	f.T.Helper()
	list := &iamv1beta1.RoleBindingList{}
	if err := f.Client.List(context.Background(), list, client.InNamespace(namespace)); err != nil {
		f.T.Fatal(err)
	}
	var out []string
	for _, b := range list.Items {
		for _, s := range b.Subjects {
			out = append(out, s.Name+" is "+b.RoleRef.Name)
		}
	}
	return strings.Join(out, ", ")
}

func (f *fixture) event() string {
	select {
	case e := <-f.Events:
		return e
	default:
		return ""
	}
}

func TestAManagedNamespaceGetsItsRolesAndItsCreator(t *testing.T) {
	f := newFixture(t, project("p", "demo", "ann"))
	f.run("p")
	r := f.role("admin")
	if r == nil || len(r.Rules) != 1 || r.Rules[0].Resources[0] != "pods" || f.role("viewer") == nil {
		t.Fatalf("the role admin is %+v", r)
	}
	if got := f.bound(); got != "ann is admin" {
		t.Errorf("bound: %s", got)
	}
	if n := f.Written(func() { f.run("p") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

// Users of older installations may have names that are too long for labels.
func TestACreatorOfALongNameIsBound(t *testing.T) {
	long := strings.Repeat("u", 64)
	f := newFixture(t, project("p", "demo", long), user(long))
	f.run("p")
	b := &iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: long + "-admin"}}
	if !f.Has(b) || b.Labels[iamv1beta1.LabelRoleReference] != admin || b.Labels[iamv1beta1.LabelUserReference] != "" || b.Subjects[0].Name != long {
		t.Errorf("%+v", b)
	}
}

func TestWhichNamespacesGetRoles(t *testing.T) {
	unmanaged, said := project("p", "demo", "ann"), project("p", "demo", "ann")
	delete(unmanaged.Labels, tenantv1beta1.LabelManaged)
	said.Labels[tenantv1beta1.LabelManaged] = "false"
	for claim, c := range map[string]struct {
		ns    *corev1.Namespace
		roles bool
		bound string
		event string
	}{
		"NotAnUnmanagedOne":             {unmanaged, false, "", ""},
		"NotOneThatSaysNo":              {said, false, "", ""},
		"OneOfNoWorkspaceButNoCreator":  {project("p", "", "ann"), true, "", ""},
		"NotOneOfAnUnknownWorkspace":    {project("p", "gone", "ann"), false, "", "WorkspaceNotFound"},
		"OneWithoutACreator":            {project("p", "demo", ""), true, "", ""},
		"OneOfAnUnknownCreator":         {project("p", "demo", "eve"), true, "", "CreatorUnknown"},
		"OneOfTheSystem":                {project("p", "demo", "system:admin"), true, "", ""},
		"OneThatNamesASyntheticSubject": {project("p", "demo", "kapis:global:x"), true, "", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFixture(t, c.ns)
			f.run("p")
			if got := f.role("admin") != nil; got != c.roles || f.bound() != c.bound {
				t.Errorf("roles: %t, want %t; bound: %s, want %s", got, c.roles, f.bound(), c.bound)
			}
			if e := f.event(); !strings.Contains(e, c.event) || c.event == "" && e != "" {
				t.Errorf("the event is %q", e)
			}
		})
	}
}

// S67: the creator of a namespace that was not managed gets no right when it becomes managed: they may have been
// removed from the workspace since.
func TestS67ACreatorIsDueHisRoleAtTheBeginningOnly(t *testing.T) {
	n := project("p", "demo", "ann")
	delete(n.Labels, tenantv1beta1.LabelManaged)
	f := newFixture(t, n)
	f.run("p")
	if again := f.Written(func() { f.run("p") }); again != 0 {
		t.Errorf("a second time wrote %d times", again)
	}
	f.Patch(project("p", "", ""), `{"metadata":{"labels":{"kubesphere.io/managed":"true"}}}`)
	f.run("p")
	if f.role("admin") == nil || f.bound() != "" {
		t.Errorf("the role is there: %t; bound: %s", f.role("admin") != nil, f.bound())
	}
}

// S6, S9: the creator's right is given once, whatever happens to the namespace and its roles afterwards.
func TestS6TheCreatorIsBoundOnce(t *testing.T) {
	take := func(f *fixture) {
		f.Delete(&iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "ann-admin"}})
	}
	for claim, do := range map[string]func(*fixture){
		"NotAfterItWasTaken":        take,
		"NotAfterTheRolesWereTaken": func(f *fixture) { take(f); f.Delete(f.role("admin")); f.Delete(f.role("viewer")) },
		"NotWhoIsWrittenInLater": func(f *fixture) {
			take(f)
			f.Patch(project("p", "", ""), `{"metadata":{"annotations":{"kubesphere.io/creator":"bob"}}}`)
		},
		"NotAfterAMove": func(f *fixture) {
			take(f)
			f.Patch(project("p", "", ""), `{"metadata":{"labels":{"kubesphere.io/workspace":"other"}}}`)
		},
		"NotAfterItWasManagedAgain": func(f *fixture) {
			take(f)
			f.Patch(project("p", "", ""), `{"metadata":{"labels":{"kubesphere.io/managed":"false"}}}`)
			f.run("p")
			f.Patch(project("p", "", ""), `{"metadata":{"labels":{"kubesphere.io/managed":"true"}}}`)
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := newFixture(t, project("p", "demo", "ann"), space("other"), user("bob"))
			f.run("p")
			do(f)
			f.run("p")
			if got := f.bound(); got != "" {
				t.Errorf("bound: %s", got)
			}
			if f.role("admin") == nil {
				t.Error("the role is not made again")
			}
		})
	}
	t.Run("NotInANamespaceOfAnOlderInstallation", func(t *testing.T) {
		f := newFixture(t, project("p", "demo", "ann"), &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "admin"}})
		f.run("p")
		if got := f.bound(); got != "" {
			t.Errorf("bound: %s", got)
		}
	})
	t.Run("AlsoWhenItWasCutShort", func(t *testing.T) {
		f := newFixture(t, project("p", "demo", "ann"))
		failed := false
		f.Refuse = func(verb string, o client.Object) error {
			if _, ok := o.(*iamv1beta1.Role); ok && !failed {
				failed = true
				return context.DeadlineExceeded
			}
			return nil
		}
		if _, err := f.r.Reconcile(context.Background(), reconcileRequest("p")); err == nil {
			t.Fatal("it was not cut short")
		}
		f.run("p")
		if got := f.bound(); got != "ann is admin" {
			t.Errorf("bound: %s", got)
		}
	})
}

func TestAMoveLeavesWhatPeopleWereGiven(t *testing.T) {
	f := newFixture(t, project("p", "demo", "ann"), space("other"))
	f.run("p")
	f.Patch(project("p", "", ""), `{"metadata":{"labels":{"kubesphere.io/workspace":"other"}}}`)
	if n := f.Written(func() { f.run("p") }); n != 0 || f.bound() != "ann is admin" {
		t.Errorf("%d writes; bound: %s", n, f.bound())
	}
}

func TestTheWorkspaceMayComeLater(t *testing.T) {
	f := newFixture(t, project("p", "late", "ann"))
	f.run("p")
	f.Create(space("late"))
	if got := f.r.inWorkspace(context.Background(), space("late")); len(got) != 1 || got[0].Name != "p" {
		t.Errorf("the workspace touches %v", got)
	}
	f.run("p")
	if f.role("admin") == nil || f.bound() != "ann is admin" {
		t.Errorf("bound: %s", f.bound())
	}
}

// U50: an owned object is deleted with its owner. A namespace has no owner.
func TestU50NothingTakesANamespaceAlong(t *testing.T) {
	n := project("p", "", "")
	n.Labels = nil
	n.Finalizers = []string{tenantv1beta1.FinalizerCascadingDeletion, "example.com/own"}
	n.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "tenant.kubesphere.io/v1alpha1", Kind: "Workspace", Name: "demo", UID: "1"},
		{APIVersion: "example.com/v1", Kind: "Tenant", Name: "own", UID: "2"},
	}
	f := newFixture(t, n)
	f.run("p")
	got := project("p", "", "")
	if !f.Has(got) || len(got.OwnerReferences) != 1 || got.OwnerReferences[0].Kind != "Tenant" || len(got.Finalizers) != 1 {
		t.Errorf("it is %+v", got.ObjectMeta)
	}
}

func TestADeletedNamespaceIsLetGo(t *testing.T) {
	n := project("p", "demo", "ann")
	n.Finalizers = []string{tenantv1beta1.FinalizerCascadingDeletion}
	f := newFixture(t, n)
	f.Delete(project("p", "", ""))
	f.run("p")
	if f.Has(project("p", "", "")) || f.role("admin") != nil {
		t.Error("it is held, or got a role")
	}
}

func TestWhatTouchesWhichNamespaces(t *testing.T) {
	other := project("q", "demo", "")
	delete(other.Labels, tenantv1beta1.LabelManaged)
	f := newFixture(t, project("p", "demo", "ann"), other)
	if got := f.r.patterned(context.Background(), pattern("admin")); len(got) != 1 || got[0].Name != "p" {
		t.Errorf("a pattern touches %v", got)
	}
	w := pattern("admin")
	w.Role.Raw = []byte(`{"kind":"WorkspaceRole"}`)
	if got := f.r.patterned(context.Background(), w); got != nil {
		t.Errorf("a workspace's pattern touches %v", got)
	}
	f.run("p")
	if got := namespaceOf(context.Background(), f.role("admin")); len(got) != 1 || got[0].Name != "p" {
		t.Errorf("a built-in role touches %v", got)
	}
	if got := namespaceOf(context.Background(), &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "own"}}); got != nil {
		t.Errorf("a role of somebody's own touches %v", got)
	}
}

func reconcileRequest(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}
