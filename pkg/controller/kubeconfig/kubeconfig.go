// Package kubeconfig reconciles a kubeconfig with a client certificate for each active user, in the Secret kubeconfig-<user>, if the
// configuration has kubeconfig.authMode: client-certificate. The private key is in that Secret only. A certificate can't be revoked: it
// is short-lived, and renewed after two thirds of its life.
package kubeconfig

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/retry"
)

const (
	// Name is the controller's name.
	Name = "kubeconfig"
	// SecretPrefix begins the name of a user's Secret.
	SecretPrefix = "kubeconfig-"
	// Key is the key of the kubeconfig in the Secret.
	Key = "config"
	// LabelUser is the Secret's label with the name of the user.
	LabelUser = "kubesphere.io/username"
	// AnnotationExpires is the Secret's annotation with the end of the certificate, as in RFC 3339.
	AnnotationExpires = "kapis.dev/certificate-expires"

	// signed is the interval of checks whether a requested certificate was issued, and signTime the time after which they end.
	signed   = 200 * time.Millisecond
	signTime = time.Minute
	// signRetry is the pause before another request if none was issued.
	signRetry = 5 * time.Minute
	workers   = 4
	// longestLabel is the maximum length of a label's value.
	longestLabel = 63
)

// Options are the settings of kubeconfigs.
type Options struct {
	// Namespace is where the Secrets are.
	Namespace string
	// Server is the URL of kube-apiserver for users, and Authority the PEM certificate of its authority.
	Server    string
	Authority []byte
	// MaxAge is the life of a certificate. kube-controller-manager may issue shorter ones.
	MaxAge time.Duration
	// Metrics registers ks_kubeconfig_certificate_expiry_timestamp_seconds and ks_kubeconfig_certificate_renewal_timestamp_seconds.
	Metrics prometheus.Registerer
}

// Setup adds the controller to mgr.
func Setup(_ context.Context, mgr manager.Manager, o Options) error {
	r := &Reconciler{Options: o, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: mgr.GetEventRecorder(Name), Now: time.Now}
	if o.Metrics != nil {
		expiry := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ks_kubeconfig_certificate_expiry_timestamp_seconds",
			Help: "When the first of the client certificates in users' kubeconfigs ends, as Unix time; 0 while there is none.",
		}, func() float64 { return r.first(func(l life) time.Time { return l.ends }) })
		due := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ks_kubeconfig_certificate_renewal_timestamp_seconds",
			Help: "When the first of the client certificates in users' kubeconfigs is due to be renewed, as Unix time; 0 while there is none.",
		}, func() float64 { return r.first(func(l life) time.Time { return l.renewal }) })
		for _, metric := range []prometheus.Collector{expiry, due} {
			if err := o.Metrics.Register(metric); err != nil {
				return fmt.Errorf("register the metrics of certificates: %w", err)
			}
		}
	}
	theirs, err := secrets(mgr, o.Namespace)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).Named(Name).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		For(&iamv1beta1.User{}).
		WatchesRawSource(theirs).
		Complete(r)
}

// Reconciler reconciles the kubeconfigs of users.
type Reconciler struct {
	Options
	// Client reads users from the cache and writes. Live reads without it.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
	// Now is the clock.
	Now func() time.Time

	mu      sync.Mutex
	pending map[string]*request
	lives   map[string]life // of the certificates, by user
}

// Reconcile updates the kubeconfig of one user.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	u := &iamv1beta1.User{}
	err := r.Client.Get(ctx, req.NamespacedName, u)
	var wait time.Duration
	switch {
	case apierrors.IsNotFound(err), err == nil && (!u.DeletionTimestamp.IsZero() || u.Status.State == iamv1beta1.UserDisabled):
		err = r.forget(ctx, req.Name)
	case err == nil && u.Status.State == iamv1beta1.UserActive:
		wait, err = r.sync(ctx, u)
	}
	return retry.OnConflict(wait, err)
}

