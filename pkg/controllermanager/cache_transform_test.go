package controllermanager

import (
	"reflect"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

func TestEqualRulesAreKeptOnce(t *testing.T) {
	list := func(verb string) []rbacv1.PolicyRule {
		return append(make([]rbacv1.PolicyRule, 0, 4), rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}})
	}
	f := transform()
	meta := metav1.ObjectMeta{Name: "viewer", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}
	of := map[string]func(rules []rbacv1.PolicyRule) (any, *[]rbacv1.PolicyRule){
		"GlobalRole": func(r []rbacv1.PolicyRule) (any, *[]rbacv1.PolicyRule) {
			o := &iamv1beta1.GlobalRole{ObjectMeta: meta, Rules: r}
			return o, &o.Rules
		},
		"WorkspaceRole": func(r []rbacv1.PolicyRule) (any, *[]rbacv1.PolicyRule) {
			o := &iamv1beta1.WorkspaceRole{ObjectMeta: meta, Rules: r}
			return o, &o.Rules
		},
		"ClusterRole": func(r []rbacv1.PolicyRule) (any, *[]rbacv1.PolicyRule) {
			o := &iamv1beta1.ClusterRole{ObjectMeta: meta, Rules: r}
			return o, &o.Rules
		},
		"Role": func(r []rbacv1.PolicyRule) (any, *[]rbacv1.PolicyRule) {
			o := &iamv1beta1.Role{ObjectMeta: meta, Rules: r}
			return o, &o.Rules
		},
		"NativeClusterRole": func(r []rbacv1.PolicyRule) (any, *[]rbacv1.PolicyRule) {
			o := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: r}
			return o, &o.Rules
		},
		"NativeRole": func(r []rbacv1.PolicyRule) (any, *[]rbacv1.PolicyRule) {
			o := &rbacv1.Role{ObjectMeta: meta, Rules: r}
			return o, &o.Rules
		},
	}
	first := list("get")
	if _, err := f(&rbacv1.Role{Rules: first}); err != nil {
		t.Fatal(err)
	}
	for name, make := range of {
		t.Run(name, func(t *testing.T) {
			for verb, same := range map[string]bool{"get": true, name: false} {
				o, rules := make(list(verb))
				got, err := f(o)
				if err != nil || got != o || len(got.(metav1.Object).GetManagedFields()) > 0 {
					t.Fatalf("%+v, %v", got, err)
				}
				if shared := &(*rules)[0] == &first[0]; shared != same || !reflect.DeepEqual(*rules, list(verb)) || cap(*rules) != 1 {
					t.Errorf("%s: shared %t, %+v", verb, shared, *rules)
				}
			}
		})
	}
	if none, err := f(&rbacv1.Role{}); err != nil || none.(*rbacv1.Role).Rules != nil {
		t.Errorf("%+v, %v", none, err)
	}
}
