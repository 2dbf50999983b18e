package kubeconfig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

const week = 7 * 24 * time.Hour

// world is a cluster that signs certificates as kube-controller-manager does.
type world struct {
	t     *testing.T
	r     *Reconciler
	now   time.Time
	key   *ecdsa.PrivateKey
	other *ecdsa.PrivateKey // signs for this key instead, if set
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, iamv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	var err error
	if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	approval := interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, _ ...client.SubResourceUpdateOption) error {
			if sub != "approval" && sub != "status" {
				return fmt.Errorf("%s was written", sub)
			}
			return c.SubResource("status").Update(ctx, o)
		},
	}
	api := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(approval).Build()
	w.r = &Reconciler{Options: Options{Namespace: "kubesphere-system", Server: "https://kube.example", Authority: []byte("authority"), MaxAge: week},
		Client: api, Live: api, Events: events.NewFakeRecorder(10), Now: func() time.Time { return w.now }}
	return w
}

func alice(state iamv1beta1.UserState) *iamv1beta1.User {
	return &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: "alice", UID: "1"}, Status: iamv1beta1.UserStatus{State: state}}
}

func (w *world) run() reconcile.Result {
	w.t.Helper()
	res, err := w.r.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "alice"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func (w *world) requests() []certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	if err := w.r.Client.List(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
	return list.Items
}

// sign issues the approved certificates, for the requested time.
func (w *world) sign() {
	w.t.Helper()
	for _, csr := range w.requests() {
		if len(csr.Status.Conditions) == 0 || csr.Status.Conditions[0].Type != certificatesv1.CertificateApproved || len(csr.Status.Certificate) > 0 {
			continue
		}
		block, _ := pem.Decode(csr.Spec.Request)
		req, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || req.CheckSignature() != nil {
			w.t.Fatalf("%v", err)
		}
		public := req.PublicKey
		if w.other != nil {
			public = &w.other.PublicKey
		}
		life := time.Duration(*csr.Spec.ExpirationSeconds) * time.Second
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: req.Subject, NotBefore: w.now, NotAfter: w.now.Add(life)}
		der, err := x509.CreateCertificate(rand.Reader, template, &x509.Certificate{Subject: pkix.Name{CommonName: "ca"}}, public, w.key)
		if err != nil {
			w.t.Fatal(err)
		}
		csr.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		if err := w.r.Client.Status().Update(w.t.Context(), &csr); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	s := &corev1.Secret{}
	err := w.r.Client.Get(w.t.Context(), types.NamespacedName{Namespace: "kubesphere-system", Name: "kubeconfig-alice"}, s)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// metrics returns when the first certificate ends, and when one is due to be renewed.
func (w *world) metrics() (ends, due int64) {
	return int64(w.r.first(func(l life) time.Time { return l.ends })), int64(w.r.first(func(l life) time.Time { return l.renewal }))
}

func (w *world) config() *clientcmdapi.Config {
	w.t.Helper()
	c, err := clientcmd.Load(w.secret().Data["config"])
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestAnActiveUserHasACertificate(t *testing.T) {
	w := newWorld(t, alice(iamv1beta1.UserActive))
	w.run()
	all := w.requests()
	if len(all) != 1 || all[0].Spec.SignerName != "kubernetes.io/kube-apiserver-client" || *all[0].Spec.ExpirationSeconds != int32(week/time.Second) {
		t.Fatalf("%+v", all)
	}
	if text, _ := json.Marshal(all); strings.Contains(string(text), "PRIVATE") { // S57
		t.Error("the private key is in the request")
	}
	if res := w.run(); res.RequeueAfter != signed || w.secret() != nil {
		t.Errorf("%v", res)
	}
	w.sign()
	if res := w.run(); res.RequeueAfter != week/3*2 {
		t.Errorf("renews after %v", res.RequeueAfter)
	}
	c := w.config()
	if cl := c.Clusters["kubernetes"]; cl.Server != "https://kube.example" || string(cl.CertificateAuthorityData) != "authority" {
		t.Errorf("%+v", cl)
	}
	certificate, err := leaf(c.AuthInfos["alice"].ClientCertificateData)
	if err != nil || certificate.Subject.CommonName != "alice" || len(certificate.Subject.Organization) != 0 {
		t.Errorf("%v %v", certificate, err)
	}
	s := w.secret()
	if s.Labels[LabelUser] != "alice" || len(s.OwnerReferences) != 1 || s.Annotations[AnnotationExpires] != "2026-11-28T12:00:00Z" || len(w.requests()) != 0 {
		t.Errorf("%+v", s.ObjectMeta)
	}
	if ends, due := w.metrics(); ends != w.now.Add(week).Unix() || due != w.now.Add(week/3*2).Unix() {
		t.Errorf("the metrics are %d and %d", ends, due)
	}
	if w.run(); len(w.requests()) != 0 {
		t.Error("another is asked for")
	}
}

func TestACertificateIsRenewedBeforeItEnds(t *testing.T) { // U41
	w := newWorld(t, alice(iamv1beta1.UserActive))
	w.run()
	w.sign()
	w.run()
	old := w.config().AuthInfos["alice"]
	w.now = w.now.Add(week/3*2 - time.Minute)
	if res := w.run(); res.RequeueAfter != time.Minute || len(w.requests()) != 0 {
		t.Fatalf("%v", res)
	}
	w.now = w.now.Add(time.Minute)
	if w.run(); len(w.requests()) != 1 || w.config().AuthInfos["alice"] == nil {
		t.Fatal("none is asked for, or the old one is gone")
	}
	w.sign()
	w.run()
	if again := w.config().AuthInfos["alice"]; string(again.ClientKeyData) == string(old.ClientKeyData) ||
		string(again.ClientCertificateData) == string(old.ClientCertificateData) {
		t.Error("it is the same key")
	}
}

func TestAKubeconfigOfAnOlderInstallationIsReplaced(t *testing.T) {
	for name, labels := range map[string]map[string]string{"Theirs": {LabelUser: "alice"}, "SomebodyElses": nil} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(
				t,
				alice(iamv1beta1.UserActive),
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kubesphere-system", Name: "kubeconfig-alice", Labels: labels},
					Data: map[string][]byte{"config": []byte("{}")}},
			)
			w.run()
			w.sign()
			w.run()
			if got := string(w.secret().Data["config"]) != "{}"; got != (labels != nil) {
				t.Errorf("replaced: %t", got)
			}
		})
	}
}

