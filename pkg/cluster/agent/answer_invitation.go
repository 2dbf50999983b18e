package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

const (
	// lookEvery is how often a member that nobody has let in looks for an invitation, and renewEvery one that is in: its Cluster may be
	// deleted, and another one be made, which invites it again.
	lookEvery, renewEvery = 2 * time.Second, 10 * time.Second
	// dialsAtOnce bounds the links that are being opened at once.
	dialsAtOnce = 64
	// keyNext has, in the Secret of the identity, the key that a certificate has been asked for: replicas share it.
	keyNext = "next.key"
)

// ConfigMaps reads and writes ConfigMaps of this server's namespace. client-go's ConfigMapInterface is one.
type ConfigMaps interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.ConfigMap, error)
	Update(ctx context.Context, c *corev1.ConfigMap, o metav1.UpdateOptions) (*corev1.ConfigMap, error)
}

// Guest is a member that waits for a hub to invite it, and to dial it.
type Guest struct {
	*Agent
	Invitations ConfigMaps

	slots *link.HandshakeSlots
}

// NewGuest returns a Guest.
func NewGuest(o Options, invitations ConfigMaps) *Guest {
	return &Guest{Agent: &Agent{Options: o}, Invitations: invitations, slots: link.NewHandshakeSlots(dialsAtOnce)}
}

// Run answers invitations until ctx ends.
func (g *Guest) Run(ctx context.Context) {
	for told := ""; ctx.Err() == nil; {
		pause := lookEvery
		in, err := g.Look(ctx)
		switch {
		case err != nil && ctx.Err() == nil && err.Error() != told:
			told = err.Error()
			klog.ErrorS(err, "The invitation of a hub was not answered; it is tried again")
		case err == nil && in:
			pause = renewEvery
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Look answers an invitation, and reports whether this cluster is in the fleet that it is of.
func (g *Guest) Look(ctx context.Context) (in bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		in, err = g.answer(ctx)
		return err
	})
	return in, err
}

func (g *Guest) answer(ctx context.Context) (in bool, err error) {
	c, err := g.Invitations.Get(ctx, join.Invitation, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the invitation: %w", err)
	}
	if c.Data[join.InvitationClusterUID] == "" {
		return false, nil // it names no Cluster, so that it is no hub's
	}
	s, err := g.Secrets.Get(ctx, secretName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("read this cluster's identity in the fleet: %w", err)
	}
	data := map[string][]byte{}
	if err == nil && s.Data != nil {
		data = s.Data
	}
	if id := g.current(data, c.Data[join.InvitationClusterUID]); id != nil {
		g.identity.Store(id)
		if g.Now().Before(g.renewAt(id)) {
			return true, nil
		}
	}
	return false, g.exchange(ctx, c, data)
}

// current returns the identity in data, if it is that of a Cluster and its certificate has not ended.
func (g *Guest) current(data map[string][]byte, uid string) *identity {
	if string(data[keyUID]) != uid || len(data[corev1.TLSCertKey]) == 0 {
		return nil
	}
	id, err := newIdentity(uid, data[corev1.TLSPrivateKeyKey], data[corev1.TLSCertKey], data[keyCA])
	if err != nil || !g.Now().Before(id.certificate.Leaf.NotAfter) {
		return nil
	}
	return id
}

// exchange asks for a certificate, or takes the one that was given.
func (g *Guest) exchange(ctx context.Context, c *corev1.ConfigMap, data map[string][]byte) error {
	if next := data[keyNext]; next != nil {
		if id, answer := taken(next, c.Data); id != nil {
			klog.InfoS("This cluster is in the fleet", "cluster", answer.Cluster, "expires", id.certificate.Leaf.NotAfter)
			g.identity.Store(id)
			return g.store(ctx, map[string][]byte{keyUID: []byte(id.uid), keyCA: id.ca, corev1.TLSCertKey: id.pem, corev1.TLSPrivateKeyKey: next,
				"hub": []byte(c.Data[join.InvitationHub])})
		}
		if c.Data[join.InvitationRequest] != "" {
			return nil // it has been asked for
		}
	} else {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return fmt.Errorf("make a key: %w", err)
		}
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return fmt.Errorf("write the key: %w", err)
		}
		data[keyNext] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
		if err := g.store(ctx, data); err != nil {
			return err
		}
	}
	return g.request(ctx, c, data[keyNext])
}

// request writes a certificate request into an invitation.
func (g *Guest) request(ctx context.Context, c *corev1.ConfigMap, next []byte) error {
	block, _ := pem.Decode(next)
	if block == nil {
		return errors.New("the next key of this cluster can't be read: delete the Secret " + secretName)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("read the next key of this cluster: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return fmt.Errorf("make a certificate request: %w", err)
	}
	raw, err := json.Marshal(&join.Request{CSR: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), UID: g.UID,
		KubernetesVersion: g.KubernetesVersion, Version: g.Version})
	if err != nil {
		return fmt.Errorf("write a certificate request: %w", err)
	}
	c = c.DeepCopy()
	c.Data[join.InvitationRequest] = string(raw)
	delete(c.Data, join.InvitationAnswer)
	if _, err := g.Invitations.Update(ctx, c, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("answer the invitation: %w", err)
	}
	return nil
}

// taken returns the identity that an invitation gives to a key, nil for none.
func taken(key []byte, data map[string]string) (*identity, *join.Answer) {
	answer := &join.Answer{}
	if data[join.InvitationAnswer] == "" || json.Unmarshal([]byte(data[join.InvitationAnswer]), answer) != nil {
		return nil, nil
	}
	if answer.UID != data[join.InvitationClusterUID] {
		return nil, nil
	}
	id, err := newIdentity(answer.UID, key, []byte(answer.Certificate), []byte(answer.Authorities))
	if err != nil {
		return nil, nil // it is for another key
	}
	return id, answer
}
