package cluster

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

func person(name, granted string, groups ...string) *iamv1beta1.User {
	u := &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: iamv1beta1.UserSpec{Groups: groups}}
	if granted != "" {
		u.Annotations = map[string]string{iamv1beta1.AnnotationGrantedClusters: granted}
	}
	return u
}

func binding(name, kind, who string) *iamv1beta1.ClusterRoleBinding {
	return &iamv1beta1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{{Kind: kind, Name: who}}}
}

// D5: a user's annotation names the cluster as long as a role of the cluster is bound to the user, or to a group of the user.
func TestD5UsersWithARoleOfTheClusterAreToldSo(t *testing.T) {
	c := controllertest.New(t, func(b *fake.ClientBuilder) { b.WithIndex(&iamv1beta1.ClusterRoleBinding{}, subjectField, subjectsOf) },
		person("gina", "", "ops"), person("dora", "host"), person("bob", "zone,host, a"), person("team", "", "devs"),
		binding("gina-viewer", "User", "gina"), binding("devs-viewer", "Group", "devs"), binding("account", "ServiceAccount", "dora"))
	r := &GrantedReconciler{Client: c.Client, Host: "host"}
	check := func(want map[string]string) {
		t.Helper()
		for name, granted := range want {
			c.Reconcile(r, name)
			u := person(name, "")
			if !c.Has(u) || u.Annotations[iamv1beta1.AnnotationGrantedClusters] != granted {
				t.Errorf("%s has %v, want %q", name, u.Annotations, granted)
			}
			if _, ok := u.Annotations[iamv1beta1.AnnotationGrantedClusters]; ok && granted == "" {
				t.Errorf("%s has an empty annotation", name)
			}
			if n := c.Written(func() { c.Reconcile(r, name) }); n != 0 {
				t.Errorf("a second time wrote %d times", n)
			}
		}
	}
	check(map[string]string{"gina": "host", "dora": "", "bob": "a,zone", "team": "host"})
	c.Delete(binding("gina-viewer", "", ""))
	c.Delete(binding("devs-viewer", "", ""))
	check(map[string]string{"gina": "", "team": ""}) // S9
	for _, one := range []struct {
		binding *iamv1beta1.ClusterRoleBinding
		want    string
	}{{binding("x", "User", "bob"), "bob"}, {binding("x", "Group", "devs"), "team"}} {
		if got := r.bound(t.Context(), one.binding); len(got) != 1 || got[0].Name != one.want {
			t.Errorf("%v touches %v", one.binding.Subjects, got)
		}
	}
	if got := subjectsOf(binding("x", "ServiceAccount", "y")); slices.Contains(got, "User:y") || len(got) > 0 {
		t.Errorf("an account is %v", got)
	}
	c.Reconcile(r, "nobody")
}

// The key of a subject in the index is of that kind and name alone: of the kinds that have one, none has a colon.
func TestSubjectsAreToldApart(t *testing.T) { // S62
	names := []string{"", "a", "User:a", "Group:a", ":", "a:b", "roup:User:a"}
	seen := map[string][2]string{}
	for _, kind := range []string{rbacv1.UserKind, rbacv1.GroupKind, rbacv1.ServiceAccountKind, "User:Group", ""} {
		for _, name := range names {
			for _, key := range subjectsOf(binding("b", kind, name)) {
				if of, ok := seen[key]; ok {
					t.Errorf("%q is the key of %q and of %q", key, of, [2]string{kind, name})
				}
				seen[key] = [2]string{kind, name}
			}
		}
	}
	if len(seen) != 2*len(names) {
		t.Errorf("%d keys, want those of users and groups", len(seen))
	}
}
