package mirror_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
	"kapis.dev/ks-apiserver/pkg/controller/mirror/mirrortest"
	"kapis.dev/ks-apiserver/pkg/controller/role"
)

// A role with templates is updated at every level: rules that templates no longer give are removed from the role and from
// kube-apiserver, and rules that a user wrote into the role stay.
func TestARoleFollowsItsTemplatesAtEveryLevel(t *testing.T) {
	own := []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"services"}}}
	people := []rbacv1.Subject{{Kind: "User", Name: "ann"}}
	at := metav1.ObjectMeta{Name: "r", Annotations: map[string]string{iamv1beta1.AnnotationAutoAggregate: "true"}}
	in, of := at, at
	in.Namespace, of.Labels = "p", map[string]string{"kubesphere.io/workspace": "w"}
	made := func() *iamv1beta1.AggregationRoleTemplates {
		return &iamv1beta1.AggregationRoleTemplates{
			TemplateNames: []string{"named"},
			RoleSelector:  &metav1.LabelSelector{MatchLabels: map[string]string{"aggregate": "yes"}},
		}
	}
	ref := func(kind string) rbacv1.RoleRef { return rbacv1.RoleRef{Kind: kind, Name: "r"} }
	bare := func(m metav1.ObjectMeta) metav1.ObjectMeta { m.Annotations = nil; return m }
	for name, c := range map[string]struct {
		kind          mirror.Kind
		role, binding client.Object
		scope         string
	}{
		"Global": {kindOf("GlobalRole"), &iamv1beta1.GlobalRole{ObjectMeta: at, Rules: own, AggregationRoleTemplates: made()},
			&iamv1beta1.GlobalRoleBinding{ObjectMeta: bare(at), RoleRef: ref("GlobalRole"), Subjects: people}, "global"},
		"Cluster": {kindOf("ClusterRole"), &iamv1beta1.ClusterRole{ObjectMeta: at, Rules: own, AggregationRoleTemplates: made()},
			&iamv1beta1.ClusterRoleBinding{ObjectMeta: bare(at), RoleRef: ref("ClusterRole"), Subjects: people}, "cluster"},
		"Workspace": {kindOf("WorkspaceRole"), &iamv1beta1.WorkspaceRole{ObjectMeta: of, Rules: own, AggregationRoleTemplates: made()},
			&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: bare(of), RoleRef: ref("WorkspaceRole"), Subjects: people}, "workspace"},
		"Namespace": {kindOf("Role"), &iamv1beta1.Role{ObjectMeta: in, Rules: own, AggregationRoleTemplates: made()},
			&iamv1beta1.RoleBinding{ObjectMeta: bare(in), RoleRef: ref("Role"), Subjects: people}, "namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			template := func(name, scope, resource string) *iamv1beta1.RoleTemplate {
				return &iamv1beta1.RoleTemplate{
					ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{iamv1beta1.LabelScope: scope, "aggregate": "yes"}},
					Spec:       iamv1beta1.RoleTemplateSpec{Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{resource}}}},
				}
			}
			foreign := map[string]string{"global": "namespace", "cluster": "global", "workspace": "cluster", "namespace": "workspace"}[c.scope]
			unselected := template("named", c.scope, "pods")
			delete(unselected.Labels, "aggregate")
			f := mirrortest.New(t, c.kind, c.role, c.binding,
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"kubesphere.io/workspace": "w"}}},
				unselected, template("selected", c.scope, "events"), template("foreign", foreign, "secrets"))
			check := func(when string, pods, events, secrets bool) {
				t.Helper()
				f.Reconcile(c.role.GetNamespace(), "r")
				for resource, want := range map[string]bool{"pods": pods, "events": events, "secrets": secrets, "services": true} {
					if got := f.Allowed(mirrortest.Request{User: "ann", Verb: "list", Resource: resource, Namespace: "p"}); got != want {
						t.Errorf("%s, list %s: %t", when, resource, got)
					}
				}
			}
			patch := func(name, text string) {
				t.Helper()
				o := &iamv1beta1.RoleTemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if err := f.Client.Patch(context.Background(), o, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
					t.Fatal(err)
				}
			}
			check("at first", true, true, false)
			patch("selected", `{"metadata":{"labels":{"aggregate":"no"}}}`)
			check("after a label went", true, false, false)
			patch("selected", `{"metadata":{"labels":{"aggregate":"yes"}}}`)
			check("after it came back", true, true, false)
			patch("selected", `{"metadata":{"labels":{"iam.kubesphere.io/scope":"`+foreign+`"}}}`)
			check("after it went to another scope", true, false, false)
			patch("foreign", `{"metadata":{"labels":{"iam.kubesphere.io/scope":"`+c.scope+`"}}}`)
			check("after another came into this one", true, false, true)
			patch("foreign", `{"spec":{"rules":[]}}`)
			patch("named", `{"spec":{"rules":[{"verbs":["list"],"apiGroups":[""],"resources":["events"]}]}}`)
			check("after rules were changed", false, true, false)
			if err := f.Client.Delete(context.Background(), unselected); err != nil {
				t.Fatal(err)
			}
			check("after a template was deleted", false, false, false)
		})
	}
}

// kindOf returns the Kind of a name such as "GlobalRole".
func kindOf(name string) mirror.Kind {
	all := role.Kinds()
	return all[slices.IndexFunc(all, func(k mirror.Kind) bool { return k.Name == name })]
}
