package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/controllertest"
)

var (
	ctx = context.Background()
	now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, iamv1beta1.AddToScheme, tenantv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	crds := schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}
	s.AddKnownTypeWithName(crds.WithKind("CustomResourceDefinition"), &unstructured.Unstructured{})
	s.AddKnownTypeWithName(crds.WithKind("CustomResourceDefinitionList"), &unstructured.UnstructuredList{})
	return s
}

// fastHash is Hash for tests that don't check the cost, which takes a second with the race detector.
func fastHash(password string) (string, error) {
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	return string(h), err
}

// fixture is an in-memory cluster; if older is set, its Users have no status sub-resource.
type fixture struct {
	t      *testing.T
	client client.Client
	r      *Reconciler
	events chan string
	writes int
}

func newFixture(t *testing.T, older bool, objects ...client.Object) *fixture {
	t.Helper()
	f := &fixture{t: t}
	if !slices.ContainsFunc(objects, func(o client.Object) bool { return o.GetName() == definition }) {
		objects = append(objects, controllertest.Definition(definition, false))
	}
	b := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...)
	if !older {
		b = b.WithStatusSubresource(&iamv1beta1.User{})
	}
	recorder := events.NewFakeRecorder(20)
	f.r = &Reconciler{Events: recorder, Hash: fastHash, Now: func() time.Time { return now }}
	for _, h := range referenceKinds() {
		b = b.WithIndex(h.object, userField, UserIndex)
		f.r.indexed = append(f.r.indexed, h.kind)
	}
	f.client = b.WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			f.writes++
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			f.writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	f.r.Client, f.r.Live, f.events = f.client, f.client, recorder.Events
	return f
}

func (f *fixture) reconcile(name string) *iamv1beta1.User {
	f.t.Helper()
	if _, err := f.r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
		f.t.Fatal(err)
	}
	u := &iamv1beta1.User{}
	if err := f.client.Get(ctx, types.NamespacedName{Name: name}, u); client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	return u
}

func person(name, password string) *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: iamv1beta1.UserSpec{Password: password}}
}

func globalBinding(name, role string, users ...string) *iamv1beta1.GlobalRoleBinding {
	return &iamv1beta1.GlobalRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{Kind: iamv1beta1.KindGlobalRole, Name: role},
		Subjects:   subjectsNamed(users...),
	}
}

func subjectsNamed(users ...string) []rbacv1.Subject {
	var out []rbacv1.Subject
	for _, u := range users {
		out = append(out, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: u})
	}
	return out
}

func TestANewPasswordBecomesItsHash(t *testing.T) {
	for name, older := range map[string]bool{"OurCRD": false, "TheCRDOfAnOlderInstallation": true} {
		t.Run(name, func(t *testing.T) {
			u := person("bob", "Passw0rd!")
			u.Annotations = map[string]string{
				iamv1beta1.AnnotationUninitialized: "true",
				corev1.LastAppliedConfigAnnotation: `{"spec":{"password":"Passw0rd!"}}`,
			}
			f := newFixture(t, older, u)
			got := f.reconcile("bob")
			if err := bcrypt.CompareHashAndPassword([]byte(got.Spec.Password), []byte("Passw0rd!")); err != nil {
				t.Errorf("%q: %v", got.Spec.Password, err)
			}
			if got.Annotations[iamv1beta1.AnnotationLastPasswordChangeTime] != "2026-11-21T12:00:00Z" || got.Annotations[iamv1beta1.AnnotationUninitialized] != "true" {
				t.Errorf("annotations %v", got.Annotations)
			}
			if strings.Contains(fmt.Sprint(got.Annotations), "Passw0rd!") {
				t.Error("the clear text is left in an annotation")
			}
			if got.Status.State != iamv1beta1.UserActive || got.Status.LastTransitionTime == nil || !got.Status.LastTransitionTime.Time.Equal(now) {
				t.Errorf("status %+v", got.Status)
			}
			if !slices.Contains(got.Finalizers, iamv1beta1.FinalizerUser) {
				t.Errorf("finalizers %v", got.Finalizers)
			}
			before := f.writes
			if again := f.reconcile("bob"); again.ResourceVersion != got.ResourceVersion || f.writes != before {
				t.Errorf("a second time wrote %d times", f.writes-before)
			}
		})
	}
}

