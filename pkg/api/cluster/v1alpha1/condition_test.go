package v1alpha1_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

func TestAClusterSaysWhyNoRequestIsSentToIt(t *testing.T) {
	condition := func(status corev1.ConditionStatus, message string) []v1alpha1.ClusterCondition {
		return []v1alpha1.ClusterCondition{
			{Type: v1alpha1.ClusterInitialized, Status: corev1.ConditionTrue},
			{Type: v1alpha1.ClusterReady, Status: status, Message: message},
		}
	}
	for claim, c := range map[string]struct {
		conditions        []v1alpha1.ClusterCondition
		disabled, leaving bool
		want              string
	}{
		"Ready":                 {conditions: condition(corev1.ConditionTrue, "linked")},
		"NotLinked":             {conditions: condition(corev1.ConditionFalse, "no link"), want: "no link"},
		"UnknownWithoutMessage": {conditions: condition(corev1.ConditionUnknown, ""), want: "it is not ready"},
		"NotJoined":             {conditions: condition(corev1.ConditionTrue, "")[:1], want: "it has not joined yet"},
		"Disabled":              {conditions: condition(corev1.ConditionTrue, ""), disabled: true, want: "it is disabled (spec.enable)"},
		"Leaving":               {conditions: condition(corev1.ConditionTrue, ""), leaving: true, want: "it is leaving the fleet"},
	} {
		t.Run(claim, func(t *testing.T) {
			is := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Enable: !c.disabled}, Status: v1alpha1.ClusterStatus{Conditions: c.conditions}}
			if c.leaving {
				is.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			if got := is.WhyNotReady(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAConditionIsChangedInItsStatus(t *testing.T) {
	s := &v1alpha1.ClusterStatus{Conditions: []v1alpha1.ClusterCondition{{Type: v1alpha1.ClusterReady, Status: corev1.ConditionFalse}}}
	if s.IsTrue(v1alpha1.ClusterReady) || s.IsTrue(v1alpha1.ClusterSynced) || s.Condition(v1alpha1.ClusterSynced) != nil {
		t.Errorf("a condition that is false, or unknown, is true: %+v", s.Conditions)
	}
	s.Condition(v1alpha1.ClusterReady).Status = corev1.ConditionTrue
	if !s.IsTrue(v1alpha1.ClusterReady) {
		t.Errorf("after the change it is %+v", s.Conditions)
	}
}
