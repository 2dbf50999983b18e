package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	platform "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	controller "kapis.dev/ks-apiserver/pkg/controller/extension"
	"kapis.dev/ks-apiserver/pkg/extension"
)

func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(s), platform.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build()
}

func reconciled(t *testing.T, r reconcile.Reconciler, name string) reconcile.Result {
	t.Helper()
	out, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheDigestOfABundleIsNoted(t *testing.T) { // X14
	o := &v1alpha1.JSBundle{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Status: v1alpha1.JSBundleStatus{Status: v1alpha1.Status{State: v1alpha1.StateAvailable}},
		Spec: v1alpha1.JSBundleSpec{RawFrom: &v1alpha1.Source{ConfigMapKeyRef: &v1alpha1.KeyReference{Namespace: "shop", Name: "web", Key: "index.js"}}}}
	c := newClient(t, o)
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Data: map[string]string{"index.js": "one"}}
	kube := kubefake.NewClientset(source)
	r := &controller.Bundles{Client: c, Files: extension.NewFiles(extension.NewIndex(extension.Options{}), extension.Keys{Client: kube}, time.Now)}
	noted := func() (digest, version string) {
		t.Helper()
		if again := reconciled(t, r, "shop"); again.RequeueAfter <= 0 {
			t.Error("its source is not read again")
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		return o.Annotations[v1alpha1.AnnotationDigest], o.ResourceVersion
	}
	first, version := noted()
	if first != extension.Digest([]byte("one")) {
		t.Errorf("%q", first)
	}
	if same, still := noted(); same != first || still != version {
		t.Error("what has not changed is written")
	}
	source.Data["index.js"] = "two"
	if _, err := kube.CoreV1().ConfigMaps("shop").Update(t.Context(), source, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if next, now := noted(); next != extension.Digest([]byte("two")) || now == version {
		t.Errorf("%q, version %s", next, now)
	}
	if err := kube.CoreV1().ConfigMaps("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if kept, _ := noted(); kept != extension.Digest([]byte("two")) {
		t.Errorf("without its source: %q", kept)
	}
}

func TestReachableChangesAfterSeveralAnswers(t *testing.T) { // X10
	url := "http://backend.example"
	o := &v1alpha1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 1}, Status: v1alpha1.Status{State: v1alpha1.StateAvailable},
		Spec: v1alpha1.APIServiceSpec{Endpoint: v1alpha1.Endpoint{URL: &url}}}
	c, now := newClient(t, o), time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var answer error
	asked := 0
	r := controller.NewProbes(c, func() client.Object { return &v1alpha1.APIService{} }, func(context.Context, *v1alpha1.Endpoint) error {
		asked++
		return answer
	}, func() time.Time { return now })
	after := func(err error) metav1.ConditionStatus {
		t.Helper()
		answer = err
		reconciled(t, r, "shop")
		reconciled(t, r, "shop") // the write of the condition
		now = now.Add(time.Minute)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		for _, is := range o.Status.Conditions {
			if is.Type == v1alpha1.ConditionReachable {
				return is.Status
			}
		}
		return ""
	}
	down := errors.New("dial tcp 10.0.0.1:80: refused")
	for i, step := range []struct {
		err  error
		want metav1.ConditionStatus
	}{{nil, "True"}, {down, "True"}, {down, "True"}, {down, "False"}, {nil, "False"}, {nil, "True"}, {down, "True"}, {nil, "True"}, {down, "True"}} {
		if got := after(step.err); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	if asked != 9 {
		t.Errorf("asked %d times in 9 rounds", asked)
	}
	for _, is := range o.Status.Conditions {
		if strings.Contains(is.Message, "10.0.0.1") {
			t.Errorf("a condition tells an address: %s", is.Message)
		}
	}
}

func request(t *testing.T, resource string, o, old any) webhook.Request {
	t.Helper()
	in := webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}}
	in.Resource.Resource = resource
	var err error
	if in.Object.Raw, err = json.Marshal(o); err != nil {
		t.Fatal(err)
	}
	if old != nil {
		in.Operation = admissionv1.Update
		if in.OldObject.Raw, err = json.Marshal(old); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

type obj = map[string]any

func TestObjectsAlwaysHaveAState(t *testing.T) {
	for name, c := range map[string]struct {
		resource string
		o, old   any
		want     []string
	}{
		"New":       {"apiservices", obj{"metadata": obj{"name": "a"}}, nil, []string{`"state":"Available"`}},
		"Disabled":  {"apiservices", obj{"status": obj{"state": "Disabled"}}, nil, nil},
		"LeftOut":   {"apiservices", obj{}, obj{"status": obj{"state": "Disabled", "conditions": []any{}}}, []string{`"state":"Disabled"`}},
		"Bundle":    {"jsbundles", obj{"metadata": obj{"name": "shop"}}, nil, []string{`/dist/shop/index.js`, `Available`}},
		"HasItsOwn": {"jsbundles", obj{"metadata": obj{"name": "shop"}, "status": obj{"state": "Available", "link": "/dist/x/y.js"}}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out := controller.Defaulter{}.Handle(t.Context(), request(t, c.resource, c.o, c.old))
			text, err := json.Marshal(out.Patches)
			if err != nil || !out.Allowed {
				t.Fatalf("%+v %v", out, err)
			}
			if len(c.want) == 0 && len(out.Patches) > 0 {
				t.Errorf("%s", text)
			}
			for _, want := range c.want {
				if !strings.Contains(string(text), want) {
					t.Errorf("%s, want %s", text, want)
				}
			}
		})
	}
}

// What was there before its rules can be disabled and deleted.
func TestWhatChangesOnlyItsStateIsNotJudged(t *testing.T) { // X42
	v := &controller.Validator{Live: newClient(t)}
	bad := func(state string) obj {
		return obj{"metadata": obj{"name": "old"}, "spec": obj{"matcher": obj{"path": "/elsewhere/*"}}, "status": obj{"state": state}}
	}
	if out := v.Handle(t.Context(), request(t, "reverseproxies", bad("Disabled"), bad("Available"))); !out.Allowed {
		t.Errorf("%+v", out.Result)
	}
	if out := v.Handle(t.Context(), request(t, "reverseproxies", bad("Available"), nil)); out.Allowed {
		t.Error("it is written anew")
	}
	changed := bad("Available")
	changed["metadata"] = obj{"name": "old", "labels": obj{v1alpha1.LabelExtension: "other"}}
	if out := v.Handle(t.Context(), request(t, "reverseproxies", changed, bad("Available"))); out.Allowed {
		t.Error("it goes to another extension")
	}
}
