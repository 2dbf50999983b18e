package role_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/mirror/mirrortest"
)

func of(workspace string) map[string]string {
	if workspace == "" {
		return nil
	}
	return map[string]string{"kubesphere.io/workspace": workspace}
}

func workspaceRole(name, workspace string) *iamv1beta1.WorkspaceRole {
	return &iamv1beta1.WorkspaceRole{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of(workspace)},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
			{Verbs: []string{"get"}, NonResourceURLs: []string{"*"}},
		},
	}
}

func workspaceRoleBinding(name, workspace, role string, subjects ...rbacv1.Subject) *iamv1beta1.WorkspaceRoleBinding {
	return &iamv1beta1.WorkspaceRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of(workspace)},
		RoleRef:    rbacv1.RoleRef{Kind: iamv1beta1.KindWorkspaceRole, Name: role},
		Subjects:   subjects,
	}
}

func namespace(name, workspace string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: of(workspace)}}
}

func user(name string) rbacv1.Subject { return rbacv1.Subject{Kind: "User", Name: name} }

func workspaceFixture(t *testing.T, objects ...client.Object) *mirrortest.Fixture {
	return mirrortest.New(t, kindOf("WorkspaceRole"), objects...)
}

func listPodsIn(namespace, user string, groups ...string) mirrortest.Request {
	return mirrortest.Request{User: user, Groups: groups, Verb: "list", Resource: "pods", Namespace: namespace}
}

