package role_test

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/mirror/mirrortest"
)

func namespacedRole(namespace, name string) *iamv1beta1.Role {
	return &iamv1beta1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
		},
	}
}

func namespacedRoleBinding(namespace, role, user string) *iamv1beta1.RoleBinding {
	return &iamv1beta1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"},
		RoleRef:    rbacv1.RoleRef{Kind: iamv1beta1.KindRole, Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: user}},
	}
}

func TestARoleCountsInItsNamespaceOnly(t *testing.T) {
	f := mirrortest.New(t, kindOf("Role"), namespacedRole("p", "admin"), namespacedRole("q", "admin"), namespacedRoleBinding("p", "admin", "ann"), namespacedRoleBinding("q", "admin", "bob"))
	if n := f.Written(func() { f.Reconcile("p", "admin") }); n != 2 {
		t.Errorf("%d writes, want a role and a binding", n)
	}
	ask := func(user, namespace string, groups ...string) mirrortest.Request {
		return mirrortest.Request{User: user, Groups: groups, Verb: "delete", Resource: "pods", Namespace: namespace}
	}
	for r, want := range map[*mirrortest.Request]bool{
		new(ask("ann", "p")):                          true,
		new(ask("ann", "q")):                          false,
		new(ask("ann", "")):                           false,
		new(ask("bob", "p")):                          false,
		new(ask("x", "p", "kapis:namespace:admin")):   true,
		new(ask("x", "q", "kapis:namespace:admin")):   false, // not reconciled, so it does not exist
		{User: "ann", Verb: "get", Path: "/metrics"}:  false,
		{User: "ann", Verb: "get", Resource: "nodes"}: false,
	} {
		if got := f.Allowed(*r); got != want {
			t.Errorf("%+v: %t, want %t", *r, got, want)
		}
	}
	native := &rbacv1.Role{}
	if err := f.Client.Get(context.Background(), types.NamespacedName{Namespace: "p", Name: "kubesphere:iam:admin"}, native); err != nil {
		t.Fatal(err)
	}
	if n := f.Written(func() { f.Reconcile("p", "admin") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

func TestAConditionIsTheGroupsInTheNamespaceOnly(t *testing.T) {
	r := namespacedRole("p", "admin")
	r.Annotations = map[string]string{iamv1beta1.AnnotationCELCondition: "true"}
	f := mirrortest.New(t, kindOf("Role"), r, namespacedRoleBinding("p", "admin", "ann"))
	f.Reconcile("p", "admin")
	ask := mirrortest.Request{User: "ann", Verb: "delete", Resource: "pods", Namespace: "p"}
	if f.Allowed(ask) {
		t.Error("a right without the condition")
	}
	ask.Groups = []string{"kapis:conditional:namespace:p:admin"}
	if !f.Allowed(ask) {
		t.Error("no right with it")
	}
	ask.Namespace = "q"
	if f.Allowed(ask) {
		t.Error("a namespace's role counts in another one")
	}
}

// S9: deleting a role and its binding, in any order, leaves no native objects.
func TestS9NothingIsLeftInAnyOrder(t *testing.T) {
	for name, roleFirst := range map[string]bool{"RoleFirst": true, "BindingFirst": false} {
		t.Run(name, func(t *testing.T) {
			f := mirrortest.New(t, kindOf("Role"), namespacedRole("p", "admin"), namespacedRoleBinding("p", "admin", "ann"))
			f.Reconcile("p", "admin")
			for _, isRole := range []bool{roleFirst, !roleFirst} {
				var err error
				if isRole {
					err = f.Client.Delete(context.Background(), namespacedRole("p", "admin"))
				} else {
					err = f.Client.Delete(context.Background(), namespacedRoleBinding("p", "admin", "ann"))
				}
				if err != nil {
					t.Fatal(err)
				}
				f.Reconcile("p", "admin")
				if n := f.Natives(); n != 0 {
					t.Errorf("%d native objects are left", n)
				}
			}
		})
	}
}
