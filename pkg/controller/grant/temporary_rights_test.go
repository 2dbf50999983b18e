package grant_test

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kapis.dev/ks-apiserver/pkg/controller/grant"
)

// newClient returns a client of a cluster that has no namespace "gone".
func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := rbacv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			switch o.GetNamespace() {
			case "gone":
				return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "gone")
			case "broken":
				return errors.New("the database is away")
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
}

var (
	somebody = rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "kapis:somebody"}
	rules    = []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
)

func TestRightsTakeThePlaceOfOlderOnes(t *testing.T) {
	for _, namespace := range []string{"", "shop"} {
		old := metav1.ObjectMeta{Namespace: namespace, Name: "install"}
		theirs := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "else"}}
		var role, binding client.Object = &rbacv1.Role{ObjectMeta: old}, &rbacv1.RoleBinding{ObjectMeta: old, Subjects: theirs}
		if namespace == "" {
			role, binding = &rbacv1.ClusterRole{ObjectMeta: old}, &rbacv1.ClusterRoleBinding{ObjectMeta: old, Subjects: theirs}
		}
		c := newClient(t, role, binding)
		to := metav1.ObjectMeta{Namespace: namespace, Name: "install", Labels: map[string]string{"of": "operation"}}
		if is, err := grant.Give(t.Context(), c, to, rules, somebody); !is || err != nil {
			t.Fatalf("in %q: %t, %v", namespace, is, err)
		}
		for _, o := range []client.Object{role, binding} {
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || o.GetLabels()["of"] != "operation" {
				t.Errorf("in %q: %v, %T has %v", namespace, err, o, o.GetLabels())
			}
			switch o := o.(type) {
			case *rbacv1.Role:
				if len(o.Rules) != 1 {
					t.Errorf("the role has %v", o.Rules)
				}
			case *rbacv1.ClusterRole:
				if len(o.Rules) != 1 {
					t.Errorf("the cluster role has %v", o.Rules)
				}
			case *rbacv1.RoleBinding:
				if len(o.Subjects) != 1 || o.Subjects[0] != somebody || o.RoleRef.Kind != "Role" || o.RoleRef.Name != "install" {
					t.Errorf("the binding gives %v to %v", o.RoleRef, o.Subjects)
				}
			case *rbacv1.ClusterRoleBinding:
				if len(o.Subjects) != 1 || o.Subjects[0] != somebody || o.RoleRef.Kind != "ClusterRole" || o.RoleRef.Name != "install" {
					t.Errorf("the cluster binding gives %v to %v", o.RoleRef, o.Subjects)
				}
			}
		}
	}
}

func TestANamespaceThatIsGoneIsNoFailure(t *testing.T) {
	c := newClient(t)
	if is, err := grant.Give(t.Context(), c, metav1.ObjectMeta{Namespace: "gone", Name: "install"}, rules, somebody); is || err != nil {
		t.Errorf("where the namespace is gone: %t, %v", is, err)
	}
	if is, err := grant.Give(t.Context(), c, metav1.ObjectMeta{Namespace: "broken", Name: "install"}, rules, somebody); is || err == nil {
		t.Errorf("where nothing can be written: %t, %v", is, err)
	}
}

func TestRightsAreTakenBackAfterTheEndOfAContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := grant.TakeBack(ctx, func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("it may take for ever")
		}
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTheLastRuleForResourcesIsWaitedFor(t *testing.T) {
	late, asked := 2, []authorizationv1.ResourceAttributes{}
	may := grant.May(func(_ context.Context, user string, groups []string, what *authorizationv1.ResourceAttributes) (bool, error) {
		if user != "ann" || len(groups) != 1 || groups[0] != "staff" {
			t.Errorf("asked for %s in %q", user, groups)
		}
		asked = append(asked, *what)
		return len(asked) > late, nil
	})
	all := append([]rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
		rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{"apps"}, Resources: []string{"deployments/scale"}, ResourceNames: []string{"web"}},
		rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}})
	if err := may.Await(t.Context(), "ann", []string{"staff"}, "shop", all); err != nil || len(asked) != late+1 {
		t.Fatalf("%v, asked %d times", err, len(asked))
	}
	want := authorizationv1.ResourceAttributes{Namespace: "shop", Verb: "update", Group: "apps", Resource: "deployments", Subresource: "scale", Name: "web"}
	if asked[0] != want {
		t.Errorf("asked for %+v, want %+v", asked[0], want)
	}
	if err := may.Await(t.Context(), "ann", []string{"staff"}, "shop", all[2:]); err != nil || len(asked) != late+1 {
		t.Errorf("without a rule for resources: %v, asked %d times more", err, len(asked)-late-1)
	}
}