func TestAWorkspaceRoleCountsInTheNamespacesOfItsWorkspace(t *testing.T) {
	f := workspaceFixture(t, workspaceRole("demo-viewer", "demo"), workspaceRoleBinding("b", "demo", "demo-viewer", user("ann")),
		namespace("p1", "demo"), namespace("p2", "demo"), namespace("q", "other"), namespace("kube-system", ""))
	if n := f.Written(func() { f.Reconcile("", "demo-viewer") }); n != 1+2 {
		t.Errorf("%d writes, want one role and a binding in each of two namespaces", n)
	}
	for r, want := range map[*mirrortest.Request]bool{
		new(listPodsIn("p1", "ann")):                                    true,
		new(listPodsIn("p2", "ann")):                                    true,
		new(listPodsIn("q", "ann")):                                     false,
		new(listPodsIn("kube-system", "ann")):                           false,
		new(listPodsIn("", "ann")):                                      false,
		new(listPodsIn("p1", "x", "kapis:workspace:demo:demo-viewer")):  true,
		new(listPodsIn("p1", "x", "kapis:workspace:other:demo-viewer")): false,
		{User: "ann", Verb: "get", Path: "/metrics"}:                    false,
	} {
		if got := f.Allowed(*r); got != want {
			t.Errorf("%+v: %t, want %t", *r, got, want)
		}
	}
	if n := f.Written(func() { f.Reconcile("", "demo-viewer") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

// workspaceRolesOf returns the roles that an event of the namespace makes the controller reconcile.
func workspaceRolesOf(f *mirrortest.Fixture, namespace client.Object) []types.NamespacedName {
	return kindOf("WorkspaceRole").Watches[0].Roles(ctx, f.Client, namespace)
}

// S9: when a namespace moves to another workspace, the rights in it change.
func TestS9ANamespaceThatMovesTakesItsRightsAlong(t *testing.T) {
	f := workspaceFixture(t, workspaceRole("a-viewer", "a"), workspaceRoleBinding("ba", "a", "a-viewer", user("ann")),
		workspaceRole("b-viewer", "b"), workspaceRoleBinding("bb", "b", "b-viewer", user("bob")), namespace("p", "a"))
	both := func() { f.Reconcile("", "a-viewer"); f.Reconcile("", "b-viewer") }
	both()
	if !f.Allowed(listPodsIn("p", "ann")) || f.Allowed(listPodsIn("p", "bob")) {
		t.Fatal("wrong before the move")
	}
	moved := []types.NamespacedName{}
	for _, n := range []*corev1.Namespace{namespace("p", "a"), namespace("p", "b")} { // an event has both
		moved = append(moved, workspaceRolesOf(f, n)...)
	}
	if !slices.Equal(moved, []types.NamespacedName{{Name: "a-viewer"}, {Name: "b-viewer"}}) {
		t.Errorf("the move touches %v", moved)
	}
	patch(t, f, namespace("p", ""), `{"metadata":{"labels":{"kubesphere.io/workspace":"b"}}}`)
	both()
	if f.Allowed(listPodsIn("p", "ann")) || !f.Allowed(listPodsIn("p", "bob")) {
		t.Error("wrong after the move")
	}
	patch(t, f, namespace("p", ""), `{"metadata":{"labels":null}}`)
	both()
	if f.Allowed(listPodsIn("p", "bob")) {
		t.Error("a namespace of no workspace gives workspace rights")
	}
}

func TestANamespaceBornLaterIsReachedByAllRolesOfItsWorkspace(t *testing.T) {
	f := workspaceFixture(t, workspaceRole("demo-viewer", "demo"), workspaceRole("demo-admin", "demo"), workspaceRole("other", "else"), workspaceRoleBinding("b", "demo", "demo-viewer", user("ann")))
	f.Reconcile("", "demo-viewer")
	must(t, f.Client.Create(ctx, namespace("p", "demo")))
	keys := workspaceRolesOf(f, namespace("p", "demo"))
	if len(keys) != 2 {
		t.Errorf("a new namespace touches %v", keys)
	}
	f.Reconcile("", "demo-viewer")
	if !f.Allowed(listPodsIn("p", "ann")) {
		t.Error("ann can't see the new namespace")
	}
	if keys := workspaceRolesOf(f, namespace("q", "")); keys != nil {
		t.Errorf("a namespace of no workspace touches %v", keys)
	}
}

// S6: a user who may bind in one workspace gets no rights in another one by that.
func TestS6ABindingOfAnotherWorkspaceGivesNothing(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"BindingOfAnother": {workspaceRole("r", "demo"), workspaceRoleBinding("b", "other", "r", user("eve"))},
		"BindingOfNone":    {workspaceRole("r", "demo"), workspaceRoleBinding("b", "", "r", user("eve"))},
		"RoleOfNone":       {workspaceRole("r", ""), workspaceRoleBinding("b", "", "r", user("eve"))},
	} {
		t.Run(name, func(t *testing.T) {
			f := workspaceFixture(t, append(objects, namespace("p", "demo"), namespace("q", "other"), namespace("kube-system", ""))...)
			f.Reconcile("", "r")
			for _, ns := range []string{"p", "q", "kube-system", ""} {
				if f.Allowed(listPodsIn(ns, "eve")) {
					t.Errorf("eve may list the pods of %q", ns)
				}
			}
		})
	}
}

func TestAConditionHoldsInEveryNamespace(t *testing.T) {
	r := workspaceRole("r", "demo")
	r.Annotations = map[string]string{iamv1beta1.AnnotationCELCondition: "false"}
	f := workspaceFixture(t, r, workspaceRoleBinding("b", "demo", "r", user("ann")), namespace("p", "demo"), namespace("q", "other"))
	f.Reconcile("", "r")
	if f.Allowed(listPodsIn("p", "ann")) || !f.Allowed(listPodsIn("p", "x", "kapis:conditional:workspace:r")) ||
		f.Allowed(listPodsIn("q", "x", "kapis:conditional:workspace:r")) {
		t.Error("a condition is not only its group's, in its workspace")
	}
}

func TestATerminatingNamespaceHoldsNothingUp(t *testing.T) {
	f := workspaceFixture(t, workspaceRole("r", "demo"), workspaceRoleBinding("b", "demo", "r", user("ann")), namespace("going", "demo"), namespace("p", "demo"))
	f.Refuse = func(verb string, o client.Object) error {
		if verb == "create" && o.GetNamespace() == "going" {
			e := apierrors.NewForbidden(rbacv1.Resource("rolebindings"), "x", nil)
			e.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return e
		}
		return nil
	}
	f.Reconcile("", "r")
	if !f.Allowed(listPodsIn("p", "ann")) {
		t.Error("the other namespace has no mirror")
	}
}

// U50: whatever is deleted, namespaces stay.
func TestU50NoNamespaceIsEverWritten(t *testing.T) {
	f := workspaceFixture(t, workspaceRole("r", "system-workspace"), workspaceRoleBinding("b", "system-workspace", "r", user("ann")), namespace("kube-system", "system-workspace"))
	f.Refuse = func(verb string, o client.Object) error {
		switch o.(type) {
		case *corev1.Namespace, *metav1.PartialObjectMetadata:
			t.Errorf("%s of namespace %s", verb, o.GetName())
		}
		return nil
	}
	f.Reconcile("", "r")
	f.Refuse = nil
	must(t, f.Client.Delete(ctx, workspaceRole("r", "")))
	f.Reconcile("", "r")
	must(t, f.Client.Get(ctx, types.NamespacedName{Name: "kube-system"}, &corev1.Namespace{}))
	if n := f.Natives(); n != 0 {
		t.Errorf("%d native objects outlived their role", n)
	}
}

// A workspace's role also gives rights to its cluster-scoped objects, but to the group that only ks-apiserver asserts, which has compared
// the object's label. With their own kubeconfig users have no such right, since kube-apiserver can't restrict it to the workspace.
func TestTheRoleReachesWhatTheWorkspaceHasOutsideOfNamespaces(t *testing.T) {
	r := workspaceRole("demo-admin", "demo")
	r.Rules = append(r.Rules,
		rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"workspacemembers", "workspaces", "workspaceroles"}},
		rbacv1.PolicyRule{Verbs: []string{"create", "update"}, APIGroups: []string{"tenant.kubesphere.io"}, Resources: []string{"namespaces"}},
		rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{"iam.kubesphere.io"}, Resources: []string{"namespacemembers"}})
	f := workspaceFixture(t, r, workspaceRoleBinding("b", "demo", "demo-admin", user("ann")), namespace("p", "demo"), namespace("q", "other"))
	f.Reconcile("", "demo-admin")
	const iam, tenant, group, others = "iam.kubesphere.io", "tenant.kubesphere.io", "kapis:workspace:demo:demo-admin", "kapis:workspace:other:demo-admin"
	for name, c := range map[string]struct {
		request mirrortest.Request
		want    bool
	}{
		"InvitesByABinding": {mirrortest.Request{Groups: []string{group}, Verb: "create", APIGroup: iam, Resource: "workspacerolebindings"}, true},
		"WritesItsRoles":    {mirrortest.Request{Groups: []string{group}, Verb: "patch", APIGroup: iam, Resource: "workspaceroles", Name: "demo-x"}, true},
		"NotByEscalation":   {mirrortest.Request{Groups: []string{group}, Verb: "escalate", APIGroup: iam, Resource: "workspaceroles", Name: "demo-x"}, false},
		"ReadsItself":       {mirrortest.Request{Groups: []string{group}, Verb: "get", APIGroup: tenant, Resource: "workspaces", Name: "demo"}, true},
		"EditsItsTemplate": {mirrortest.Request{Groups: []string{group}, Verb: "patch", APIGroup: tenant, Resource: "workspacetemplates", Name: "demo"},
			true},
		"NotAnothers":           {mirrortest.Request{Groups: []string{group}, Verb: "get", APIGroup: tenant, Resource: "workspaces", Name: "other"}, false},
		"MakesNone":             {mirrortest.Request{Groups: []string{group}, Verb: "create", APIGroup: tenant, Resource: "workspaces"}, false},
		"MakesNamespaces":       {mirrortest.Request{Groups: []string{group}, Verb: "create", Resource: "namespaces"}, true},
		"WritesItsNamespaces":   {mirrortest.Request{Groups: []string{group}, Verb: "patch", Resource: "namespaces", Namespace: "p", Name: "p"}, true},
		"NotAnothersNamespaces": {mirrortest.Request{Groups: []string{group}, Verb: "patch", Resource: "namespaces", Namespace: "q", Name: "q"}, false},
		"NorDeletesThem":        {mirrortest.Request{Groups: []string{group}, Verb: "delete", Resource: "namespaces", Namespace: "p", Name: "p"}, false},
		"ChangesMembersThere": {mirrortest.Request{Groups: []string{group}, Verb: "delete", APIGroup: iam, Resource: "rolebindings", Namespace: "p", Name: "x"},
			true},
		"ButNotElsewhere": {mirrortest.Request{Groups: []string{group}, Verb: "delete", APIGroup: iam, Resource: "rolebindings", Namespace: "q", Name: "x"},
			false},
		"NothingByTheUsersOwnName": {mirrortest.Request{User: "ann", Verb: "create", APIGroup: iam, Resource: "workspacerolebindings"}, false},
		"NorNamespaces":            {mirrortest.Request{User: "ann", Verb: "create", Resource: "namespaces"}, false},
		"NothingForAnotherGroup":   {mirrortest.Request{Groups: []string{others}, Verb: "create", APIGroup: iam, Resource: "workspacerolebindings"}, false},
		"AndNoOtherKind":           {mirrortest.Request{Groups: []string{group}, Verb: "get", Resource: "nodes"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := f.Allowed(c.request); got != c.want {
				t.Errorf("%+v: %t", c.request, got)
			}
		})
	}
	if n := f.Written(func() { f.Reconcile("", "demo-admin") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
	must(t, f.Client.Delete(ctx, workspaceRoleBinding("b", "demo", "", user("ann"))))
	f.Reconcile("", "demo-admin")
	if n := f.Natives(); n != 0 {
		t.Errorf("%d native objects outlived the binding", n)
	}
}
