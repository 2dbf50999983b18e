package role_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/mirror/mirrortest"
)

func clusterRoleAndBinding(condition bool) (*iamv1beta1.ClusterRole, *iamv1beta1.ClusterRoleBinding) {
	r := &iamv1beta1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-viewer"},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get", "list"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
			{Verbs: []string{"GET"}, NonResourceURLs: []string{"*"}},
		},
	}
	if condition {
		r.Annotations = map[string]string{iamv1beta1.AnnotationCELCondition: "true"}
	}
	return r, &iamv1beta1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		RoleRef:    rbacv1.RoleRef{Kind: iamv1beta1.KindClusterRole, Name: "cluster-viewer"},
		Subjects:   []rbacv1.Subject{{Kind: "Group", Name: "ops"}, {Kind: "Group", Name: "system:masters"}},
	}
}

func TestAClusterRoleCountsEverywhere(t *testing.T) {
	r, b := clusterRoleAndBinding(false)
	f := mirrortest.New(t, kindOf("ClusterRole"), r, b)
	f.Reconcile("", "cluster-viewer")
	for request, want := range map[*mirrortest.Request]bool{
		{Groups: []string{"ops"}, Verb: "list", Resource: "nodes"}:                                           true,
		{Groups: []string{"ops"}, Verb: "list", Resource: "pods", Namespace: "p"}:                            true,
		{Groups: []string{"ops"}, Verb: "get", Path: "/metrics"}:                                             true,
		{Groups: []string{"ops"}, Verb: "delete", Resource: "nodes"}:                                         false,
		{Groups: []string{"system:masters"}, Verb: "list", Resource: "nodes"}:                                false,
		{Groups: []string{"kapis:cluster:cluster-viewer"}, Verb: "list", Resource: "nodes"}:                  true,
		{Groups: []string{"kapis:global:cluster-viewer"}, Verb: "list", Resource: "nodes"}:                   false,
		{Groups: []string{"kapis:conditional:cluster:cluster-viewer"}, Verb: "list", Resource: "nodes"}:      false,
		{Groups: []string{"kapis:cluster:cluster-viewer"}, Verb: "get", Resource: "secrets", Namespace: "p"}: true,
	} {
		if got := f.Allowed(*request); got != want {
			t.Errorf("%+v: %t, want %t", *request, got, want)
		}
	}
	if n := f.Written(func() { f.Reconcile("", "cluster-viewer") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

func TestAConditionOfAClusterRoleIsTheGroupsOnly(t *testing.T) {
	r, b := clusterRoleAndBinding(true)
	f := mirrortest.New(t, kindOf("ClusterRole"), r, b)
	f.Reconcile("", "cluster-viewer")
	if f.Allowed(mirrortest.Request{Groups: []string{"ops"}, Verb: "list", Resource: "nodes"}) {
		t.Error("a right without the condition")
	}
	if !f.Allowed(mirrortest.Request{Groups: []string{"kapis:conditional:cluster:cluster-viewer"}, Verb: "list", Resource: "nodes"}) {
		t.Error("no right with it")
	}
}
