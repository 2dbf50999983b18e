package ksserviceaccount

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/token"
)

const secret = "robot-kstoken-01234567"

func robot() *v1alpha1.ServiceAccount {
	return &v1alpha1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot", UID: "01234567-89ab"}}
}

func newReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	api := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).Build()
	return &Reconciler{Client: api, Live: api, Random: rand.Reader}
}

func (r *Reconciler) run(t *testing.T) error {
	t.Helper()
	_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "robot"}})
	return err
}

func (r *Reconciler) read(t *testing.T) (*v1alpha1.ServiceAccount, *corev1.Secret) {
	t.Helper()
	a, s := &v1alpha1.ServiceAccount{}, &corev1.Secret{}
	if err := r.Client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "robot"}, a); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: secret}, s); err != nil {
		t.Fatal(err)
	}
	return a, s
}

func TestAnAccountHasASecretOfItsOwn(t *testing.T) {
	r := newReconciler(t, robot())
	if err := r.run(t); err != nil {
		t.Fatal(err)
	}
	a, s := r.read(t)
	if len(a.Secrets) != 1 || a.Secrets[0].Name != secret || !metav1.IsControlledBy(s, a) || s.Type != v1alpha1.SecretTypeServiceAccountToken ||
		s.Annotations[v1alpha1.AnnotationServiceAccountName] != "robot" || s.Annotations[v1alpha1.AnnotationServiceAccountUID] != string(a.UID) {
		t.Errorf("%+v %+v", a, s.ObjectMeta)
	}
	parsed, err := token.ParseServiceAccount(string(s.Data["token"]))
	if err != nil || parsed.Account != token.ServiceAccountID(string(a.UID)) {
		t.Errorf("%v", err)
	}
	if err := r.run(t); err != nil {
		t.Fatal(err)
	}
	if b, again := r.read(t); again.ResourceVersion != s.ResourceVersion || b.ResourceVersion != a.ResourceVersion {
		t.Error("a second time wrote")
	}
}

func TestADeletedSecretIsANewToken(t *testing.T) {
	r := newReconciler(t, robot())
	_ = r.run(t)
	_, old := r.read(t)
	if err := r.Client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t); err != nil {
		t.Fatal(err)
	}
	if _, s := r.read(t); string(s.Data["token"]) == string(old.Data["token"]) {
		t.Error("the token came back")
	}
}

func TestTokensOfOthersAreReplaced(t *testing.T) {
	foreign, _ := token.NewServiceAccount("other", rand.Reader)
	for name, text := range map[string]string{"Legacy": "eyJhbGciOiJIUzI1NiJ9.e30.x", "Copied": foreign, "Weak": "1", "Empty": ""} {
		t.Run(name, func(t *testing.T) {
			r := newReconciler(t, robot())
			_ = r.run(t)
			_, s := r.read(t)
			s.Data["token"], s.Annotations = []byte(text), nil
			if err := r.Client.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if err := r.run(t); err != nil {
				t.Fatal(err)
			}
			_, s = r.read(t)
			if p, err := token.ParseServiceAccount(string(s.Data["token"])); err != nil || p.Account != token.ServiceAccountID("01234567-89ab") ||
				len(s.Annotations) != 2 {
				t.Errorf("%v %v", err, s.Annotations)
			}
		})
	}
}

func TestASecretOfAnOlderInstallationIsNoLongerNamed(t *testing.T) {
	a := robot()
	a.Secrets = []corev1.ObjectReference{{Name: "robot-old"}}
	r := newReconciler(t, a)
	_ = r.run(t)
	if a, _ := r.read(t); len(a.Secrets) != 1 || a.Secrets[0].Name != secret {
		t.Errorf("%v", a.Secrets)
	}
}

func TestSomebodyElsesSecretIsNotTaken(t *testing.T) {
	r := newReconciler(t, robot(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: secret}, Data: map[string][]byte{"token": []byte("x")}})
	if err := r.run(t); err == nil {
		t.Error("no error")
	}
	if a, s := r.read(t); len(a.Secrets) != 0 || string(s.Data["token"]) != "x" {
		t.Errorf("%v", a.Secrets)
	}
}

func TestADeletedAccountIsLetGo(t *testing.T) {
	a := robot()
	a.Finalizers = []string{v1alpha1.FinalizerServiceAccount}
	r := newReconciler(t, a)
	if err := r.Client.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := r.run(t); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(a), a); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("it is still there: %v", err)
	}
}

