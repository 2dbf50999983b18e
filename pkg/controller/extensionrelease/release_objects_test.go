package extensionrelease_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

func TestObjectsAreThoseThatKubeAPIServerAuthorizes(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	mapper.Add(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), meta.RESTScopeRoot)
	objects, hooks, unknown, err := extensionrelease.Objects(mapper, "extension-shop", []helm.Object{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "web"},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "before", Namespace: "other", Hook: true},
		{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "all", Namespace: "ignored"},
		{APIVersion: "example.com/v1", Kind: "Shop", Name: "mine"},
		{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition", Name: "shops.example.com",
			Defines: &helm.Definition{Group: "example.com", Kind: "Shop", Resource: "shops", Namespaced: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []permission.Object{{Resource: "configmaps", Namespace: "extension-shop", Name: "web"},
		{Group: "rbac.authorization.k8s.io", Resource: "clusterroles", Name: "all"},
		{Group: "example.com", Resource: "shops", Namespace: "extension-shop", Name: "mine"}}
	same := func(a, b permission.Object) bool {
		return a.Group == b.Group && a.Resource == b.Resource && a.Namespace == b.Namespace && a.Name == b.Name
	}
	if !slices.EqualFunc(objects, want, same) {
		t.Errorf("objects are %+v, want %+v", objects, want)
	}
	if len(hooks) != 1 || hooks[0].Namespace != "other" || hooks[0].Name != "before" {
		t.Errorf("hooks are %+v", hooks)
	}
	if len(unknown) != 1 {
		t.Errorf("unknown are %q", unknown)
	}
}
