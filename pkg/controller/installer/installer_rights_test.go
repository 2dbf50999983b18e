package installer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kapis.dev/ks-apiserver/pkg/controller/installer"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
)

type world struct {
	t      *testing.T
	client client.Client
	installer.Installers
	// stuck says that nothing can be deleted.
	stuck bool
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), rbacv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	w.client = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if w.stuck {
				return errors.New("the database is away")
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	w.Installers = installer.Installers{Client: w.client, Live: w.client, Revoked: &sync.Map{},
		May: func(context.Context, string, []string, *authorizationv1.ResourceAttributes) (bool, error) {
			return true, nil
		}}
	return w
}

// roles returns the names of all roles and bindings.
func (w *world) roles() (out []string) {
	w.t.Helper()
	for _, list := range []client.ObjectList{&rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}} {
		if err := w.client.List(context.Background(), list); err != nil {
			w.t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, item := range items {
			out = append(out, item.(client.Object).GetNamespace()+"/"+item.(client.Object).GetName())
		}
	}
	slices.Sort(out)
	return out
}

func rights() permission.Rights {
	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	return permission.Rights{"": rules, "extension-shop": rules}
}

func TestAnInstallerHasItsRightsDuringTheOperationAlone(t *testing.T) {
	theirs := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "theirs", Labels: map[string]string{installer.Label: "shop"}}}
	w := newWorld(t, theirs)
	ctx, cancel := context.WithCancel(t.Context())
	failed := errors.New("the operation failed")
	err := w.While(ctx, "shop", rights(), func() error {
		if err := w.GiveHook(ctx, "shop", "extension-shop", rights()); err != nil {
			t.Error(err)
		}
		want := []string{"/kubesphere:shop:helm-executor", "/kubesphere:shop:helm-executor", "/kubesphere:shop:helm-executor-hook",
			"/kubesphere:shop:helm-executor-hook", "extension-shop/kubesphere:shop:helm-executor", "extension-shop/kubesphere:shop:helm-executor",
			"extension-shop/kubesphere:shop:helm-executor-hook", "extension-shop/kubesphere:shop:helm-executor-hook", "other/theirs"}
		if got := w.roles(); !slices.Equal(got, want) {
			t.Errorf("meanwhile there are %q, want %q", got, want)
		}
		cancel()
		return failed
	})
	if !errors.Is(err, failed) {
		t.Errorf("the error is %v, want %v", err, failed)
	}
	if got := w.roles(); !slices.Equal(got, []string{"other/theirs"}) { // the label alone gives nobody's role away
		t.Errorf("after it there are %q", got)
	}
}

func TestRightsThatAreLeftAreTakenAwayBeforeTheNextOperation(t *testing.T) {
	w := newWorld(t)
	if err := w.RevokeLeftovers(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	w.stuck = true
	if err := w.While(t.Context(), "shop", rights(), func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := w.RevokeLeftovers(t.Context(), "shop"); err == nil {
		t.Error("no error, although rights are left")
	}
	w.stuck = false
	if err := w.RevokeLeftovers(t.Context(), "shop"); err != nil || len(w.roles()) != 0 {
		t.Errorf("%v, %q are left", err, w.roles())
	}
}

func TestTheAccountOfHooksIsCreatedOnce(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		if err := w.CreateAccount(t.Context(), "shop", "extension-shop"); err != nil {
			t.Fatal(err)
		}
	}
	a := &corev1.ServiceAccount{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "extension-shop", Name: installer.Account("shop")}, a); err != nil {
		t.Error(err)
	}
}