// forget deletes the Secret of a user who is deleted or disabled.
func (r *Reconciler) forget(ctx context.Context, user string) error {
	r.note(user, nil)
	if p := r.asked(user); p != nil {
		if err := r.withdraw(ctx, user, p); err != nil {
			return err
		}
	}
	s, err := r.secret(ctx, user)
	if err != nil || s == nil || !isOf(s, user) {
		return err
	}
	if err := r.Client.Delete(ctx, s, client.Preconditions{UID: &s.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the kubeconfig of user %q: %w", user, err)
	}
	return nil
}

// sync returns when the certificate has to be checked next.
func (r *Reconciler) sync(ctx context.Context, u *iamv1beta1.User) (time.Duration, error) {
	if p := r.asked(u.Name); p != nil {
		return r.collect(ctx, u, p)
	}
	s, err := r.secret(ctx, u.Name)
	if err != nil {
		return 0, err
	}
	if s != nil && !isOf(s, u.Name) {
		r.Events.Eventf(u, nil, corev1.EventTypeWarning, "NoKubeconfig", "Write",
			"The Secret %s/%s is not labelled as that of this user and is left alone.", s.Namespace, s.Name)
		return signRetry, nil
	}
	if s != nil {
		if renew, ok := r.good(s, u.Name); ok {
			return renew, nil
		}
	}
	return signed, r.ask(ctx, u)
}

// good reports whether a kubeconfig equals one that would be made now, and when it has to be renewed.
func (r *Reconciler) good(s *corev1.Secret, user string) (renew time.Duration, ok bool) {
	c, err := clientcmd.Load(s.Data[Key])
	if err != nil || c.AuthInfos[user] == nil || c.Clusters[cluster] == nil {
		return 0, false
	}
	if at := c.Clusters[cluster]; at.Server != r.Server || !bytes.Equal(at.CertificateAuthorityData, r.Authority) {
		return 0, false
	}
	certificate, err := leaf(c.AuthInfos[user].ClientCertificateData)
	if err != nil || certificate.Subject.CommonName != user || len(c.AuthInfos[user].ClientKeyData) == 0 {
		return 0, false
	}
	r.note(user, certificate)
	renew = renewal(certificate).Sub(r.Now())
	return renew, renew > 0
}

// write writes the kubeconfig into the Secret.
func (r *Reconciler) write(ctx context.Context, u *iamv1beta1.User, p *request, certificate []byte, ends time.Time) error {
	key, err := p.keyPEM()
	if err != nil {
		return err
	}
	text, err := clientcmd.Write(r.config(u.Name, certificate, key))
	if err != nil {
		return fmt.Errorf("write the kubeconfig of user %q: %w", u.Name, err)
	}
	s, err := r.secret(ctx, u.Name)
	if err != nil {
		return err
	}
	if s != nil && !isOf(s, u.Name) {
		return fmt.Errorf("write the kubeconfig of user %q: the Secret %s/%s is not a kubeconfig of this user", u.Name, s.Namespace, s.Name)
	}
	fresh := s == nil
	if fresh {
		s = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: SecretPrefix + u.Name}}
	}
	metav1.SetMetaDataLabel(&s.ObjectMeta, LabelUser, label(u.Name))
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, AnnotationExpires, ends.UTC().Format(time.RFC3339))
	s.Data = map[string][]byte{Key: text}
	if err := controllerutil.SetOwnerReference(u, s, r.Client.Scheme()); err != nil {
		return fmt.Errorf("write the kubeconfig of user %q: %w", u.Name, err)
	}
	if fresh {
		err = r.Client.Create(ctx, s)
	} else {
		err = r.Client.Update(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("write the kubeconfig of user %q: %w", u.Name, err)
	}
	return nil
}

// cluster is the name of the cluster in kubeconfigs.
const cluster = "kubernetes"

func (r *Reconciler) config(user string, certificate, key []byte) clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters[cluster] = &clientcmdapi.Cluster{Server: r.Server, CertificateAuthorityData: r.Authority}
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	c.CurrentContext = user + "@" + cluster
	c.Contexts[c.CurrentContext] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	return *c
}

// secret reads a user's Secret; nil if there is none.
func (r *Reconciler) secret(ctx context.Context, user string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: SecretPrefix + user}, s)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of user %q: %w", user, err)
	}
	return s, nil
}

// isOf reports whether a Secret is the kubeconfig of a user, also one of an older installation.
func isOf(s client.Object, user string) bool { return s.GetLabels()[LabelUser] == label(user) }

// label returns a user's name as the value of a label. One that is too long is cut, and ends in a part of its hash.
func label(user string) string {
	if len(user) <= longestLabel {
		return user
	}
	sum := sha256.Sum256([]byte(user))
	return user[:longestLabel-17] + "-" + hex.EncodeToString(sum[:8])
}
