package aggregation_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
)

func TestRulesWithWrongWordsAreLeftOut(t *testing.T) { // S63
	wrong, good, own := rbacv1.PolicyRule{Verbs: []string{"get],x:["}}, rbacv1.PolicyRule{Verbs: []string{"get"}}, rbacv1.PolicyRule{Verbs: []string{"list"}}
	template := iamv1beta1.RoleTemplate{Spec: iamv1beta1.RoleTemplateSpec{Rules: []rbacv1.PolicyRule{wrong, good}}}
	template.Name = "t"
	role := &iamv1beta1.GlobalRole{
		ObjectMeta:               metav1.ObjectMeta{Annotations: map[string]string{aggregation.AnnotationRecord: "{}"}},
		AggregationRoleTemplates: &iamv1beta1.AggregationRoleTemplates{TemplateNames: []string{"t"}}, Rules: []rbacv1.PolicyRule{own, wrong},
	}
	of := aggregation.Role{Meta: role, Templates: role.AggregationRoleTemplates, Rules: &role.Rules}
	for want := range 2 { // the second time, there is nothing to do
		changed, err := aggregation.Aggregate(of, []iamv1beta1.RoleTemplate{template})
		if err != nil || changed != (want == 0) {
			t.Errorf("%t, %v", changed, err)
		}
		if !slices.EqualFunc(role.Rules, []rbacv1.PolicyRule{own, good}, func(a,
			b rbacv1.PolicyRule) bool {
			return iamv1beta1.RuleKey(&a) == iamv1beta1.RuleKey(&b)
		}) {
			t.Errorf("%v", role.Rules)
		}
	}
	// A role that needs no other write keeps the rules that it has.
	role.Rules = append(role.Rules[:0:0], own, good, wrong)
	if changed, err := aggregation.Aggregate(of, []iamv1beta1.RoleTemplate{template}); changed || err != nil || len(role.Rules) != 3 {
		t.Errorf("%t, %v, %v", changed, err, role.Rules)
	}
}
