package installplan_test

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/installapproval"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

// X6, X18: hosts are named and approved in each cluster: who approved on the hub has not seen those that somebody names in a member.
func TestX6NobodyOfTheHubApprovesHostsOfAMember(t *testing.T) {
	w := newWorld(t, &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "ann", Labels: map[string]string{clusterv1alpha1.LabelFleet: "u-hub"}}})
	w.version("shop", "1.0.0", permissions, nil)
	h := &installapproval.Webhook{Client: w.client, Live: w.client, Charts: w.charts}
	h.Missing = func(_ context.Context, u authenticationv1.UserInfo, _ string, _ *permission.Request) ([]rbacv1.PolicyRule, error) {
		if u.Username == "ann" || u.Username == "root" {
			return nil, nil
		}
		return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}, nil
	}
	_, plan := written(t, h, "kapis:hub", nil, &v1alpha1.InstallPlan{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Labels:      map[string]string{clusterv1alpha1.LabelFleet: "u-hub"},
		Annotations: map[string]string{v1alpha1.AnnotationFleetApprover: "ann"}},
		Spec: v1alpha1.InstallPlanSpec{Extension: v1alpha1.ExtensionRef{Name: "shop", Version: "1.0.0"}}})
	first := plan.Annotations[v1alpha1.AnnotationApproved]
	named := plan.DeepCopy()
	named.Annotations[v1alpha1.AnnotationUpstreams] = "evil.example.com"
	_, named = written(t, h, "eve", plan, named)
	changed := named.DeepCopy()
	changed.Spec.Config = "a: 1"
	for name, next := range map[string]*v1alpha1.InstallPlan{"as it is": named, "another one": changed} {
		_, after := written(t, h, "kapis:hub", named, next)
		if first == "" || after.Annotations[v1alpha1.AnnotationApprovedUpstreams] != "" || after.Annotations[v1alpha1.AnnotationApproved] != first {
			t.Errorf("%s: approved with %q", name, after.Annotations[v1alpha1.AnnotationApprovedUpstreams])
		}
	}
	asked := named.DeepCopy()
	asked.Annotations[v1alpha1.AnnotationApprove] = "yes"
	_, approved := written(t, h, "root", named, asked)
	if got := approved.Annotations[v1alpha1.AnnotationApprovedUpstreams]; got != "evil.example.com" {
		t.Fatalf("approved with %q", got)
	}
	changed = approved.DeepCopy()
	changed.Spec.Config = "a: 1"
	_, after := written(t, h, "kapis:hub", approved, changed)
	if after.Annotations[v1alpha1.AnnotationApprovedUpstreams] != "evil.example.com" || after.Annotations[v1alpha1.AnnotationApprovedBy] != "ann" ||
		after.Annotations[v1alpha1.AnnotationApproved] == approved.Annotations[v1alpha1.AnnotationApproved] {
		t.Errorf("what was approved here is not the hub's: %v", after.Annotations)
	}
}
