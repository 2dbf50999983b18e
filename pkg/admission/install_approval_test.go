package admission_test

import (
	"context"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

func TestWhoMayApproveAnInstallation(t *testing.T) { // X18
	rule := func(verb, group, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
	}
	everythingInNamespaces := []rbacv1.PolicyRule{rule("*", "*", "*")}
	asks := func(change func(*admission.Installation)) *admission.Installation {
		i := &admission.Installation{Plan: "shop", Namespace: "extension-shop", ClusterRules: []rbacv1.PolicyRule{rule("get", "", "nodes")},
			Rules: []rbacv1.PolicyRule{rule("*", "apps", "*")}}
		if change != nil {
			change(i)
		}
		return i
	}
	nothingMore := func(i *admission.Installation) { i.ClusterRules = nil }
	for _, tt := range []struct {
		claim           string
		global, cluster []rbacv1.PolicyRule
		inNamespace     []rbacv1.PolicyRule
		installation    *admission.Installation
		may             bool
	}{
		{claim: "an administrator", global: everythingInNamespaces, installation: asks(nil), may: true},
		{claim: "who holds nothing", installation: asks(nil)},
		{claim: "who may write plans", global: []rbacv1.PolicyRule{rule("*", "kubesphere.io", "*")}, installation: asks(nil)},
		{claim: "who may write plans of any group", global: []rbacv1.PolicyRule{rule("*", "*", "installplans")}, installation: asks(nil)},
		{claim: "who may approve", global: []rbacv1.PolicyRule{rule("approve", "kubesphere.io", "installplans")}, installation: asks(nil), may: true},
		{claim: "who may approve this plan", global: []rbacv1.PolicyRule{rule("approve", "kubesphere.io", "installplans", "shop")}, installation: asks(nil), may: true},
		{claim: "who may approve another plan", global: []rbacv1.PolicyRule{rule("approve", "kubesphere.io", "installplans", "other")}, installation: asks(nil)},
		{claim: "who holds what it asks for", cluster: []rbacv1.PolicyRule{rule("get", "", "nodes"), rule("*", "apps", "*")}, installation: asks(nil), may: true},
		{claim: "who holds it in the namespace", inNamespace: []rbacv1.PolicyRule{rule("*", "apps", "*")}, installation: asks(nothingMore), may: true},
		{claim: "who holds the cluster's in the namespace alone", inNamespace: everythingInNamespaces, installation: asks(nil)},
		{claim: "who holds less than a star", cluster: []rbacv1.PolicyRule{rule("get", "", "nodes"), rule("*", "apps", "deployments")}, installation: asks(nil)},
		{claim: "into the system", cluster: []rbacv1.PolicyRule{rule("get", "", "nodes"), rule("*", "apps", "*")},
			installation: asks(func(i *admission.Installation) { i.Namespace = "kube-system" })},
		{claim: "into the namespace of another extension", cluster: []rbacv1.PolicyRule{rule("get", "", "nodes"), rule("*", "apps", "*")},
			installation: asks(func(i *admission.Installation) { i.Namespace = "extension-other" })},
	} {
		t.Run(tt.claim, func(t *testing.T) {
			objects := map[key]*object{}
			for _, at := range []struct {
				kind, namespace string
				rules           []rbacv1.PolicyRule
			}{{"globalrole", "", tt.global}, {"clusterrole", "", tt.cluster}, {"role", "extension-shop", tt.inNamespace}} {
				kind := map[string]string{"globalrole": "GlobalRole", "clusterrole": "ClusterRole", "role": "Role"}[at.kind]
				meta := metav1.ObjectMeta{Namespace: at.namespace, Name: "given"}
				objects[key{at.kind + "s", at.namespace, "given"}] = &object{Metadata: meta, Rules: at.rules}
				objects[key{at.kind + "bindings", at.namespace, "given"}] = &object{Metadata: meta,
					RoleRef:  &rbacv1.RoleRef{APIGroup: iamv1beta1.GroupName, Kind: kind, Name: "given"},
					Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ann"}}}
			}
			for _, name := range []string{"extension-shop", "extension-other"} {
				objects[key{"namespaces", "", name}] = &object{Metadata: metav1.ObjectMeta{Name: name, Labels: inWorkspace(tenantv1beta1.SystemWorkspace)}}
			}
			missing, err := newPlatform(t, objects).guard.MissingToApprove(t.Context(), &user.DefaultInfo{Name: "ann"}, tt.installation)
			if err != nil || (len(missing) == 0) != tt.may {
				t.Errorf("got %v, %v", missing, err)
			}
		})
	}
}

func TestAnAdministratorOfKubernetesApproves(t *testing.T) { // X18
	guard := newPlatform(t, nil).guard
	i := &admission.Installation{Plan: "shop", Namespace: "extension-shop", ClusterRules: []rbacv1.PolicyRule{{
		Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}}
	root := &user.DefaultInfo{Name: "system:admin"}
	if missing, err := guard.MissingToApprove(t.Context(), root, i); err != nil || len(missing) != 1 {
		t.Errorf("who is not known: %v %v", missing, err)
	}
	if missing, err := guard.MissingToApprove(t.Context(), nil, i); err != nil || len(missing) == 0 {
		t.Errorf("nobody: %v %v", missing, err)
	}
	var asked []string
	guard.Native = func(_ context.Context, u user.Info, verb string, gvr schema.GroupVersionResource, namespace, name string) (bool, error) {
		asked = append(asked, u.GetName(), verb, gvr.Group, gvr.Resource, namespace, name)
		return true, nil
	}
	if missing, err := guard.MissingToApprove(t.Context(), root, i); err != nil || len(missing) > 0 ||
		!slices.Equal(asked, []string{"system:admin", "approve", "kubesphere.io", "installplans", "", "shop"}) {
		t.Errorf("who may at kube-apiserver: %v %v %q", missing, err, asked)
	}
}
