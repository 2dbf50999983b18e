package defaults_test

import (
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/defaults"
	"kapis.dev/ks-apiserver/pkg/kube"
)

func TestAMemberGetsTheRolesOfEveryInstallation(t *testing.T) {
	objects, err := defaults.Objects()
	if err != nil {
		t.Fatal(err)
	}
	seen, kinds := map[string]bool{}, map[string]int{}
	for _, o := range objects {
		key := o.GetKind() + "/" + o.GetName()
		if seen[key] || o.GetName() == "" || o.GetNamespace() != "" {
			t.Errorf("%s is there twice, or is in the namespace %q", key, o.GetNamespace())
		}
		seen[key] = true
		kinds[o.GetKind()]++
		if o.GetLabels()["app.kubernetes.io/part-of"] != "ks-apiserver" {
			t.Errorf("%s is not known as this project's", key)
		}
	}
	for _, key := range []string{"GlobalRole/platform-admin", "GlobalRoleBinding/platform-admin", "GlobalRole/authenticated", "ClusterRole/cluster-admin",
		"Workspace/system-workspace"} {
		if !seen[key] {
			t.Errorf("%s is missing", key)
		}
	}
	if kinds["RoleTemplate"] < 60 || kinds["BuiltinRole"] == 0 || kinds["Category"] == 0 || kinds["WorkspaceTemplate"] != 0 {
		t.Error(kinds)
	}
}

// start makes the objects as a replica does that has just become the leader.
func start(t *testing.T, c client.Client) {
	t.Helper()
	if err := (&defaults.Runnable{Client: c, Live: c, Namespace: "kubesphere-system"}).Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// there reads an object by its name.
func there(t *testing.T, c client.Client, name string, o client.Object) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKey{Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

// S6: who has a role from the start is decided once. A user who is given the name admin later has nothing by it.
func TestS6WhoHasARoleFromTheStartIsDecidedOnce(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).Build()
	start(t, c)
	binding, everybody := &iamv1beta1.GlobalRoleBinding{}, &iamv1beta1.GlobalRoleBinding{}
	role, workspace := &iamv1beta1.GlobalRole{}, &tenantv1beta1.Workspace{}
	if !there(t, c, "platform-admin", binding) || !there(t, c, "authenticated", everybody) || !there(t, c, "platform-admin", role) ||
		!there(t, c, "system-workspace", workspace) || workspace.Spec.Manager != "admin" || len(binding.Subjects) != 1 {
		t.Fatalf("%+v %+v", binding, workspace)
	}
	everybody.Subjects, workspace.Spec.Manager, role.Rules = []rbacv1.Subject{{Kind: "Group", Name: "staff"}}, "ann", nil
	for _, err := range []error{c.Delete(t.Context(), binding), c.Update(t.Context(), everybody), c.Update(t.Context(), workspace),
		c.Update(t.Context(), role)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	start(t, c)
	if there(t, c, "platform-admin", &iamv1beta1.GlobalRoleBinding{}) {
		t.Error("a binding that was deleted is there again")
	}
	if there(t, c, "authenticated", everybody); everybody.Subjects[0].Name != "staff" {
		t.Errorf("a binding that was changed has %v", everybody.Subjects)
	}
	if there(t, c, "system-workspace", workspace); workspace.Spec.Manager != "ann" {
		t.Errorf("the manager is %q again", workspace.Spec.Manager)
	}
	if there(t, c, "platform-admin", role); len(role.Rules) == 0 {
		t.Error("the rules of a role are not brought up to date")
	}
	if err := c.Delete(t.Context(), workspace); err != nil {
		t.Fatal(err)
	}
	start(t, c)
	if there(t, c, "system-workspace", workspace) {
		t.Error("a workspace that was deleted is there again")
	}
	// hack/uninstall.sh takes away the roles and bindings: what names no user is there after the next installation.
	if err := errors.Join(c.Delete(t.Context(), role), c.Delete(t.Context(), everybody)); err != nil {
		t.Fatal(err)
	}
	start(t, c)
	if there(t, c, "platform-admin", &iamv1beta1.GlobalRoleBinding{}) || !there(t, c, "authenticated", &iamv1beta1.GlobalRoleBinding{}) {
		t.Error("admin administers it again, or nobody may what everybody may")
	}
}

// S6: in an installation of an earlier version, which noted nothing, what is missing was deleted.
func TestS6AnEarlierInstallationGetsNoAdministratorBack(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(
		&iamv1beta1.GlobalRole{ObjectMeta: metav1.ObjectMeta{Name: "platform-admin"}},
		&tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "system-workspace"}, Spec: tenantv1beta1.WorkspaceSpec{Manager: "ann"}}).Build()
	start(t, c)
	workspace := &tenantv1beta1.Workspace{}
	if there(t, c, "platform-admin", &iamv1beta1.GlobalRoleBinding{}) || !there(t, c, "system-workspace", workspace) || workspace.Spec.Manager != "ann" {
		t.Errorf("admin administers it, or the manager %q is another one", workspace.Spec.Manager)
	}
	if !there(t, c, "authenticated", &iamv1beta1.GlobalRoleBinding{}) {
		t.Error("a binding that names no user is missing")
	}
}
