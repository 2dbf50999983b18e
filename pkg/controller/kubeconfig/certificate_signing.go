package kubeconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// ask requests a certificate, and approves the request. It approves only its own requests, for which it has the key.
func (r *Reconciler) ask(ctx context.Context, u *iamv1beta1.User) error {
	p, err := newRequest(u.Name)
	if err != nil {
		return err
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kubeconfig-", Labels: map[string]string{LabelUser: label(u.Name)}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: p.pem, SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:            []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			ExpirationSeconds: ptr.To(int32(r.MaxAge / time.Second)),
		},
	}
	if err := r.Client.Create(ctx, csr); err != nil {
		return fmt.Errorf("ask for a certificate for user %q: %w", u.Name, err)
	}
	p.csr, p.until = csr.Name, r.Now().Add(signTime)
	if !bytes.Equal(csr.Spec.Request, p.pem) || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return errors.Join(fmt.Errorf("ask for a certificate for user %q: what was written is not what was asked for; it is not approved",
			u.Name), r.withdraw(ctx, u.Name, p))
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Kubeconfig",
		Message: "ks-controller-manager made it, for the kubeconfig of a user", LastUpdateTime: metav1.NewTime(r.Now()),
	})
	if err := r.Client.SubResource("approval").Update(ctx, csr); err != nil {
		return errors.Join(fmt.Errorf("approve the certificate of user %q: %w", u.Name, err), r.withdraw(ctx, u.Name, p))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending == nil {
		r.pending = map[string]*request{}
	}
	r.pending[u.Name] = p
	return nil
}

// collect writes the kubeconfig once the certificate is issued.
func (r *Reconciler) collect(ctx context.Context, u *iamv1beta1.User, p *request) (time.Duration, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: p.csr}, csr)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("look for the certificate of user %q: %w", u.Name, err)
	}
	if len(csr.Status.Certificate) == 0 {
		if err == nil && r.Now().Before(p.until) {
			return signed, nil
		}
		r.Events.Eventf(u, nil, corev1.EventTypeWarning, "NoKubeconfig", "Sign",
			"No certificate was issued within %v: is kube-controller-manager there, and does it sign for %s?", signTime,
			certificatesv1.KubeAPIServerClientSignerName)
		return signRetry, r.withdraw(ctx, u.Name, p)
	}
	certificate, err := p.issued(csr.Status.Certificate, u.Name)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("take the certificate of user %q: %w", u.Name, err), r.withdraw(ctx, u.Name, p))
	}
	if err := r.write(ctx, u, p, csr.Status.Certificate, certificate.NotAfter); err != nil {
		return 0, err
	}
	r.note(u.Name, certificate)
	return max(renewal(certificate).Sub(r.Now()), time.Second), r.withdraw(ctx, u.Name, p)
}

// withdraw gives up a requested certificate.
func (r *Reconciler) withdraw(ctx context.Context, user string, p *request) error {
	r.mu.Lock()
	delete(r.pending, user)
	r.mu.Unlock()
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: p.csr}}
	if err := client.IgnoreNotFound(r.Client.Delete(ctx, csr)); err != nil {
		return fmt.Errorf("take back the certificate signing request %s: %w", p.csr, err)
	}
	return nil
}

func (r *Reconciler) asked(user string) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending[user]
}
