package role_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/mirror"
	"kapis.dev/ks-apiserver/pkg/controller/mirror/mirrortest"
	"kapis.dev/ks-apiserver/pkg/controller/role"
)

var ctx = context.Background()

// kindOf returns the Kind of a name such as "GlobalRole".
func kindOf(name string) mirror.Kind {
	all := role.Kinds()
	return all[slices.IndexFunc(all, func(k mirror.Kind) bool { return k.Name == name })]
}

func globalRole(name string, rules ...rbacv1.PolicyRule) *iamv1beta1.GlobalRole {
	return &iamv1beta1.GlobalRole{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}, Rules: rules}
}

func rule(verb, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{resource}}
}

func globalRoleBinding(name, role string, users ...string) *iamv1beta1.GlobalRoleBinding {
	b := &iamv1beta1.GlobalRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: iamv1beta1.GroupName, Kind: iamv1beta1.KindGlobalRole, Name: role},
	}
	for _, u := range users {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: u})
	}
	return b
}

func listPodsAnywhere(user string, groups ...string) mirrortest.Request {
	return mirrortest.Request{User: user, Groups: groups, Verb: "list", Resource: "pods", Namespace: "any"}
}

func TestABoundRoleIsKnownToKubernetes(t *testing.T) {
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), globalRoleBinding("b1", "viewer", "ann"), globalRoleBinding("b2", "viewer", "bob"))
	if n := f.Written(func() { f.Reconcile("", "viewer") }); n != 2 {
		t.Errorf("%d writes, want a role and one binding for all subjects", n)
	}
	for request, want := range map[*mirrortest.Request]bool{
		new(listPodsAnywhere("ann")):                       true,
		new(listPodsAnywhere("bob")):                       true,
		new(listPodsAnywhere("eve")):                       false,
		new(listPodsAnywhere("x", "kapis:global:viewer")):  true,
		new(listPodsAnywhere("x", "kapis:cluster:viewer")): false,
		{User: "ann", Verb: "get", Resource: "pods"}:       false,
	} {
		if got := f.Allowed(*request); got != want {
			t.Errorf("%+v: %t, want %t", *request, got, want)
		}
	}
	native := &rbacv1.ClusterRole{}
	if err := f.Client.Get(ctx, types.NamespacedName{Name: "kubesphere:iam:global:viewer"}, native); err != nil {
		t.Fatal(err)
	}
	if o := native.OwnerReferences; len(o) != 1 || o[0].UID != "uid-of-viewer" || o[0].Kind != "GlobalRole" || o[0].APIVersion != "iam.kubesphere.io/v1beta1" {
		t.Errorf("owned by %v", o)
	}
	if native.Labels[iamv1beta1.LabelManagedBy] != iamv1beta1.ManagedByController || native.Annotations[mirror.AnnotationSource] != "GlobalRole/viewer" {
		t.Errorf("labels %v, annotations %v", native.Labels, native.Annotations)
	}
	if n := f.Written(func() { f.Reconcile("", "viewer") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
}

func TestARoleThatNobodyHasHasNoMirror(t *testing.T) {
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("unbound", rule("list", "pods")), globalRole("empty"), globalRoleBinding("b", "empty", "ann"),
		globalRole("nobody", rule("list", "pods")), globalRoleBinding("b2", "nobody"))
	for _, name := range []string{"unbound", "empty", "nobody", "missing"} {
		if n := f.Written(func() { f.Reconcile("", name) }); n != 0 {
			t.Errorf("%s: %d writes", name, n)
		}
	}
}