func TestAHashHasCostTen(t *testing.T) {
	h, err := Hash("Passw0rd!")
	if err != nil || !isHash(h) || !strings.HasPrefix(h, "$2a$10$") {
		t.Errorf("%q, %v", h, err)
	}
	if _, err := Hash(strings.Repeat("a", maxPassword+1)); err == nil {
		t.Error("a password is hashed in part")
	}
}

func TestAHashStays(t *testing.T) {
	tail := strings.Repeat("a", 53)
	for name, c := range map[string]struct {
		password string
		stays    bool
	}{
		"Go":                         {"$2a$10$" + tail, true},
		"OpenBSD":                    {"$2b$12$" + tail, true},
		"PHP":                        {"$2y$04$" + tail, true},
		"TheHighestCost":             {"$2a$14$" + tail, true},
		"ACostThatWouldHoldUpALogin": {"$2a$15$" + tail, false},
		"ACostThatDoesNotExist":      {"$2a$31$" + tail, false},
		"TooLowACost":                {"$2a$03$" + tail, false},
		"TooShort":                   {"$2a$10$" + tail[1:], false},
		"TooLong":                    {"$2a$10$" + tail + "a", false},
		"NotItsAlphabet":             {"$2a$10$" + tail[1:] + "!", false},
		"TheBrokenVariant":           {"$2x$10$" + tail, false},
		"ALineAfterIt":               {"$2a$10$" + tail + "\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := newFixture(t, false, person("bob", c.password)).reconcile("bob")
			if stays := got.Spec.Password == c.password; stays != c.stays {
				t.Errorf("%q became %q", c.password, got.Spec.Password)
			}
			if !c.stays && bcrypt.CompareHashAndPassword([]byte(got.Spec.Password), []byte(c.password)) != nil {
				t.Error("what looks like a hash was not taken as a password")
			}
			if _, set := got.Annotations[iamv1beta1.AnnotationLastPasswordChangeTime]; set == c.stays {
				t.Errorf("the time of change is set: %t", set)
			}
		})
	}
}

func TestAPasswordThatCannotBeHashedWholeIsRemovedAndTold(t *testing.T) {
	f := newFixture(t, false, person("bob", strings.Repeat("ä", 40)+"A1"))
	if got := f.reconcile("bob"); got.Spec.Password != "" {
		t.Errorf("the password is %q", got.Spec.Password)
	}
	if e := <-f.events; !strings.Contains(e, "PasswordRefused") || strings.Contains(e, "ä") {
		t.Errorf("the event says %q", e)
	}
}

func TestStates(t *testing.T) {
	for name, c := range map[string]struct {
		in, want iamv1beta1.UserState
		password string
	}{
		"ANewUserIsActive":             {"", "Active", "Passw0rd!"},
		"AUserOfAProviderIsActive":     {"", "Active", ""},
		"ADisabledOneStays":            {"Disabled", "Disabled", "Passw0rd!"},
		"ALockedOneStays":              {"AuthLimitExceeded", "AuthLimitExceeded", "Passw0rd!"},
		"AnActiveOneStays":             {"Active", "Active", "Passw0rd!"},
		"AStateOfLaterReleasesStays":   {"Sleeping", "Sleeping", ""},
		"ADisabledOneOfAProviderStays": {"Disabled", "Disabled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := person("bob", c.password)
			u.Status.State, u.Status.Reason = c.in, "because"
			got := newFixture(t, false, u).reconcile("bob")
			if got.Status.State != c.want || got.Status.LastTransitionTime == nil {
				t.Errorf("status %+v", got.Status)
			}
			if c.in == c.want && got.Status.Reason != "because" {
				t.Errorf("the reason became %q", got.Status.Reason)
			}
		})
	}
}

