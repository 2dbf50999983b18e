package loginrecord

import (
	"context"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

func record(user string, age time.Duration, success bool) *iamv1beta1.LoginRecord {
	return &iamv1beta1.LoginRecord{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", user, age), UID: types.UID(fmt.Sprint(age)), CreationTimestamp: metav1.NewTime(noon().Add(-age)),
			Labels: map[string]string{iamv1beta1.LabelUserReference: user},
		},
		Spec: iamv1beta1.LoginRecordSpec{Type: iamv1beta1.LoginToken, Success: success},
	}
}

func newReconciler(t *testing.T, older bool, objects ...client.Object) *Reconciler {
	t.Helper()
	s := runtime.NewScheme()
	if err := iamv1beta1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithIndex(&iamv1beta1.LoginRecord{}, userField, UserIndex)
	if !older {
		b = b.WithStatusSubresource(&iamv1beta1.User{})
	}
	c := b.Build()
	return &Reconciler{Client: c, Live: c, Retention: 168 * time.Hour, Most: 100, Now: noon}
}

func (r *Reconciler) run(t *testing.T, user string) reconcile.Result {
	t.Helper()
	res, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: user}})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (r *Reconciler) left(t *testing.T) map[string]bool {
	t.Helper()
	list := &iamv1beta1.LoginRecordList{}
	if err := r.Client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, l := range list.Items {
		out[l.Name] = true
	}
	return out
}

func user(name string) *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestTheNewestRecordsOfEachUserAreKept(t *testing.T) {
	objects := []client.Object{user("alice"), record("bob", 0, true)}
	for i := range 150 {
		objects = append(objects, record("alice", time.Duration(i)*time.Minute, true))
	}
	r := newReconciler(t, false, objects...)
	res := r.run(t, "alice")
	left := r.left(t)
	if len(left) != 101 || !left["alice-0"] || left[fmt.Sprintf("alice-%d", 100*time.Minute)] || !left["bob-0"] {
		t.Errorf("%d are left", len(left))
	}
	if want := 168*time.Hour - 99*time.Minute; res.RequeueAfter != want {
		t.Errorf("looks again in %v, want %v", res.RequeueAfter, want)
	}
}

func TestOldRecordsGo(t *testing.T) {
	r := newReconciler(t, false, user("alice"), record("alice", time.Hour, true), record("alice", 168*time.Hour, true), record("alice", 200*time.Hour, false))
	r.run(t, "alice")
	if left := r.left(t); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestRecordsGoWithTheirUserAndInRounds(t *testing.T) {
	var objects []client.Object
	for i := range deleteAtOnce + 5 {
		objects = append(objects, record("gone", time.Duration(i)*time.Minute, true))
	}
	r := newReconciler(t, false, objects...)
	if res := r.run(t, "gone"); res.RequeueAfter == 0 || len(r.left(t)) != 5 {
		t.Errorf("after one round %d are left, and it looks again in %v", len(r.left(t)), res.RequeueAfter)
	}
	if res := r.run(t, "gone"); res.RequeueAfter != 0 || len(r.left(t)) != 0 {
		t.Errorf("%d are left", len(r.left(t)))
	}
}

// late is a cache that has not seen users yet.
type late struct{ client.Client }

func (l late) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*iamv1beta1.User); ok {
		return apierrors.NewNotFound(iamv1beta1.SchemeGroupVersion.WithResource("users").GroupResource(), key.Name)
	}
	return l.Client.Get(ctx, key, o, opts...)
}

func TestTheFirstLoginOfAUserJustMadeIsKept(t *testing.T) {
	r := newReconciler(t, false, user("alice"), record("alice", 0, true), record("gone", 0, true))
	r.Client = late{r.Client}
	r.run(t, "alice")
	r.run(t, "gone")
	if left := r.left(t); len(left) != 1 || !left["alice-0"] {
		t.Errorf("left: %v", left)
	}
	u := &iamv1beta1.User{}
	if err := r.Live.Get(t.Context(), client.ObjectKey{Name: "alice"}, u); err != nil || u.Status.LastLoginTime == nil {
		t.Errorf("the last login is not told: %+v, %v", u.Status, err)
	}
}

// Records are deleted only once it is known that their user does not exist.
func TestNothingGoesWhileUsersCantBeRead(t *testing.T) {
	r := newReconciler(t, false, record("gone", 0, true))
	r.Client, r.Live = late{r.Client}, broken{r.Live}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "gone"}}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("%v", err)
	}
	if left := r.left(t); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

// broken is a kube-apiserver that can't be read.
type broken struct{ client.Reader }

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return apierrors.NewServiceUnavailable("broken")
}

func TestTheLastLoginIsTold(t *testing.T) {
	for _, older := range []bool{false, true} {
		r := newReconciler(t, older, user("alice"), record("alice", time.Second, false), record("alice", time.Hour, true), record("alice", 2*time.Hour, true))
		last := func() *metav1.Time {
			u := &iamv1beta1.User{}
			if err := r.Client.Get(t.Context(), client.ObjectKey{Name: "alice"}, u); err != nil {
				t.Fatal(err)
			}
			return u.Status.LastLoginTime
		}
		r.run(t, "alice")
		if got := last(); got == nil || !got.Time.Equal(noon().Add(-time.Hour)) {
			t.Fatalf("older %v: the last login is %v", older, got)
		}
		if err := r.Client.Create(t.Context(), record("alice", time.Hour-coarse/2, true)); err != nil {
			t.Fatal(err)
		}
		r.run(t, "alice")
		if got := last(); !got.Time.Equal(noon().Add(-time.Hour)) {
			t.Errorf("a login right after another was written: %v", got)
		}
		if err := r.Client.Create(t.Context(), record("alice", time.Minute, true)); err != nil {
			t.Fatal(err)
		}
		r.run(t, "alice")
		if got := last(); !got.Time.Equal(noon().Add(-time.Minute)) {
			t.Errorf("the last login is %v", got)
		}
	}
}