// S9: removing a right removes it at kube-apiserver too.
func TestS9ARightGoesWithWhatGaveIt(t *testing.T) {
	for name, take := range map[string]func(*testing.T, *mirrortest.Fixture){
		"TheBinding": func(t *testing.T, f *mirrortest.Fixture) {
			must(t, f.Client.Delete(ctx, globalRoleBinding("b", "viewer")))
		},
		"TheRole": func(t *testing.T, f *mirrortest.Fixture) { must(t, f.Client.Delete(ctx, globalRole("viewer"))) },
		"TheSubject": func(t *testing.T, f *mirrortest.Fixture) {
			patch(t, f, globalRoleBinding("b", "viewer"), `{"subjects":[{"kind":"User","name":"bob"}]}`)
		},
		"TheRule": func(t *testing.T, f *mirrortest.Fixture) { patch(t, f, globalRole("viewer"), `{"rules":[]}`) },
		"TheReference": func(t *testing.T, f *mirrortest.Fixture) {
			patch(t, f, globalRoleBinding("b", "viewer"), `{"roleRef":{"name":"other"}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
			f.Reconcile("", "viewer")
			if !f.Allowed(listPodsAnywhere("ann")) {
				t.Fatal("ann had no right to lose")
			}
			take(t, f)
			f.Reconcile("", "viewer")
			if f.Allowed(listPodsAnywhere("ann")) {
				t.Error("ann kept the right")
			}
		})
	}
}

func TestOneFailureKeepsNobodysRightAlive(t *testing.T) {
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
	f.Reconcile("", "viewer")
	patch(t, f, globalRole("viewer"), `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"true"}}}`)
	f.Refuse = func(verb string, _ client.Object) error {
		if verb == "create" {
			return errors.New("no room")
		}
		return nil
	}
	if _, err := f.TryReconcile("", "viewer"); err == nil || !strings.Contains(err.Error(), `create ClusterRole "kubesphere:iam:conditional:viewer": no room`) {
		t.Errorf("the error is %v", err)
	}
	if f.Allowed(listPodsAnywhere("ann")) {
		t.Error("the right of before outlived the failure")
	}
	f.Refuse = nil
	f.Reconcile("", "viewer")
	if !f.Allowed(listPodsAnywhere("x", "kapis:conditional:global:viewer")) {
		t.Error("the mirror did not heal")
	}
}

// S9: if a native role can't be written, removed subjects are unbound, and no other subject is bound to its old rules.
func TestS9AMemberWhoIsTakenOutLosesHisRightWhereTheRoleCantBeWritten(t *testing.T) {
	invite := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{iamv1beta1.GroupName}, Resources: []string{"workspacemembers"}}
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods"), invite), globalRoleBinding("b", "viewer", "ann", "bob"))
	f.Reconcile("", "viewer")
	must(t, f.Client.Delete(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:iam:implied:global:viewer"}}))
	patch(
		t,
		f,
		globalRole("viewer"),
		`{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]},{"verbs":["create"],"apiGroups":["iam.kubesphere.io"],"resources":["workspacemembers"]}]}`,
	)
	patch(t, f, globalRoleBinding("b", "viewer"), `{"subjects":[{"kind":"User","name":"bob"},{"kind":"User","name":"eve"}]}`)
	f.Refuse = func(_ string, o client.Object) error {
		if o.GetName() == "kubesphere:iam:global:viewer" {
			if _, is := o.(*rbacv1.ClusterRole); is {
				return errors.New("no room")
			}
		}
		return nil
	}
	for range 2 {
		if _, err := f.TryReconcile("", "viewer"); err == nil || !strings.Contains(err.Error(), "no room") {
			t.Fatalf("the error is %v", err)
		}
	}
	for user, want := range map[string]bool{"ann": false, "bob": true, "eve": false} {
		if f.Allowed(listPodsAnywhere(user)) != want {
			t.Errorf("%s: %t", user, !want)
		}
	}
	if !f.Allowed(mirrortest.Request{Groups: []string{"kapis:global:viewer"}, Verb: "create", APIGroup: iamv1beta1.GroupName, Resource: "workspacerolebindings"}) {
		t.Error("the binding of another native role was not made")
	}
	if n := f.Written(func() { _, _ = f.TryReconcile("", "viewer") }); n != 0 {
		t.Errorf("%d writes where nothing is left to take", n)
	}
	native := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:iam:global:viewer"}}
	must(t, f.Client.Delete(ctx, native))
	native.ResourceVersion, native.RoleRef = "", rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}
	native.Labels, native.Annotations = map[string]string{iamv1beta1.LabelManagedBy: iamv1beta1.ManagedByController}, map[string]string{mirror.AnnotationSource: "GlobalRole/viewer"}
	must(t, f.Client.Create(ctx, native))
	_, _ = f.TryReconcile("", "viewer")
	if err := f.Client.Get(ctx, types.NamespacedName{Name: native.Name}, native); !apierrors.IsNotFound(err) {
		t.Errorf("a binding of another role is %+v, %v", native, err)
	}
	f.Refuse = nil
	f.Reconcile("", "viewer")
	if f.Allowed(listPodsAnywhere("bob")) || !f.Allowed(mirrortest.Request{User: "eve", Verb: "get", Resource: "pods", Namespace: "any"}) {
		t.Error("the mirror did not heal")
	}
}

// The remaining subjects stay, in whichever of a role's bindings they are.
func TestManyWhoAreLeftKeepTheirRightWhereTheRoleCantBeWritten(t *testing.T) {
	var users []string
	for i := range 1200 {
		users = append(users, fmt.Sprintf("user-%d", i))
	}
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("regular", rule("list", "pods")), globalRoleBinding("b", "regular", users[:900]...))
	f.Reconcile("", "regular")
	must(t, f.Client.Delete(ctx, globalRoleBinding("b", "regular")))
	must(t, f.Client.Create(ctx, globalRoleBinding("b", "regular", append(users[:7:7], users[8:]...)...))) // now two native bindings are needed
	patch(t, f, globalRole("regular"), `{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}`)
	f.Refuse = func(_ string, o client.Object) error {
		if _, is := o.(*rbacv1.ClusterRole); is {
			return errors.New("no room")
		}
		return nil
	}
	_, _ = f.TryReconcile("", "regular")
	list := &rbacv1.ClusterRoleBindingList{}
	must(t, f.Client.List(ctx, list))
	if len(list.Items) != 1 || len(list.Items[0].Subjects) != 1+899 {
		t.Fatalf("%d bindings, the first of %d subjects", len(list.Items), len(list.Items[0].Subjects))
	}
	for user, want := range map[string]bool{"user-6": true, "user-7": false, "user-899": true, "user-900": false} {
		if f.Allowed(listPodsAnywhere(user)) != want {
			t.Errorf("%s: %t", user, !want)
		}
	}
}

func TestAConditionBindsTheSyntheticGroupOnly(t *testing.T) {
	conditional := globalRole("self", rule("list", "pods"))
	conditional.Annotations = map[string]string{iamv1beta1.AnnotationCELCondition: "request.name == user.name"}
	f := mirrortest.New(t, kindOf("GlobalRole"), conditional, globalRoleBinding("b", "self", "ann"))
	f.Reconcile("", "self")
	for who, want := range map[*mirrortest.Request]bool{
		new(listPodsAnywhere("ann")):                                  false,
		new(listPodsAnywhere("ann", "kapis:global:self")):             false,
		new(listPodsAnywhere("ann", "kapis:conditional:global:self")): true,
		new(listPodsAnywhere("ann", "system:authenticated", "other")): false,
	} {
		if got := f.Allowed(*who); got != want {
			t.Errorf("%+v: %t, want %t", *who, got, want)
		}
	}
	patch(t, f, globalRole("self"), `{"metadata":{"annotations":null}}`)
	f.Reconcile("", "self")
	if !f.Allowed(listPodsAnywhere("ann")) || f.Allowed(listPodsAnywhere("x", "kapis:conditional:global:self")) {
		t.Error("the condition's end did not show")
	}
}

func TestAnEmptyConditionIsAConditionToo(t *testing.T) {
	r := globalRole("self", rule("list", "pods"))
	r.Annotations = map[string]string{iamv1beta1.AnnotationCELCondition: ""}
	f := mirrortest.New(t, kindOf("GlobalRole"), r, globalRoleBinding("b", "self", "ann"))
	f.Reconcile("", "self")
	if f.Allowed(listPodsAnywhere("ann")) {
		t.Error("a right without the condition")
	}
}

func TestAStrangersObjectIsLeftAloneAndBoundToNobody(t *testing.T) {
	foreign := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:iam:global:viewer"}, Rules: []rbacv1.PolicyRule{rule("list", "secrets")}}
	f := mirrortest.New(t, kindOf("GlobalRole"), foreign, globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
	var again bool
	if n := f.Written(func() { again = f.Reconcile("", "viewer").RequeueAfter > 0 }); n != 0 || !again {
		t.Errorf("%d writes, looks again: %t", n, again)
	}
	if f.Allowed(mirrortest.Request{User: "ann", Verb: "list", Resource: "secrets", Namespace: "x"}) {
		t.Error("the stranger's rules were given to the role's subjects")
	}
	if e := <-f.Events; !strings.Contains(e, "NotMirrored") || !strings.Contains(e, "kubesphere:iam:global:viewer") {
		t.Errorf("the event says %q", e)
	}
	must(t, f.Client.Delete(ctx, foreign))
	f.Reconcile("", "viewer")
	if !f.Allowed(listPodsAnywhere("ann")) {
		t.Error("the mirror did not heal when the way was free")
	}
}

func TestALabelTakenOffMakesTheRoleAStrangers(t *testing.T) {
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
	f.Reconcile("", "viewer")
	native := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:iam:global:viewer"}}
	patch(t, f, native, `{"metadata":{"labels":null},"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`)
	f.Reconcile("", "viewer")
	if f.Allowed(mirrortest.Request{User: "ann", Verb: "delete", Resource: "nodes"}) {
		t.Error("rules that somebody else wrote are the role's subjects'")
	}
}