// The console reads the user's role from the annotation.
func TestTheAnnotationTellsTheRoleThatBindingsGive(t *testing.T) {
	going := globalBinding("g", "platform-admin", "bob")
	going.Finalizers, going.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: now}
	otherKind := globalBinding("o", "platform-admin", "bob")
	otherKind.RoleRef.Kind = "ClusterRole"
	group := globalBinding("gr", "platform-admin")
	group.Subjects = []rbacv1.Subject{{Kind: "Group", Name: "bob"}}
	for name, c := range map[string]struct {
		bindings []client.Object
		claimed  string
		want     string
	}{
		"One":                       {[]client.Object{globalBinding("b", "platform-regular", "bob")}, "", "platform-regular"},
		"None":                      {nil, "", ""},
		"NotWhatTheUserClaims":      {nil, "platform-admin", ""},
		"NotWhatTheUserClaimsMore":  {[]client.Object{globalBinding("b", "platform-regular", "bob")}, "platform-admin", "platform-regular"},
		"NotAnotherUsers":           {[]client.Object{globalBinding("b", "platform-admin", "ann")}, "", ""},
		"AdminBeforeTheAlphabet":    {[]client.Object{globalBinding("a", "a-role", "bob"), globalBinding("b", "platform-admin", "bob")}, "", "platform-admin"},
		"ThenTheAlphabet":           {[]client.Object{globalBinding("1", "b", "bob"), globalBinding("2", "a", "bob")}, "", "a"},
		"NotOneThatIsBeingDeleted":  {[]client.Object{going}, "", ""},
		"NotARoleOfAnotherKind":     {[]client.Object{otherKind}, "", ""},
		"NotAGroupOfTheSameName":    {[]client.Object{group}, "platform-admin", ""},
		"ASubjectAmongOthersCounts": {[]client.Object{globalBinding("b", "platform-regular", "ann", "bob")}, "", "platform-regular"},
	} {
		t.Run(name, func(t *testing.T) {
			u := person("bob", "")
			if c.claimed != "" {
				u.Annotations = map[string]string{iamv1beta1.AnnotationGlobalRole: c.claimed}
			}
			f := newFixture(t, false, append(c.bindings, u)...)
			got, set := f.reconcile("bob").Annotations[iamv1beta1.AnnotationGlobalRole]
			if got != c.want || set != (c.want != "") {
				t.Errorf("the annotation is %q (%t), want %q", got, set, c.want)
			}
		})
	}
}

// S6: an annotation is no request for a role.
func TestS6AnAnnotationGrantsNothing(t *testing.T) {
	u := person("eve", "Passw0rd!")
	u.Annotations = map[string]string{iamv1beta1.AnnotationGlobalRole: "platform-admin", iamv1beta1.AnnotationClusterRole: "cluster-admin"}
	f := newFixture(t, false, u)
	f.reconcile("eve")
	for _, h := range referenceKinds() {
		list := h.list()
		if err := f.client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		if n := meta.LenList(list); n != 0 {
			t.Errorf("%d %ss came of an annotation", n, h.kind)
		}
	}
}

