package kubeconfig_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kubeconfig/account"
)

const (
	bobUID   = "0b0b0b0b-1111-4222-8333-444444444444"
	otherUID = "0c0c0c0c-1111-4222-8333-444444444444"
)

// tokenWorld is a cluster with service accounts of users.
type tokenWorld struct {
	*testing.T
	client.Client
	now    time.Time
	writes []string
	fails  error // of deletions of ClusterRoleBindings
}

func newTokenWorld(t *testing.T, objects ...client.Object) *tokenWorld {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, iamv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &tokenWorld{T: t, now: time.Date(2026, 11, 26, 6, 0, 0, 0, time.UTC)}
	note := func(verb string, o client.Object) {
		kind := map[bool]string{true: "account"}[o.GetNamespace() != ""]
		if _, ok := o.(*rbacv1.ClusterRoleBinding); ok {
			kind = "binding"
		} else if _, ok := o.(*rbacv1.ClusterRole); ok {
			kind = "role"
		}
		w.writes = append(w.writes, verb+" "+kind)
	}
	w.Client = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			note("create", o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			note("update", o)
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			note("delete", o)
			if _, ok := o.(*rbacv1.ClusterRoleBinding); ok && w.fails != nil {
				return w.fails
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	return w
}

func (w *tokenWorld) reconcile(name string) (reconcile.Result, error) {
	r := &kubeconfig.TokenReconciler{Client: w, Accounts: w, Now: func() time.Time { return w.now }}
	return r.Reconcile(w.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: account.Namespace, Name: name}})
}

// settles reconciles bob's service account, and checks what is written.
func (w *tokenWorld) settles(want ...string) reconcile.Result {
	w.Helper()
	w.writes = nil
	res, err := w.reconcile("user-" + bobUID)
	if err != nil || !slices.Equal(w.writes, want) {
		w.Errorf("%v: it writes %q, want %q", err, w.writes, want)
	}
	return res
}

func bob(uid types.UID, state iamv1beta1.UserState) *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "bob", UID: uid}, Status: iamv1beta1.UserStatus{State: state}}
}

func (w *tokenWorld) ofBob(expires time.Duration) *corev1.ServiceAccount {
	return account.New("bob", bobUID, w.now.Add(expires))
}

func TestAServiceAccountImpersonatesItsUserWhileATokenIsValid(t *testing.T) { // O47
	w := newTokenWorld(t, bob(bobUID, iamv1beta1.UserAuthLimitExceeded)) // wrong passwords of others end no token, as they end no session
	sa := w.ofBob(time.Hour)
	if err := w.Create(t.Context(), sa); err != nil {
		t.Fatal(err)
	}
	if res := w.settles("create role", "create binding"); res.RequeueAfter != time.Hour+5*time.Minute {
		t.Errorf("it is looked at after %v", res.RequeueAfter)
	}
	w.settles() // a settled one is not written
	role, binding := account.Grant("bob", bobUID)
	for _, o := range []client.Object{role, binding} {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"groups"}, Verbs: []string{"impersonate"}})
	binding.Subjects = append(binding.Subjects, rbacv1.Subject{Kind: "User", Name: "mallory"})
	for _, o := range []client.Object{role, binding} {
		if err := w.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.settles("update role", "update binding")
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil || len(role.Rules) != 1 {
		t.Errorf("%v %+v", err, role.Rules)
	}
	w.now = w.now.Add(time.Hour + 6*time.Minute)
	w.settles("delete account")
	w.settles("delete binding", "delete role")
}

func TestTheRightOfAServiceAccountGoesWithItsUser(t *testing.T) { // O47
	gone := bob(bobUID, iamv1beta1.UserActive)
	gone.DeletionTimestamp, gone.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"x/y"}
	for name, u := range map[string]*iamv1beta1.User{
		"Disabled":  bob(bobUID, iamv1beta1.UserDisabled),
		"BeingGone": gone,
		"Gone":      {ObjectMeta: metav1.ObjectMeta{Name: "ann", UID: bobUID}, Status: iamv1beta1.UserStatus{State: iamv1beta1.UserActive}},
		"MadeAgain": bob(otherUID, iamv1beta1.UserActive),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t, u)
			role, binding := account.Grant("bob", bobUID)
			for _, o := range []client.Object{w.ofBob(time.Hour), role, binding} {
				if err := w.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			w.fails = errors.New("no answer")
			w.writes = nil
			if _, err := w.reconcile("user-" + bobUID); err == nil || !slices.Equal(w.writes, []string{"delete binding"}) {
				t.Errorf("after a failure: %v, it writes %q", err, w.writes)
			}
			w.fails = nil
			w.settles("delete binding", "delete role", "delete account") // the right before the service account, which is remembered
		})
	}
}

func TestWhatIsNotOfAUserGetsNoRight(t *testing.T) { // O47
	w := newTokenWorld(t, bob(bobUID, iamv1beta1.UserActive), &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: otherUID},
		Status: iamv1beta1.UserStatus{State: iamv1beta1.UserActive}})
	for name, uid := range map[string]string{"default": bobUID, "user-": bobUID, "bob": bobUID, "user-" + otherUID: bobUID, "user-" + bobUID + "-2": bobUID} {
		sa := account.New("bob", uid, w.now.Add(time.Hour))
		sa.Name = name
		if err := w.Create(t.Context(), sa); err != nil {
			t.Fatal(err)
		}
		w.writes = nil
		if _, err := w.reconcile(name); err != nil || slices.Contains(w.writes, "create role") || slices.Contains(w.writes, "create binding") {
			t.Errorf("%s: %v %q", name, err, w.writes)
		}
	}
	sa := w.ofBob(time.Hour)
	sa.Annotations[account.AnnotationExpires] = "never"
	if err := w.Create(t.Context(), sa); err != nil {
		t.Fatal(err)
	}
	w.settles("delete account")
}

func TestAnotherModeLeavesNoToken(t *testing.T) { // O47
	w := newTokenWorld(t)
	role, binding := account.Grant("bob", bobUID)
	theirs := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{account.LabelUser: "x"}}}
	elsewhere := account.New("bob", otherUID, w.now)
	elsewhere.Namespace = "a"
	for _, o := range []client.Object{w.ofBob(time.Hour), role, binding, theirs, elsewhere} {
		if err := w.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	w.writes = nil
	if err := kubeconfig.CleanTokens(t.Context(), w, w); err != nil || !slices.Equal(w.writes, []string{"delete binding", "delete role", "delete account"}) {
		t.Errorf("%v %q", err, w.writes)
	}
	w.writes = nil
	if err := kubeconfig.CleanTokens(t.Context(), w, w); err != nil || len(w.writes) != 0 {
		t.Errorf("again: %v %q", err, w.writes)
	}
}