func TestEditsOfNativeObjectsAreUndone(t *testing.T) {
	name := "kubesphere:iam:global:viewer"
	for claim, edit := range map[string]func(*testing.T, *mirrortest.Fixture){
		"Rules": func(t *testing.T, f *mirrortest.Fixture) {
			patch(t, f, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`)
		},
		"AggregationRule": func(t *testing.T, f *mirrortest.Fixture) {
			patch(t, f, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"aggregationRule":{"clusterRoleSelectors":[{}]}}`)
		},
		"Subjects": func(t *testing.T, f *mirrortest.Fixture) {
			patch(t, f, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"subjects":[{"kind":"User","name":"eve"}]}`)
		},
		"RoleRef": func(t *testing.T, f *mirrortest.Fixture) {
			patch(t, f, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"roleRef":{"name":"cluster-admin"}}`)
		},
		"Source": func(t *testing.T, f *mirrortest.Fixture) {
			patch(t, f, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":{"annotations":{"kapis.dev/mirror-of":"GlobalRole/other"}}}`)
		},
		"Deleted": func(t *testing.T, f *mirrortest.Fixture) {
			must(t, f.Client.Delete(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		},
	} {
		t.Run(claim, func(t *testing.T) {
			f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
			f.Reconcile("", "viewer")
			edit(t, f)
			f.Reconcile("", "viewer")
			b := &rbacv1.ClusterRoleBinding{}
			must(t, f.Client.Get(ctx, types.NamespacedName{Name: name}, b))
			r := &rbacv1.ClusterRole{}
			must(t, f.Client.Get(ctx, types.NamespacedName{Name: name}, r))
			if b.RoleRef.Name != name || len(b.Subjects) != 2 || b.Annotations[mirror.AnnotationSource] != "GlobalRole/viewer" || r.AggregationRule != nil {
				t.Errorf("%v\n%v", b, r)
			}
			if !f.Allowed(listPodsAnywhere("ann")) || f.Allowed(listPodsAnywhere("eve")) || f.Allowed(mirrortest.Request{User: "ann", Verb: "delete", Resource: "nodes"}) {
				t.Error("the edit counts")
			}
		})
	}
}

func TestWhatOthersWroteOnNativeObjectsStays(t *testing.T) {
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
	f.Reconcile("", "viewer")
	native := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:iam:global:viewer"}}
	patch(t, f, native, `{"metadata":{"labels":{"team":"a"}}}`)
	if n := f.Written(func() { f.Reconcile("", "viewer") }); n != 0 {
		t.Errorf("%d writes for a label of somebody else", n)
	}
}

func TestALeftoverOfARoleThatIsGoneIsSwept(t *testing.T) {
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
	f.Reconcile("", "viewer")
	must(t, f.Client.Delete(ctx, globalRole("viewer")))
	f.Reconcile("", "viewer")
	if n := f.Natives(); n != 0 {
		t.Errorf("%d native objects are left", n)
	}
}

func TestFinalizersOfAnOlderInstallationAreReleased(t *testing.T) {
	r, b := globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann")
	r.Finalizers, b.Finalizers = []string{iamv1beta1.FinalizerGlobalRole}, []string{iamv1beta1.FinalizerGlobalRoleBinding, "somebody/else"}
	f := mirrortest.New(t, kindOf("GlobalRole"), r, b)
	f.Reconcile("", "viewer")
	must(t, f.Client.Delete(ctx, globalRoleBinding("b", "viewer")))
	must(t, f.Client.Delete(ctx, globalRole("viewer")))
	f.Reconcile("", "viewer")
	if f.Allowed(listPodsAnywhere("ann")) {
		t.Error("a deleted role grants")
	}
	if err := f.Client.Get(ctx, types.NamespacedName{Name: "viewer"}, r); !apierrors.IsNotFound(err) {
		t.Errorf("the role hangs: %v", err)
	}
	must(t, f.Client.Get(ctx, types.NamespacedName{Name: "b"}, b))
	if len(b.Finalizers) != 1 || b.Finalizers[0] != "somebody/else" {
		t.Errorf("the binding's finalizers are %v", b.Finalizers)
	}
}

func TestABindingOfAnotherKindDoesNotCount(t *testing.T) {
	b := globalRoleBinding("b", "viewer", "ann")
	b.RoleRef.Kind = "ClusterRole"
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), b)
	if n := f.Written(func() { f.Reconcile("", "viewer") }); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestManySubjectsNeedFewObjects(t *testing.T) {
	objects := []client.Object{globalRole("regular", rule("list", "pods"))}
	for i := range 2500 {
		objects = append(objects, globalRoleBinding(fmt.Sprintf("b-%d", i), "regular", fmt.Sprintf("user-%d", i)))
	}
	f := mirrortest.New(t, kindOf("GlobalRole"), objects...)
	if n := f.Written(func() { f.Reconcile("", "regular") }); n != 1+4 {
		t.Errorf("%d writes, want a role and four bindings", n)
	}
	if !f.Allowed(listPodsAnywhere("user-0")) || !f.Allowed(listPodsAnywhere("user-2499")) {
		t.Error("somebody is left out")
	}
	must(t, f.Client.Delete(ctx, globalRoleBinding("b-7", "regular")))
	if n := f.Written(func() { f.Reconcile("", "regular") }); n != 1 || f.Allowed(listPodsAnywhere("user-7")) {
		t.Errorf("%d writes for one user less", n)
	}
}

func TestTemplatesGiveTheirRulesAndTakeThemAway(t *testing.T) {
	template := func(name, scope string, r rbacv1.PolicyRule) *iamv1beta1.RoleTemplate {
		return &iamv1beta1.RoleTemplate{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{iamv1beta1.LabelScope: scope, "pick": "me"}},
			Spec:       iamv1beta1.RoleTemplateSpec{Rules: []rbacv1.PolicyRule{r}},
		}
	}
	r := globalRole("picker", rule("list", "nodes"))
	r.AggregationRoleTemplates = &iamv1beta1.AggregationRoleTemplates{RoleSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pick": "me"}}}
	f := mirrortest.New(t, kindOf("GlobalRole"), r, globalRoleBinding("b", "picker", "ann"),
		template("view-pods", "global", rule("list", "pods")), template("view-secrets", "namespace", rule("list", "secrets")))
	f.Reconcile("", "picker")
	may := func(resource string) bool {
		return f.Allowed(mirrortest.Request{User: "ann", Verb: "list", Resource: resource, Namespace: "x"})
	}
	if !may("pods") || !may("nodes") || may("secrets") {
		t.Errorf("pods %t, own rule %t, another scope's %t", may("pods"), may("nodes"), may("secrets"))
	}
	got := &iamv1beta1.GlobalRole{}
	must(t, f.Client.Get(ctx, types.NamespacedName{Name: "picker"}, got))
	if names := got.AggregationRoleTemplates.TemplateNames; len(names) != 1 || names[0] != "view-pods" {
		t.Errorf("the role names %v", names)
	}
	if n := f.Written(func() { f.Reconcile("", "picker") }); n != 0 {
		t.Errorf("a second time wrote %d times", n)
	}
	must(t, f.Client.Delete(ctx, template("view-pods", "global", rule("list", "pods"))))
	f.Reconcile("", "picker")
	if may("pods") || !may("nodes") {
		t.Errorf("after the template: pods %t, own rule %t", may("pods"), may("nodes"))
	}
}

func TestABadSelectorIsToldAndChangesNothing(t *testing.T) {
	r := globalRole("picker", rule("list", "pods"))
	r.AggregationRoleTemplates = &iamv1beta1.AggregationRoleTemplates{RoleSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "x", Operator: "Around"}}}}
	f := mirrortest.New(t, kindOf("GlobalRole"), r, globalRoleBinding("b", "picker", "ann"))
	f.Reconcile("", "picker")
	if e := <-f.Events; !strings.Contains(e, "NotAggregated") {
		t.Errorf("the event says %q", e)
	}
	if !f.Allowed(listPodsAnywhere("ann")) {
		t.Error("the role's own rules are not mirrored")
	}
}

