package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// identity is this member's identity in the fleet.
type identity struct {
	uid         string
	key         *ecdsa.PrivateKey
	certificate tls.Certificate
	pem, ca     []byte
	pool        *x509.CertPool
}

// renewAt returns when a third of the life of a certificate is left.
func (a *Agent) renewAt(id *identity) time.Time {
	leaf := id.certificate.Leaf
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3)
}

// load reads the identity from the Secret; nil if there is none for the configured hub.
func (a *Agent) load(ctx context.Context) (*identity, error) {
	s, err := a.Secrets.Get(ctx, secretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read this cluster's identity in the fleet: %w", err)
	}
	if gone := a.forgotten.Load(); string(s.Data["hub"]) != a.Hub.String() || gone != nil && *gone == string(s.Data[keyUID]) {
		return nil, nil // of another hub, or of a Cluster that is gone
	}
	id, err := newIdentity(string(s.Data[keyUID]), s.Data[corev1.TLSPrivateKeyKey], s.Data[corev1.TLSCertKey], s.Data[keyCA])
	if err != nil {
		klog.ErrorS(err, "This cluster's identity in the fleet can't be read; it joins again", "secret", secretName)
		return nil, nil
	}
	return id, nil
}

func newIdentity(uid string, key, certificate, ca []byte) (*identity, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of this cluster: %w", err)
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	id := &identity{uid: uid, key: private, certificate: pair, pem: certificate, ca: ca, pool: x509.NewCertPool()}
	if uid == "" || !ok || !id.pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the identity of this cluster is not whole")
	}
	return id, nil
}

// store writes the identity.
func (a *Agent) store(ctx context.Context, data map[string][]byte) error {
	s, err := a.Secrets.Get(ctx, secretName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = a.Secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}, Data: data}, metav1.CreateOptions{})
	case err == nil:
		s = s.DeepCopy()
		s.Data = data
		_, err = a.Secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("store this cluster's identity in the fleet: %w", err)
	}
	return nil
}