func inject(t *testing.T, api client.Client, pod *corev1.Pod) (admission.Response, *corev1.Pod) {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	resp := (&Injector{Client: api, Live: api}).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "ns", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
	}})
	text, err := json.Marshal(resp.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatal(err)
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
	return resp, out
}

func podOf(account string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i"}},
		Containers:     []corev1.Container{{Name: "a"}, {Name: "b", VolumeMounts: []corev1.VolumeMount{{Name: "mine", MountPath: MountPath}}}},
	}}
	if account != "" {
		p.Annotations = map[string]string{v1alpha1.AnnotationPodServiceAccount: account}
	}
	return p
}

func TestPodsThatAskForItGetTheToken(t *testing.T) {
	r := newReconciler(t, robot())
	_ = r.run(t)
	resp, pod := inject(t, r.Client, podOf("robot"))
	if !resp.Allowed || len(pod.Spec.Volumes) != 1 || pod.Spec.Volumes[0].Secret.SecretName != secret {
		t.Fatalf("%+v %+v", resp.Result, pod.Spec.Volumes)
	}
	for _, c := range []corev1.Container{pod.Spec.InitContainers[0], pod.Spec.Containers[0]} {
		if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != MountPath || !c.VolumeMounts[0].ReadOnly {
			t.Errorf("%s: %+v", c.Name, c.VolumeMounts)
		}
	}
	if m := pod.Spec.Containers[1].VolumeMounts; len(m) != 1 || m[0].Name != "mine" {
		t.Errorf("what a container has there is gone: %+v", m)
	}
	if _, twice := inject(t, r.Client, pod); len(twice.Spec.Volumes) != 1 || len(twice.Spec.Containers[0].VolumeMounts) != 1 {
		t.Errorf("asked again, it adds again: %+v", twice.Spec)
	}
}

// A newer kube-apiserver has fields in its pods that are unknown here, and numbers that are too large for a float.
func TestAPodKeepsWhatIsNotKnownHere(t *testing.T) {
	r := newReconciler(t, robot())
	_ = r.run(t)
	const pod = `{"metadata":{"annotations":{"kubesphere.io/serviceaccount-name":"robot"},"new":1},"spec":{"new":{"a":9007199254740993},
"volumes":[{"name":"v","new":{}},{"name":"kubesphere-service-account"}],"containers":[{"name":"a","new":[1],"volumeMounts":[{"name":"v","mountPath":"/v","new":true}]}]},"new":"x"}`
	resp := (&Injector{Client: r.Client, Live: r.Client}).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: "ns", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(pod)},
	}})
	if !resp.Allowed || len(resp.Patches) == 0 {
		t.Fatalf("%+v", resp)
	}
	for _, p := range resp.Patches {
		if p.Operation == "remove" || !strings.HasPrefix(p.Path, "/spec/volumes/1") && p.Path != "/spec/containers/0/volumeMounts/1" {
			t.Errorf("%s %s %v", p.Operation, p.Path, p.Value)
		}
	}
	for _, bad := range []string{`"spec":[]`, `"spec":{"volumes":{}}`, `"spec":{"containers":{}}`, `"spec":{"containers":[1]}`,
		`"spec":{"initContainers":[{"volumeMounts":1}]}`} {
		resp := (&Injector{Client: r.Client, Live: r.Client}).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: "ns", Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"annotations":{"kubesphere.io/serviceaccount-name":"robot"}},` + bad + `}`)},
		}})
		if resp.Allowed || resp.Result.Code != http.StatusBadRequest {
			t.Errorf("%s: %+v", bad, resp)
		}
	}
}

func TestOtherPodsAreLeftAlone(t *testing.T) {
	r := newReconciler(t)
	if resp, pod := inject(t, r.Client, podOf("")); !resp.Allowed || len(resp.Patches) != 0 || len(pod.Spec.Volumes) != 0 {
		t.Errorf("%+v", resp)
	}
	if resp, _ := inject(t, r.Client, podOf("nobody")); resp.Allowed || resp.Result.Code != http.StatusForbidden {
		t.Errorf("%+v", resp.Result)
	}
	if resp, _ := inject(t, newReconciler(t, robot()).Client, podOf("robot")); resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("an account without a token: %+v", resp.Result)
	}
}