func TestAConflictIsTriedAgainWithoutAnError(t *testing.T) {
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
	f.Refuse = func(string, client.Object) error {
		return apierrors.NewConflict(rbacv1.Resource("clusterroles"), "x", errors.New("newer"))
	}
	if r, err := f.TryReconcile("", "viewer"); err != nil || r.RequeueAfter == 0 {
		t.Errorf("%v, %v", r, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func patch(t *testing.T, f *mirrortest.Fixture, o client.Object, text string) {
	t.Helper()
	must(t, f.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(text))))
}

// A role of an older installation: its rules hold for all its subjects; ks-apiserver evaluates its policy, which at kube-apiserver gives
// no more than the right to write a user. A caller who could delete users would pass for a manager of users there
// (config/install/admission.yaml).
func TestAPolicyInRegoIsTheSyntheticGroupsOnly(t *testing.T) {
	const conditional = "kapis:conditional:global:authenticated"
	r := globalRole("authenticated", rule("list", "pods"))
	r.Annotations = map[string]string{iamv1beta1.AnnotationRegoOverride: "package authz\ndefault allow = false"}
	f := mirrortest.New(t, kindOf("GlobalRole"), r, globalRoleBinding("b", "authenticated", "ann"))
	f.Reconcile("", "authenticated")
	users := func(verb, user string, groups ...string) mirrortest.Request {
		return mirrortest.Request{User: user, Groups: groups, Verb: verb, APIGroup: iamv1beta1.GroupName, Resource: "users", Name: "ann"}
	}
	for r, want := range map[*mirrortest.Request]bool{
		new(listPodsAnywhere("ann")):                                true,
		new(listPodsAnywhere("x", "kapis:global:authenticated")):    true,
		new(listPodsAnywhere("x", conditional)):                     false,
		new(users("patch", "ann")):                                  false,
		new(users("patch", "ann", "kapis:global:authenticated")):    false,
		new(users("patch", "ann", conditional)):                     true,
		new(users("delete", "ann", conditional)):                    false,
		new(users("patch", "x", "kapis:conditional:authenticated")): false,
		{Groups: []string{conditional}, Verb: "create", APIGroup: iamv1beta1.GroupName, Resource: "globalrolebindings"}: false,
	} {
		if got := f.Allowed(*r); got != want {
			t.Errorf("%+v: %t, want %t", *r, got, want)
		}
	}
	patch(t, f, globalRole("authenticated"), `{"metadata":{"annotations":{"iam.kubesphere.io/cel-condition":"request.verb == 'get'"}}}`)
	f.Reconcile("", "authenticated")
	if f.Allowed(listPodsAnywhere("ann")) || f.Allowed(listPodsAnywhere("x", "kapis:global:authenticated")) || !f.Allowed(listPodsAnywhere("x", conditional)) {
		t.Error("a condition beside a policy is no condition")
	}
	patch(t, f, globalRole("authenticated"), `{"metadata":{"annotations":null}}`)
	f.Reconcile("", "authenticated")
	if f.Allowed(users("patch", "ann", conditional)) || !f.Allowed(listPodsAnywhere("ann")) {
		t.Error("the policy's end did not show")
	}
}

func TestAnInvitationNeedsNoRightToBindings(t *testing.T) {
	invite := rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{iamv1beta1.GroupName}, Resources: []string{"workspacemembers"}}
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("inviter", invite), globalRoleBinding("b", "inviter", "ann"))
	f.Reconcile("", "inviter")
	ask := mirrortest.Request{Groups: []string{"kapis:global:inviter"}, Verb: "create", APIGroup: iamv1beta1.GroupName, Resource: "workspacerolebindings"}
	if !f.Allowed(ask) {
		t.Error("the synthetic group may not write the binding that an invitation is")
	}
	ask.User, ask.Groups = "ann", nil
	if f.Allowed(ask) {
		t.Error("ann may write bindings at kube-apiserver, past ks-apiserver")
	}
	foreign := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kubesphere:iam:implied:global:other"}}
	must(t, f.Client.Create(ctx, foreign))
	must(t, f.Client.Create(ctx, globalRole("other", invite, rule("list", "pods"))))
	must(t, f.Client.Create(ctx, globalRoleBinding("b2", "other", "bob")))
	if r := f.Reconcile("", "other"); r.RequeueAfter == 0 || !f.Allowed(listPodsAnywhere("bob")) {
		t.Error("a stranger's object in one place keeps the mirror from the other")
	}
}