// S9, S37: a user created later under the name of a deleted one gets nothing of it.
func TestS9ADeletedUserIsForgotten(t *testing.T) {
	for name, indexed := range map[string]bool{"FromTheCache": true, "WhereTheKindCameLater": false} {
		t.Run(name, func(t *testing.T) {
			bob := person("bob", "")
			bob.Finalizers = []string{iamv1beta1.FinalizerUser}
			named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
			f := newFixture(t, false, bob, person("ann", ""),
				globalBinding("only-bob", "platform-admin", "bob"), globalBinding("both", "platform-regular", "bob", "ann"), globalBinding("ann", "x", "ann"),
				&iamv1beta1.WorkspaceRoleBinding{ObjectMeta: named("w"), Subjects: subjectsNamed("bob")},
				&iamv1beta1.ClusterRoleBinding{ObjectMeta: named("c"), Subjects: subjectsNamed("bob", "bob")},
				&iamv1beta1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "p", Name: "r"}, Subjects: subjectsNamed("ann", "bob")},
				&iamv1beta1.GroupBinding{ObjectMeta: named("g"), Users: []string{"ann", "bob"}},
				&iamv1beta1.GroupBinding{ObjectMeta: named("g2"), Users: []string{"bob"}},
			)
			if !indexed {
				f.r.indexed = []string{"GlobalRoleBinding"}
			}
			if err := f.client.Delete(ctx, person("bob", "")); err != nil {
				t.Fatal(err)
			}
			if u := f.reconcile("bob"); u.Name != "" {
				t.Errorf("the user hangs with %v", u.Finalizers)
			}
			left := []string{}
			for _, h := range referenceKinds() {
				list := h.list()
				if err := f.client.List(ctx, list); err != nil {
					t.Fatal(err)
				}
				_ = meta.EachListItem(list, func(o runtime.Object) error {
					left = append(left, h.kind+"/"+o.(client.Object).GetName()+" "+strings.Join(UserIndex(o.(client.Object)), ","))
					return nil
				})
			}
			want := []string{"GlobalRoleBinding/ann ann", "GlobalRoleBinding/both ann", "RoleBinding/r ann", "GroupBinding/g ann"}
			if !slices.Equal(left, want) {
				t.Errorf("left is %v, want %v", left, want)
			}
		})
	}
}

// A user of the name who comes later is not the creator of a namespace that gets its first roles then, and did not log in before.
func TestADeletedUserLeavesNoRecords(t *testing.T) { // S37
	bob := person("bob", "")
	bob.Finalizers = []string{iamv1beta1.FinalizerUser}
	namespace := func(name, creator string, more ...string) *corev1.Namespace {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{tenantv1beta1.AnnotationCreator: creator}}}
		for _, key := range more {
			n.Annotations[key] = "true"
		}
		return n
	}
	record := func(name, user string) *iamv1beta1.LoginRecord {
		return &iamv1beta1.LoginRecord{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{iamv1beta1.LabelUserReference: user}}}
	}
	f := newFixture(t, false, bob, person("ann", ""), namespace("waits", "bob"), namespace("had", "bob", "kapis.dev/initialized"), namespace("anns", "ann"),
		record("bob-1", "bob"), record("bob-2", "bob"), record("ann-1", "ann"))
	if err := f.client.Delete(ctx, person("bob", "")); err != nil {
		t.Fatal(err)
	}
	f.reconcile("bob")
	for name, want := range map[string]string{"waits": "", "had": "bob", "anns": "ann"} {
		n := &corev1.Namespace{}
		if err := f.client.Get(ctx, types.NamespacedName{Name: name}, n); err != nil || n.Annotations[tenantv1beta1.AnnotationCreator] != want {
			t.Errorf("the creator of %s is %v, want %q (%v)", name, n.Annotations, want, err)
		}
	}
	left := &iamv1beta1.LoginRecordList{}
	if err := f.client.List(ctx, left); err != nil || len(left.Items) != 1 || left.Items[0].Name != "ann-1" {
		t.Errorf("%v: %v", err, left.Items)
	}
}

// No object has a label of such a length, and so no record is of that user.
func TestAUserOfALongNameGoes(t *testing.T) {
	long := strings.Repeat("long", 20)
	u := person(long, "")
	u.Finalizers, u.DeletionTimestamp = []string{iamv1beta1.FinalizerUser}, &metav1.Time{Time: now}
	f := newFixture(t, false, u)
	if u := f.reconcile(long); u.Name != "" {
		t.Error("the user hangs")
	}
}

func TestAnOlderInstallationWithoutAKindLetsUsersGo(t *testing.T) {
	bob := person("bob", "")
	bob.Finalizers, bob.DeletionTimestamp = []string{iamv1beta1.FinalizerUser}, &metav1.Time{Time: now}
	f := newFixture(t, false, bob)
	f.r.indexed = []string{"GlobalRoleBinding", "WorkspaceRoleBinding", "ClusterRoleBinding", "RoleBinding"}
	f.r.Live = interceptor.NewClient(f.client.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "GroupBinding"}}
		},
	})
	if u := f.reconcile("bob"); u.Name != "" {
		t.Error("the user hangs")
	}
}

