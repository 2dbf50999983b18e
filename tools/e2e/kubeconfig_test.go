package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"kapis.dev/ks-apiserver/pkg/controller/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kube"
)

// certificates runs the controller of client certificates with the rights that ks-controller-manager has.
func certificates(t *testing.T) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(product.Dir, "ks-controller-manager.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := manager.New(cfg, manager.Options{Scheme: kube.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := kubeconfig.Setup(t.Context(), mgr, kubeconfig.Options{
		Namespace: "kubesphere-system", Server: cfg.Host, Authority: cfg.CAData, MaxAge: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAUsersCertificateIsHisAtKubeAPIServer(t *testing.T) {
	_, c := cluster(t)
	certificates(t)
	name := unique("cert")
	newUser(t, name)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kubesphere-system", Name: "kubeconfig-" + name}}
	eventually(t, "a certificate is issued", func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(s), s) })
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data["config"])
	if err != nil {
		t.Fatal(err)
	}
	his, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := his.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || r.Status.UserInfo.Username != name || len(r.Status.UserInfo.Groups) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := his.CoreV1().Secrets("kubesphere-system").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("he may read Secrets: %v", err)
	}
	left, err := his.CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("he may list requests: %v %v", left, err)
	}
	if err := c.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	before := s.UID
	eventually(t, "a kubeconfig that is deleted comes back", func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(s), s) })
	if s.UID == before {
		t.Fatal("it was not deleted")
	}
	admin(
		t,
	).must(t, http.StatusOK, http.MethodPatch, iamAPI+"/users/"+name+"/status", `{"status":{"state":"Disabled"}}`, "Content-Type: application/merge-patch+json")
	eventually(t, "a disabled user has no kubeconfig", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(s), s)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the Secret: %w", errors.Join(err, errors.New("it is there")))
	})
}
