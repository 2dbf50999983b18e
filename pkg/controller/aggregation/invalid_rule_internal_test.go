package aggregation

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// A record of an earlier version is read, and written in the new form.
func TestARecordOfAnEarlierVersionIsRead(t *testing.T) { // S62
	from, own := rbacv1.PolicyRule{Verbs: []string{"get"}}, rbacv1.PolicyRule{Verbs: []string{"list"}}
	role := &iamv1beta1.GlobalRole{
		ObjectMeta:               metav1.ObjectMeta{Annotations: map[string]string{AnnotationRecord: `{"rules":["` + earlierFingerprint(&from) + `"]}`}},
		AggregationRoleTemplates: &iamv1beta1.AggregationRoleTemplates{}, Rules: []rbacv1.PolicyRule{own, from},
	}
	changed, err := Aggregate(Role{Meta: role, Templates: role.AggregationRoleTemplates, Rules: &role.Rules}, nil)
	if err != nil || !changed || len(role.Rules) != 1 || role.Rules[0].Verbs[0] != "list" || role.Annotations[AnnotationRecord] != "{}" {
		t.Errorf("%t, %v: %v %v", changed, err, role.Rules, role.Annotations)
	}
}