// S74: deleting the definition of users removes no rights.
func TestS74ADeletedDefinitionOfUsersTakesNoBinding(t *testing.T) {
	bob := person("bob", "")
	bob.Finalizers, bob.DeletionTimestamp = []string{iamv1beta1.FinalizerUser}, &metav1.Time{Time: now}
	w := &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: tenantv1beta1.WorkspaceSpec{Manager: "bob"}}
	f := newFixture(t, false, bob, w, globalBinding("b", "x", "bob"), controllertest.Definition(definition, true))
	if u := f.reconcile("bob"); u.Name != "" {
		t.Error("the user hangs")
	}
	b := &iamv1beta1.GlobalRoleBinding{}
	if err := f.client.Get(ctx, types.NamespacedName{Name: "b"}, b); err != nil || len(b.Subjects) != 1 {
		t.Errorf("the binding: %v %v", b.Subjects, err)
	}
	if err := f.client.Get(ctx, types.NamespacedName{Name: "w"}, w); err != nil || w.Spec.Manager != "bob" {
		t.Errorf("the workspace: %q %v", w.Spec.Manager, err)
	}
}

func TestAUserStaysUntilItIsForgotten(t *testing.T) {
	bob := person("bob", "")
	bob.Finalizers, bob.DeletionTimestamp = []string{iamv1beta1.FinalizerUser}, &metav1.Time{Time: now}
	f := newFixture(t, false, bob, globalBinding("b", "x", "bob"))
	f.r.Client = interceptor.NewClient(f.client.(client.WithWatch), interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("down")
		},
	})
	if _, err := f.r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "bob"}}); err == nil {
		t.Error("no error")
	}
	if err := f.client.Get(ctx, types.NamespacedName{Name: "bob"}, bob); err != nil {
		t.Errorf("the user is gone before its binding: %v", err)
	}
}

func TestADeletedUserOfOthersFinalizersIsLeftAlone(t *testing.T) {
	bob := person("bob", "Passw0rd!")
	bob.Finalizers, bob.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: now}
	f := newFixture(t, false, bob)
	if u := f.reconcile("bob"); f.writes != 0 || u.Spec.Password != "Passw0rd!" {
		t.Errorf("%d writes", f.writes)
	}
}

func TestAConflictIsTriedAgainWithoutAnError(t *testing.T) {
	f := newFixture(t, false, person("bob", "Passw0rd!"))
	f.r.Client = interceptor.NewClient(f.client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return apierrors.NewConflict(iamv1beta1.Resource("users"), "bob", errors.New("newer"))
		},
	})
	r, err := f.r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "bob"}})
	if err != nil || r.RequeueAfter == 0 {
		t.Errorf("%v, %v", r, err)
	}
}

func TestABindingLeadsToItsUsers(t *testing.T) {
	got := usersOf(ctx, globalBinding("b", "x", "bob", "ann", "bob"))
	if len(got) != 2 || got[0].Name != "ann" || got[1].Name != "bob" {
		t.Errorf("got %v", got)
	}
}

// Errors name the user but never a password.
func TestErrorsHoldNoPassword(t *testing.T) {
	f := newFixture(t, false, person("bob", "Passw0rd!"))
	f.r.Client = interceptor.NewClient(f.client.(client.WithWatch), interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("down")
		},
	})
	_, err := f.r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "bob"}})
	if err == nil || !strings.Contains(err.Error(), `"bob"`) || strings.Contains(err.Error(), "Passw0rd!") {
		t.Errorf("%v", err)
	}
}

