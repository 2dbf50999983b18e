package controllermanager

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/admission"
	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/controller/resourcequota"
	"kapis.dev/ks-apiserver/pkg/kube"
)

const (
	podReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","namespace":"n",` +
		`"resource":{"version":"v1","resource":"pods"},"object":{"metadata":{"name":"p"}},"userInfo":{"username":"x"}}}`
	endReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"DELETE","name":"x",` +
		`"resource":{"group":"iam.kubesphere.io","version":"v1beta1","resource":"users"},"oldObject":{"metadata":{"name":"x"}},` +
		`"userInfo":{"username":"ann","groups":["system:masters"]}}}`
)

// clientKeeper has a client certificate of an authority of its own.
func clientKeeper(t *testing.T) *certificate.Keeper {
	t.Helper()
	k, err := certificate.Open(t.Context(), certificate.Options{
		Secrets: fake.NewClientset().CoreV1().Secrets(Namespace), Name: "client", Client: true, CommonName: "front-proxy-client", Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func written(t *testing.T, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Where kube-apiserver has a client certificate, reviews of others are answered nothing and write nothing: neither a reservation nor the end
// of an administrator.
func TestReviewsOfOthersThanKubeAPIServerWriteNothing(t *testing.T) { // S72
	of := clientKeeper(t)
	pool, err := readClientCA(written(t, of.Bundle()))
	if err != nil {
		t.Fatal(err)
	}
	one, none := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	ofW := map[string]string{"kubesphere.io/workspace": "w"}
	c := fakeclient.NewClientBuilder().WithScheme(kube.Scheme()).WithStatusSubresource(&quotav1alpha2.ResourceQuota{}).WithObjects(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: ofW}},
		&quotav1alpha2.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"},
			Spec:   quotav1alpha2.ResourceQuotaSpec{Selector: ofW, Quota: corev1.ResourceQuotaSpec{Hard: one}},
			Status: quotav1alpha2.ResourceQuotaStatus{Total: corev1.ResourceQuotaStatus{Hard: one, Used: none}}},
	).Build()
	wrote := func() (reserved, noted bool) {
		q := &quotav1alpha2.ResourceQuota{}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "q"}, q); err != nil {
			t.Fatal(err)
		}
		err := c.Get(t.Context(), client.ObjectKey{Namespace: Namespace, Name: administratorEndsName}, &corev1.ConfigMap{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return q.Status.Total.Used.Pods().Value() > 0, !apierrors.IsNotFound(err)
	}

	at := registered{at: map[string]http.Handler{}}
	h := &webhooks{server: at, clientCA: pool}
	h.register(map[string]webhook.Handler{
		resourcequota.Path: resourcequota.NewValidator(c, c, c),
		pathGuard: &escalationWebhook{ready: func() error { return nil }, guard: &admission.Guard{
			Holdings: &nobodyHolds{}, Known: twoAdministrators(), Ends: &administratorEnds{live: c, client: c, now: time.Now},
			Active: func(context.Context, string, string) (bool, error) { return true, nil },
		}},
	})
	mux := http.NewServeMux()
	for path, handler := range at.at {
		mux.Handle(path, handler)
	}
	served := httptest.NewUnstartedServer(mux)
	served.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	h.tls(served.TLS)
	served.StartTLS()
	defer served.Close()
	// post returns the status, or 0 where the connection is refused.
	post := func(by *certificate.Keeper, path, review string) int {
		transport := served.Client().Transport.(*http.Transport).Clone()
		defer transport.CloseIdleConnections()
		if by != nil {
			transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return by.Certificate(nil)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, served.URL+path, strings.NewReader(review))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return 0
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || strings.Contains(string(text), `"allowed"`) != (resp.StatusCode == http.StatusOK) {
			t.Errorf("%s: %d %s, %v", path, resp.StatusCode, text, err)
		}
		return resp.StatusCode
	}

	for path, review := range map[string]string{resourcequota.Path: podReview, pathGuard: endReview} {
		if is := post(nil, path, review); is != http.StatusUnauthorized {
			t.Errorf("%s, without a certificate: %d", path, is)
		}
		if is := post(clientKeeper(t), path, review); is != 0 {
			t.Errorf("%s, with the certificate of somebody else's authority: %d", path, is)
		}
	}
	if reserved, noted := wrote(); reserved || noted {
		t.Errorf("for others: reserved %t, noted %t", reserved, noted)
	}
	for path, review := range map[string]string{resourcequota.Path: podReview, pathGuard: endReview} {
		if is := post(of, path, review); is != http.StatusOK {
			t.Errorf("%s, for kube-apiserver: %d", path, is)
		}
	}
	if reserved, noted := wrote(); !reserved || !noted {
		t.Errorf("for kube-apiserver: reserved %t, noted %t", reserved, noted)
	}
}

// Without the file every caller is answered, as kube-apiserver has no client certificate unless it is given one. With a file that can't be
// read nothing is served, rather than that everybody is answered.
func TestTheAuthorityOfKubeAPIServerIsReadOrNothingStarts(t *testing.T) {
	if pool, err := readClientCA(""); pool != nil || err != nil {
		t.Errorf("no file: %v, %v", pool, err)
	}
	for name, file := range map[string]string{"Missing": filepath.Join(t.TempDir(), "none"), "Empty": written(t, nil), "NoCertificate": written(t, []byte("ca"))} {
		_, err := newWebhooks(t.Context(), nil, Options{WebhookPort: 1, WebhookClientCAFile: file})
		if err == nil || !strings.Contains(err.Error(), "--webhook-client-ca-file") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
