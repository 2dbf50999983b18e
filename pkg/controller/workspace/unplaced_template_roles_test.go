package workspace

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

func unplaced(name, manager string) *tenantv1beta1.WorkspaceTemplate {
	return &tenantv1beta1.WorkspaceTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-template"},
		Spec:       tenantv1beta1.WorkspaceTemplateSpec{Template: tenantv1beta1.Template{Spec: tenantv1beta1.WorkspaceSpec{Manager: manager}}},
	}
}

func (f *fixture) runUnplaced(name string) {
	f.T.Helper()
	f.Reconcile(&Unplaced{f.r}, name)
}

// D3: the creator of a workspace in no cluster manages it.
func TestD3ATemplateWithoutAWorkspaceHasItsRolesAndItsManager(t *testing.T) {
	f := newFixture(t, unplaced("demo", "ann"), user("ann"), user("bob"))
	f.runUnplaced("demo")
	if f.role("demo-admin") == nil || f.role("demo-viewer") == nil {
		t.Fatal("it has no roles")
	}
	if b := f.binding("demo-admin"); b == nil || b.Subjects[0].Name != "ann" || b.Labels[tenantv1beta1.LabelWorkspace] != "demo" {
		t.Fatalf("the manager's binding is %+v", b)
	}
	if n := f.Written(func() { f.runUnplaced("demo") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
	if got := (&Unplaced{f.r}).managedBy(context.Background(), user("ann")); len(got) != 1 || got[0].Name != "demo" {
		t.Errorf("its manager touches %v", got)
	}
	if got := (&Unplaced{f.r}).patterned(context.Background(), pattern("admin")); len(got) != 1 {
		t.Errorf("a pattern touches %v", got)
	}
	f.Patch(unplaced("demo", ""), `{"spec":{"template":{"spec":{"manager":"bob"}}}}`)
	f.runUnplaced("demo")
	if b := f.binding("demo-admin"); b.Subjects[0].Name != "bob" { // S9
		t.Errorf("the manager's binding is %+v", b)
	}
	f.Delete(user("bob"))
	f.runUnplaced("demo")
	if f.binding("demo-admin") != nil { // S9, S37
		t.Error("the binding outlives the user")
	}
	if event := <-f.Events; !strings.Contains(event, `"bob" is no user`) {
		t.Errorf("the event is %s", event)
	}
}

// S65: nobody gets a right in a workspace by a template that does not decide about it.
func TestS65ATemplateGivesNothingInAWorkspaceOfAnother(t *testing.T) {
	for claim, objects := range map[string][]client.Object{
		"ThereIsOne":                {space("demo", "ann")},
		"TheyMayComeBack":           {controllertest.Definition(definition, true)},
		"ItsNamespacesAreThere":     {namespace("p1", "demo")},
		"ItsBindingHasTheName":      {&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("demo-admin", "other")}},
		"TheTemplateIsBeingDeleted": nil,
	} {
		t.Run(claim, func(t *testing.T) {
			tpl := unplaced("demo", "eve")
			if objects == nil {
				tpl.Finalizers, tpl.DeletionTimestamp = []string{"example.com/held"}, &metav1.Time{Time: now}
			}
			f := newFixture(t, append(objects, tpl, user("ann"), user("eve"))...)
			f.runUnplaced("demo")
			if b := f.binding("demo-admin"); b != nil && slices.ContainsFunc(b.Subjects, isEve) {
				t.Errorf("eve is in %+v", b)
			}
		})
	}
	// The Workspace comes while the roles are made.
	f := newFixture(t, unplaced("demo", "eve"), user("ann"), user("eve"))
	f.Refuse = func(verb string, o client.Object) error {
		if _, ok := o.(*iamv1beta1.WorkspaceRoleBinding); ok && verb == "create" {
			f.Refuse = nil
			f.Create(space("demo", "ann"))
			f.run("demo")
		}
		return nil
	}
	f.runUnplaced("demo")
	if b := f.binding("demo-admin"); b == nil || slices.ContainsFunc(b.Subjects, isEve) {
		t.Errorf("the manager's binding is %+v", b)
	}
	f.runUnplaced("demo")
	if b := f.binding("demo-admin"); b == nil || b.Subjects[0].Name != "ann" {
		t.Errorf("afterwards it is %+v", b)
	}
}

// S65: and a template that was there first gives way to a Workspace of its name.
func TestS65AWorkspaceThatComesIsItsManagers(t *testing.T) {
	f := newFixture(t, unplaced("demo", "eve"), user("ann"), user("eve"))
	f.runUnplaced("demo")
	f.Create(space("demo", "ann"))
	f.run("demo")
	f.runUnplaced("demo")
	if b := f.binding("demo-admin"); b.Subjects[0].Name != "ann" || len(b.Subjects) != 1 {
		t.Errorf("the manager's binding is %+v", b)
	}
}

// D3: a workspace that leaves this cluster keeps its members; one whose template goes, or that another template made, does not.
func TestTheMembersOfAWorkspaceStayWithItsTemplate(t *testing.T) {
	for claim, c := range map[string]struct {
		made  string
		going bool
		stay  bool
	}{
		"ItLeavesThisCluster":   {"uid-of-template", false, true},
		"ItsTemplateGoes":       {"uid-of-template", true, false},
		"AnotherTemplateMadeIt": {"uid-of-another", false, false},
		"NoTemplateMadeIt":      {"", false, false},
	} {
		t.Run(claim, func(t *testing.T) {
			w, tpl := space("demo", "ann"), unplaced("demo", "ann")
			w.Annotations = map[string]string{tenantv1beta1.AnnotationTemplateUID: c.made}
			if c.going {
				tpl.Finalizers, tpl.DeletionTimestamp = []string{"example.com/held"}, &metav1.Time{Time: now}
			}
			member := &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("member", "demo")}
			f := newFixture(t, w, tpl, user("ann"), member, namespace("p1", "demo"))
			f.run("demo")
			f.Delete(space("demo", ""))
			f.run("demo")
			if f.Has(space("demo", "")) || (f.binding("member") != nil) != c.stay {
				t.Errorf("the workspace is held: %t; its member stays: %t", f.Has(space("demo", "")), f.binding("member") != nil)
			}
			if n := namespace("p1", ""); !f.Has(n) || n.Labels[tenantv1beta1.LabelWorkspace] != "" {
				t.Errorf("its namespace is %+v", n)
			}
		})
	}
}

// S9: after the template, what its manager had is swept.
func TestS9RightsOfADeletedTemplateAreSwept(t *testing.T) {
	old := named("old", "gone")
	old.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
	f := newFixture(t, &iamv1beta1.WorkspaceRoleBinding{ObjectMeta: old})
	f.runUnplaced("gone")
	if f.binding("old") != nil {
		t.Error("a right is left")
	}
}

func isEve(s rbacv1.Subject) bool { return s.Name == "eve" }