func FuzzIsHash(f *testing.F) {
	h, err := bcrypt.GenerateFromPassword([]byte("x"), bcrypt.MinCost)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(h))
	f.Add("$2a$31$" + strings.Repeat("a", 53))
	f.Add("Passw0rd!")
	f.Fuzz(func(t *testing.T, s string) {
		if !isHash(s) {
			return
		}
		if c, err := bcrypt.Cost([]byte(s)); err != nil || c < 4 || c > 14 || len(s) != 60 {
			t.Errorf("%q is taken for a hash: cost %d, %v", s, c, err)
		}
	})
}

func TestAHashThatAnotherOneFollowsIsAChange(t *testing.T) {
	first, err := fastHash("Secret-123")
	if err != nil {
		t.Fatal(err)
	}
	second, err := fastHash("Secret-124")
	if err != nil {
		t.Fatal(err)
	}
	u := &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "alice"}, Spec: iamv1beta1.UserSpec{Password: first}}
	f := newFixture(t, false, u)
	change := func() string {
		t.Helper()
		if _, err := f.r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "alice"}}); err != nil {
			t.Fatal(err)
		}
		if err := f.client.Get(ctx, client.ObjectKey{Name: "alice"}, u); err != nil {
			t.Fatal(err)
		}
		return u.Annotations[iamv1beta1.AnnotationLastPasswordChangeTime]
	}
	if at := change(); at != "" {
		t.Errorf("the first hash was changed at %s", at)
	}
	u.Spec.Password = second
	if err := f.client.Update(ctx, u); err != nil {
		t.Fatal(err)
	}
	if at := change(); at != now.Format(time.RFC3339) {
		t.Errorf("the second hash was changed at %q", at)
	}
	if fp := u.Annotations[iamv1beta1.AnnotationPasswordFingerprint]; fp == "" || strings.Contains(second, fp) {
		t.Errorf("fingerprint %q", fp)
	}
}

func TestALockoutInTheStatusEnds(t *testing.T) {
	since := metav1.NewTime(now.Add(-20 * time.Minute))
	for unlock, want := range map[time.Duration]iamv1beta1.UserState{
		10 * time.Minute: iamv1beta1.UserActive, 30 * time.Minute: iamv1beta1.UserAuthLimitExceeded, 0: iamv1beta1.UserAuthLimitExceeded,
	} {
		f := newFixture(t, false, &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "alice"},
			Status: iamv1beta1.UserStatus{State: iamv1beta1.UserAuthLimitExceeded, LastTransitionTime: &since}})
		f.r.Unlock = unlock
		res, err := f.r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "alice"}})
		if err != nil {
			t.Fatal(err)
		}
		u := &iamv1beta1.User{}
		if err := f.client.Get(ctx, client.ObjectKey{Name: "alice"}, u); err != nil {
			t.Fatal(err)
		}
		if u.Status.State != want || (unlock == 30*time.Minute) != (res.RequeueAfter == 10*time.Minute) {
			t.Errorf("%v: %s, again in %v", unlock, u.Status.State, res.RequeueAfter)
		}
	}
}

// S9: a user recreated under an old name manages no workspace.
func TestS9ADeletedUserManagesNoWorkspace(t *testing.T) {
	u := person("bob", "")
	u.Finalizers = []string{iamv1beta1.FinalizerUser}
	w := &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}, Spec: tenantv1beta1.WorkspaceSpec{Manager: "bob"}}
	tpl := &tenantv1beta1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	tpl.Spec.Template.Spec.Manager = "bob"
	other := &tenantv1beta1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: tenantv1beta1.WorkspaceSpec{Manager: "ann"}}
	f := newFixture(t, false, u, w, tpl, other)
	if err := f.client.Delete(ctx, u); err != nil {
		t.Fatal(err)
	}
	f.reconcile("bob")
	for _, o := range []client.Object{w, tpl, other} {
		if err := f.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
	}
	if w.Spec.Manager != "" || tpl.Spec.Template.Spec.Manager != "" || other.Spec.Manager != "ann" {
		t.Errorf("the managers are %q, %q and %q", w.Spec.Manager, tpl.Spec.Template.Spec.Manager, other.Spec.Manager)
	}
}
