package account_test

import (
	"reflect"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"kapis.dev/ks-apiserver/pkg/kubeconfig/account"
)

const bob = "0b0b0b0b-1111-4222-8333-444444444444"

// The admission policies in config/rbac have the same shape.
func TestAServiceAccountIsThatOfOneUID(t *testing.T) {
	sa := account.New("bob (Ü)", bob, time.Unix(1_800_000_000, 0))
	if sa.Namespace != "kubesphere-kubeconfigs" || sa.Name != "user-"+bob || *sa.AutomountServiceAccountToken ||
		!reflect.DeepEqual(sa.Labels, map[string]string{"kubeconfig.kapis.dev/user-uid": bob}) ||
		!reflect.DeepEqual(sa.Annotations, map[string]string{"kubeconfig.kapis.dev/user": "bob (Ü)", "kubeconfig.kapis.dev/expires": "2027-01-15T08:00:00Z"}) {
		t.Errorf("%+v", sa)
	}
	for name, want := range map[string]string{"user-" + bob: bob, "default": "", "user-": "", "user-bob": "", "user-" + bob + "-": "", bob: "",
		"user-user-" + bob: "", "user-0B0B0B0B-1111-4222-8333-444444444444": "", "user-" + bob + "\n": ""} {
		if got := account.UID(name); got != want {
			t.Errorf("%q is the service account of %q", name, got)
		}
		if got := account.OfRole("kubesphere:kubeconfig:" + name); (got != "") != (want != "") || got != "" && got != name {
			t.Errorf("the role of %q is that of %q", name, got)
		}
	}
	if got := account.OfRole("kubesphere:iam:user-" + bob); got != "" {
		t.Errorf("another role is that of %q", got)
	}
}

func TestAServiceAccountImpersonatesItsUserAlone(t *testing.T) {
	role, binding := account.Grant("bob", bob)
	if want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"bob"},
		Verbs: []string{"impersonate"}}}; !reflect.DeepEqual(role.Rules, want) {
		t.Errorf("%+v", role.Rules)
	}
	if s := binding.Subjects; role.Name != "kubesphere:kubeconfig:user-"+bob || binding.RoleRef.Name != role.Name || binding.RoleRef.Kind != "ClusterRole" ||
		len(s) != 1 || s[0] != (rbacv1.Subject{Kind: "ServiceAccount", Namespace: account.Namespace, Name: "user-" + bob}) {
		t.Errorf("%+v", binding)
	}
}
