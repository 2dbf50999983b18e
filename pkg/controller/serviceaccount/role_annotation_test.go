package serviceaccount

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

func robot(role string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "1"}}
	if role != "" {
		a.Annotations = map[string]string{iamv1beta1.AnnotationRole: role}
	}
	return a
}

func newReconciler(t *testing.T, guarded bool, objects ...client.Object) *Reconciler {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, iamv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return &Reconciler{Client: fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build(), Events: events.NewFakeRecorder(5),
		Guarded: func(context.Context) (bool, error) { return guarded, nil }}
}

func (r *Reconciler) run(t *testing.T) *iamv1beta1.RoleBinding {
	t.Helper()
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "robot"}}); err != nil {
		t.Fatal(err)
	}
	b := &iamv1beta1.RoleBinding{}
	if err := r.Client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "ks-serviceaccount-robot"}, b); err != nil {
		return nil
	}
	return b
}

func TestAServiceAccountWithoutTheAnnotationIsNoError(t *testing.T) {
	if b := newReconciler(t, true, robot("")).run(t); b != nil {
		t.Errorf("a binding: %+v", b)
	}
}

func TestTheAnnotationIsABinding(t *testing.T) {
	r := newReconciler(t, true, robot("operator"))
	b := r.run(t)
	if b == nil || b.RoleRef.Name != "operator" || b.RoleRef.Kind != "Role" || len(b.Subjects) != 1 || b.Subjects[0].Kind != "ServiceAccount" ||
		b.Subjects[0].Name != "robot" || b.Subjects[0].Namespace != "ns" || len(b.OwnerReferences) != 1 ||
		b.Labels[iamv1beta1.LabelServiceAccountReference] != "robot" {
		t.Fatalf("%+v", b)
	}
	version := b.ResourceVersion
	if b = r.run(t); b.ResourceVersion != version {
		t.Error("a second time wrote")
	}
	for _, role := range []string{"viewer", ""} {
		if err := r.Client.Update(t.Context(), robot(role)); err != nil {
			t.Fatal(err)
		}
		if b = r.run(t); role == "" && b != nil || role != "" && (b == nil || b.RoleRef.Name != role) {
			t.Errorf("the annotation says %q, the binding %+v", role, b)
		}
	}
}

// Names of objects have up to 253 characters, and values of labels up to 63.
func TestNamesThatAreTooLongForLabelsAreBoundAllTheSame(t *testing.T) {
	long := strings.Repeat("r", 64)
	r := newReconciler(t, true, robot("operator"))
	if b := r.run(t); b == nil || b.Labels[iamv1beta1.LabelRoleReference] != "operator" {
		t.Fatalf("%+v", b)
	}
	if err := r.Client.Update(t.Context(), robot(long)); err != nil {
		t.Fatal(err)
	}
	made := binding("ns", long, long)
	for name, b := range map[string]*iamv1beta1.RoleBinding{"Changed": r.run(t), "Made": made} {
		if b == nil || b.RoleRef.Name != long {
			t.Fatalf("%s: %+v", name, b)
		}
		for key, value := range b.Labels {
			if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 || key == iamv1beta1.LabelRoleReference {
				t.Errorf("%s: %s: %q: %v", name, key, value, wrong)
			}
		}
	}
	if made.Subjects[0].Name != long {
		t.Errorf("%+v", made)
	}
}

func TestWithoutTheWebhookNoAnnotationCounts(t *testing.T) { // S60
	r := newReconciler(t, false, robot("admin"))
	if b := r.run(t); b != nil {
		t.Fatalf("%+v", b)
	}
	if e := <-r.Events.(*events.FakeRecorder).Events; !strings.Contains(e, "RoleNotBound") {
		t.Error(e)
	}
}

func TestSomebodyElsesBindingStays(t *testing.T) {
	theirs := binding("ns", "robot", "viewer")
	theirs.TypeMeta = metav1.TypeMeta{}
	if b := newReconciler(t, true, robot("admin"), theirs).run(t); b == nil || b.RoleRef.Name != "viewer" {
		t.Errorf("%+v", b)
	}
}

func TestOnlyAWebhookThatMissesNothingCounts(t *testing.T) {
	full := func() admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			FailurePolicy: ptr.To(admissionregistrationv1.Fail),
			ClientConfig:  admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Path: ptr.To(Path)}},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"serviceaccounts"}}}},
		}
	}
	fine := []admissionregistrationv1.MatchCondition{{Name: "fine", Expression: "true"}}
	for name, c := range map[string]struct {
		change func(w *admissionregistrationv1.ValidatingWebhook)
		want   bool
	}{
		"Full": {func(*admissionregistrationv1.ValidatingWebhook) {}, true},
		"ByURL": {func(w *admissionregistrationv1.ValidatingWebhook) {
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1" + Path)}
		}, true},
		"OtherPath": {func(w *admissionregistrationv1.ValidatingWebhook) { w.ClientConfig.Service.Path = ptr.To("/x") }, false},
		"Ignores": {func(w *admissionregistrationv1.ValidatingWebhook) {
			w.FailurePolicy = ptr.To(admissionregistrationv1.Ignore)
		}, false},
		"SomeNamespaces": {func(w *admissionregistrationv1.ValidatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, false},
		"CreatesOnly":                    {func(w *admissionregistrationv1.ValidatingWebhook) { w.Rules[0].Operations = w.Rules[0].Operations[:1] }, false},
		"AskedUnderAConditionThatIsFine": {func(w *admissionregistrationv1.ValidatingWebhook) { w.MatchConditions = fine }, true},
		"AskedUnderAnother": {func(w *admissionregistrationv1.ValidatingWebhook) {
			w.MatchConditions = append(slices.Clone(fine), admissionregistrationv1.MatchCondition{Name: "fine", Expression: "false"})
		}, false},
		"OtherKinds": {func(w *admissionregistrationv1.ValidatingWebhook) { w.Rules[0].Resources = []string{"pods"} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := full()
			c.change(&w)
			r := newReconciler(
				t,
				true,
				&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{w}},
			)
			if got, err := isGuarded(t.Context(), r.Client, fine); err != nil || got != c.want {
				t.Errorf("%t, %v", got, err)
			}
		})
	}
}
