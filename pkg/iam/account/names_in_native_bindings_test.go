package account

import (
	"errors"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/idp"
)

func named(kind, name string) []rbacv1.Subject { return []rbacv1.Subject{{Kind: kind, Name: name}} }

// An administrator may have bound a native ClusterRole to a name: a new User of that name would get its rights.
func TestNobodyIsGivenANameThatANativeBindingHas(t *testing.T) {
	kube := fake.NewClientset(
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "root"}, Subjects: named("User", "carol")},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}, Subjects: named("User", "dave")},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "g"}, Subjects: named("Group", "erin")})
	now := iamtest.Start()
	native := &NativeNames{Client: kube.RbacV1(), Now: func() time.Time { return now }}
	for name, want := range map[string]bool{"carol": true, "dave": true, "erin": false, "frank": false} {
		if has, err := native.Has(t.Context(), name); err != nil || has != want {
			t.Errorf("%s: %t, %v", name, has, err)
		}
	}
	for name, want := range map[string]bool{"carol": false, "erin": true, "frank": false} {
		if has, err := native.HasGroup(t.Context(), name); err != nil || has != want {
			t.Errorf("the group %s: %t, %v", name, has, err)
		}
	}
	if n := len(kube.Actions()); n != 2 {
		t.Errorf("%d requests for seven questions", n)
	}
	users := iamtest.NewUserAPI()
	a := accounts(users)
	a.NamedNatively = native.Has
	if _, err := a.Register(t.Context(), iam.Registration{Provider: "corp", Subject: "1"}, "carol", ""); err == nil {
		t.Error("registered as carol")
	}
	u, _, err := a.Resolve(t.Context(), &idp.Entry{Name: "corp", Mapping: idp.MapAuto}, &idp.Identity{Subject: "1", Username: "dave"})
	if err != nil || u.Name == "dave" {
		t.Errorf("%v, %v", u, err)
	}
	// A check that fails gives no permission.
	now = now.Add(nativeFor)
	kube.PrependReactor("list", "rolebindings", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no connection")
	})
	if _, err := a.Register(t.Context(), iam.Registration{Provider: "corp", Subject: "2"}, "frank", ""); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
