// Package mirrortest lets tests of the kinds of roles run their reconciler against an in-memory cluster, and check what
// kube-apiserver's RBAC would decide.
package mirrortest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
)

// Fixture is an in-memory cluster with the reconciler of one kind of role.
type Fixture struct {
	T *testing.T
	// Client reads and writes the cluster.
	Client client.Client
	// Events are the events that the reconciler recorded.
	Events chan string
	// Refuse, if set, is called before each write, possibly concurrently; its error is the answer.
	Refuse func(verb string, o client.Object) error

	reconciler *mirror.Reconciler
	writes     atomic.Int64
}

// Scheme returns a scheme with the types that the tests use.
func Scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, iamv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// New returns a fixture with these objects.
func New(t *testing.T, kind mirror.Kind, objects ...client.Object) *Fixture {
	t.Helper()
	f := &Fixture{T: t}
	b := fake.NewClientBuilder().WithScheme(Scheme(t)).WithObjects(objects...).
		WithIndex(kind.NewBinding(), mirror.RoleField, kind.RoleIndex)
	for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		b = b.WithIndex(o, mirror.SourceField, mirror.SourceIndex)
	}
	for _, i := range kind.Indexes {
		b = b.WithIndex(i.Object, i.Field, i.Of)
	}
	f.Client = b.WithInterceptorFuncs(f.intercept()).Build()
	recorder := events.NewFakeRecorder(100)
	f.Events = recorder.Events
	lag, err := mirror.NewLag(prometheus.NewRegistry(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f.reconciler = &mirror.Reconciler{
		Kind: kind, Client: f.Client, Lag: lag,
		Writer: &mirror.Writer{Client: f.Client, Live: f.Client, Events: recorder},
	}
	return f
}

func (f *Fixture) intercept() interceptor.Funcs {
	before := func(verb string, o client.Object) error {
		if f.Refuse != nil {
			if err := f.Refuse(verb, o); err != nil {
				return err
			}
		}
		f.writes.Add(1)
		return nil
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := before("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := before("patch", o); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := before("delete", o); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
		Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			f.T.Error("a blind update")
			return nil
		},
	}
}

// Reconcile reconciles a role, as often as the reconciler asks for it without a delay.
func (f *Fixture) Reconcile(namespace, name string) reconcile.Result {
	f.T.Helper()
	r, err := f.TryReconcile(namespace, name)
	if err != nil {
		f.T.Fatalf("reconcile %s: %v", name, err)
	}
	return r
}

// TryReconcile is Reconcile for tests that expect an error.
func (f *Fixture) TryReconcile(namespace, name string) (reconcile.Result, error) {
	return f.reconciler.Reconcile(context.Background(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace,
		Name: name}})
}

// Written returns how many writes do causes.
func (f *Fixture) Written(do func()) int {
	before := f.writes.Load()
	do()
	return int(f.writes.Load() - before)
}

// Natives returns how many native objects the cluster has.
func (f *Fixture) Natives() int {
	f.T.Helper()
	n := 0
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleList{},
		&rbacv1.RoleBindingList{}} {
		if err := f.Client.List(context.Background(), list); err != nil {
			f.T.Fatal(err)
		}
		switch l := list.(type) {
		case *rbacv1.ClusterRoleList:
			n += len(l.Items)
		case *rbacv1.ClusterRoleBindingList:
			n += len(l.Items)
		case *rbacv1.RoleList:
			n += len(l.Items)
		case *rbacv1.RoleBindingList:
			n += len(l.Items)
		}
	}
	return n
}
