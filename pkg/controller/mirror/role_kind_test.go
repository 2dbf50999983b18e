package mirror

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/aggregation"
)

func roles() Kind {
	return Kind{
		Name: "Role", Scope: "namespace",
		New:     func() client.Object { return &iamv1beta1.Role{} },
		NewList: func() client.ObjectList { return &iamv1beta1.RoleList{} },
		Fields: func(o client.Object) aggregation.Role {
			r := o.(*iamv1beta1.Role)
			return aggregation.Role{Meta: r, Templates: r.AggregationRoleTemplates, Rules: &r.Rules}
		},
		Bound: func(o client.Object) (rbacv1.RoleRef, []rbacv1.Subject) {
			b := o.(*iamv1beta1.RoleBinding)
			return b.RoleRef, b.Subjects
		},
	}
}

func TestWhatChangesLeadsToTheRolesItTouches(t *testing.T) {
	ctx, kind := context.Background(), roles()
	dev := types.NamespacedName{Namespace: "p", Name: "dev"}
	marked := metav1.ObjectMeta{
		Namespace:   "p",
		Name:        "kubesphere:iam:dev",
		Labels:      map[string]string{iamv1beta1.LabelManagedBy: iamv1beta1.ManagedByController},
		Annotations: map[string]string{AnnotationSource: "Role/p/dev"},
	}
	unmarked, misnamed, other := *marked.DeepCopy(), *marked.DeepCopy(), *marked.DeepCopy()
	unmarked.Labels, misnamed.Name, other.Annotations[AnnotationSource] = nil, "dev", "GlobalRole/dev"
	for name, c := range map[string]struct {
		got  []types.NamespacedName
		want []types.NamespacedName
	}{
		"ABinding": {kind.roleOf(ctx, &iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p"},
			RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "dev"}}), []types.NamespacedName{dev}},
		"ABindingOfAnotherKind": {kind.roleOf(ctx, &iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p"},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "dev"}}), nil},
		"ABindingOfANativeRole": {kind.roleOf(ctx, &iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p"},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "dev"}}), nil},
		"ANativeObject":              {kind.mirrored(ctx, &rbacv1.Role{ObjectMeta: marked}), []types.NamespacedName{dev}},
		"AStrangersObject":           {kind.mirrored(ctx, &rbacv1.Role{ObjectMeta: unmarked}), nil},
		"AnObjectOutsideTheMirror":   {kind.mirrored(ctx, &rbacv1.Role{ObjectMeta: misnamed}), nil},
		"ANativeObjectOfAnotherKind": {kind.mirrored(ctx, &rbacv1.Role{ObjectMeta: other}), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Equal(c.got, c.want) {
				t.Errorf("got %v, want %v", c.got, c.want)
			}
		})
	}
}

func TestATemplateLeadsToTheRolesMadeOfTemplates(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := iamv1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	plain := &iamv1beta1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "plain"}}
	made := &iamv1beta1.Role{
		ObjectMeta:               metav1.ObjectMeta{Namespace: "p", Name: "made"},
		AggregationRoleTemplates: &iamv1beta1.AggregationRoleTemplates{TemplateNames: []string{"a"}},
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(plain, made).Build()
	template := &iamv1beta1.RoleTemplate{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{iamv1beta1.LabelScope: "namespace"}}}
	if got := roles().madeOf(c)(context.Background(), template); !slices.Equal(got, []types.NamespacedName{{Namespace: "p", Name: "made"}}) {
		t.Errorf("got %v", got)
	}
	template.Labels[iamv1beta1.LabelScope] = "global"
	if got := roles().madeOf(c)(context.Background(), template); got != nil {
		t.Errorf("a template of another scope touches %v", got)
	}
}

func TestTheLagRunsFromTheFirstEventToTheWrite(t *testing.T) {
	now := time.Unix(1000, 0)
	lag, err := NewLag(prometheus.NewRegistry(), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	lag.changed("Role/p/dev")
	now = now.Add(300 * time.Millisecond)
	lag.changed("Role/p/dev") // a second event does not restart it
	if got := lag.waiting(); got != 0.3 {
		t.Errorf("the oldest waits for %v s", got)
	}
	start, ok := lag.begin("Role/p/dev")
	if !ok || now.Sub(start) != 300*time.Millisecond {
		t.Errorf("started %v before, %t", now.Sub(start), ok)
	}
	now = now.Add(time.Minute)
	if got := lag.waiting(); got != 60.3 { // as where kube-apiserver does not answer
		t.Errorf("while it is reconciled, the oldest waits for %v s", got)
	}
	lag.begin("Role/p/dev") // after a write that was refused
	lag.changed("Role/p/dev")
	now = now.Add(time.Second)
	lag.changed("Role/p/dev")
	if lag.done("Role/p/dev"); lag.waiting() != 1 {
		t.Errorf("what changed while the role was reconciled waits for %v s", lag.waiting())
	}
	lag.begin("Role/p/dev")
	lag.done("Role/p/dev")
	if _, ok := lag.begin("Role/p/dev"); ok {
		t.Error("it runs on after the reconciliation")
	}
	if got := lag.waiting(); got != 0 {
		t.Errorf("with nothing that waits, the oldest waits for %v s", got)
	}
	lag.observe("Role", start)
	if n := testutil.CollectAndCount(lag.seconds, "ks_mirror_lag_seconds"); n != 1 {
		t.Errorf("%d series", n)
	}
	if _, err := NewLag(prometheus.NewRegistry(), time.Now); err != nil {
		t.Errorf("a second process can't measure: %v", err)
	}
}