func TestARuleWithAWrongWordIsNotMirroredAndTold(t *testing.T) { // S63
	master := rbacv1.PolicyRule{Verbs: []string{"get],APIGroups:[],Resources:[pods],ResourceNames:[junk", "*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
	f := mirrortest.New(t, kindOf("GlobalRole"), globalRole("viewer", master, rule("list", "pods")), globalRoleBinding("b", "viewer", "ann"))
	f.Reconcile("", "viewer")
	if !f.Allowed(listPodsAnywhere("ann")) || f.Allowed(mirrortest.Request{User: "ann", Verb: "get", Resource: "secrets"}) {
		t.Error("the rule is mirrored, or the other one is not")
	}
	if e := <-f.Events; !strings.Contains(e, "RulesIgnored") || !strings.Contains(e, "rule 0 gives nothing") {
		t.Errorf("unexpected event %q", e)
	}
	template := &iamv1beta1.RoleTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Labels: map[string]string{iamv1beta1.LabelScope: "global"}},
		Spec:       iamv1beta1.RoleTemplateSpec{Rules: []rbacv1.PolicyRule{master, rule("list", "pods")}},
	}
	made := globalRole("made")
	made.AggregationRoleTemplates = &iamv1beta1.AggregationRoleTemplates{TemplateNames: []string{"t"}}
	f = mirrortest.New(t, kindOf("GlobalRole"), made, template, globalRoleBinding("b", "made", "ann"))
	f.Reconcile("", "made")
	if !f.Allowed(listPodsAnywhere("ann")) || f.Allowed(mirrortest.Request{User: "ann", Verb: "get", Resource: "secrets"}) {
		t.Error("the rule of the template is mirrored, or the other one is not")
	}
	if e := <-f.Events; !strings.Contains(e, "RulesIgnored") {
		t.Errorf("unexpected event %q", e)
	}
}