func TestWhoIsNotActiveHasNone(t *testing.T) {
	for _, state := range []iamv1beta1.UserState{iamv1beta1.UserPending, iamv1beta1.UserDisabled} {
		w := newWorld(t, alice(state))
		if w.run(); len(w.requests()) != 0 {
			t.Errorf("%q: one is asked for", state)
		}
	}
}

func TestADisabledOrDeletedUserLosesIt(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"Disabled": func(w *world) {
			u := alice("")
			if err := w.r.Client.Get(w.t.Context(), client.ObjectKeyFromObject(u), u); err != nil {
				w.t.Fatal(err)
			}
			u.Status.State = iamv1beta1.UserDisabled
			if err := w.r.Client.Update(w.t.Context(), u); err != nil {
				w.t.Fatal(err)
			}
		},
		"Deleted": func(w *world) { _ = w.r.Client.Delete(w.t.Context(), alice(iamv1beta1.UserActive)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, alice(iamv1beta1.UserActive))
			w.run()
			w.sign()
			w.run()
			end(w)
			if w.run(); w.secret() != nil || len(w.r.lives) != 0 {
				t.Error("the kubeconfig is still there")
			}
		})
		t.Run(name+"WhileItIsSigned", func(t *testing.T) {
			w := newWorld(t, alice(iamv1beta1.UserActive))
			w.run()
			end(w)
			if w.run(); len(w.requests()) != 0 || w.secret() != nil || len(w.r.pending) != 0 {
				t.Error("the request is still there")
			}
		})
	}
}

func TestACertificateOfAnotherKeyIsNotTaken(t *testing.T) {
	w := newWorld(t, alice(iamv1beta1.UserActive))
	w.other, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.run()
	w.sign()
	if _, err := w.r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "alice"}}); err == nil || w.secret() != nil {
		t.Errorf("%v", err)
	}
}

func TestWhereNobodySignsItIsSaid(t *testing.T) {
	w := newWorld(t, alice(iamv1beta1.UserActive))
	w.run()
	w.now = w.now.Add(signTime)
	if res := w.run(); res.RequeueAfter != signRetry || len(w.requests()) != 0 {
		t.Errorf("%v", res)
	}
	if e := <-w.r.Events.(*events.FakeRecorder).Events; !strings.Contains(e, "kube-controller-manager") {
		t.Error(e)
	}
}

func TestADeletedKubeconfigIsMadeAnew(t *testing.T) {
	w := newWorld(t, alice(iamv1beta1.UserActive))
	w.run()
	w.sign()
	w.run()
	s := w.secret()
	if err := w.r.Client.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, one := range userOf(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: s.ObjectMeta}) {
		if one.Name == "alice" {
			w.run()
		}
	}
	w.sign()
	if w.run(); w.secret() == nil {
		t.Error("there is none")
	}
}

func TestWhoseASecretIs(t *testing.T) {
	long := strings.Repeat("a", 80)
	for name, c := range map[string]struct{ secret, label, want string }{
		"AUsers":        {"kubeconfig-alice", "alice", "alice"},
		"OfALongName":   {"kubeconfig-" + long, label(long), long},
		"OfAnothers":    {"kubeconfig-alice", "bob", ""},
		"OfAnotherName": {"alice", "alice", ""},
		"OfNobody":      {"kubeconfig-", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := named(
				&metav1.PartialObjectMetadata{
					ObjectMeta: metav1.ObjectMeta{Name: c.secret, Labels: map[string]string{LabelUser: c.label}, Annotations: map[string]string{"a": "b"}},
				},
			)
			s := o.(*metav1.PartialObjectMetadata)
			if err != nil || len(s.Annotations) != 0 {
				t.Errorf("%+v, %v", s, err)
			}
			got := userOf(t.Context(), s)
			if (len(got) == 1) != (c.want != "") || len(got) == 1 && got[0].Name != c.want {
				t.Errorf("%v", got)
			}
		})
	}
	if p := changed(); p.Create(event.TypedCreateEvent[*metav1.PartialObjectMetadata]{}) || !p.Delete(event.TypedDeleteEvent[*metav1.PartialObjectMetadata]{}) {
		t.Error("what counts is what comes")
	}
}

func TestLongNamesHaveLabelsOfTheirOwn(t *testing.T) {
	a, b := strings.Repeat("a", 80)+"1", strings.Repeat("a", 80)+"2"
	if label(a) == label(b) || len(label(a)) > longestLabel || label("alice") != "alice" {
		t.Error(label(a), label(b))
	}
}
