// Package certificate makes the serving certificates of programs that kube-apiserver calls, and the authority that signs them. All
// replicas share them by a Secret, and they are renewed without a restart.
package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

const (
	// authorityLife and servingLife are how long an authority and a serving certificate are valid. They are renewed when a
	// third of that is left.
	authorityLife = 2 * 365 * 24 * time.Hour
	servingLife   = 90 * 24 * time.Hour
	// settle is how long a new authority is only trusted, before it signs, unless Options say otherwise: by then all clients that read
	// the bundle have it.
	settle = 24 * time.Hour
	// skew is how far clocks may differ.
	skew = 15 * time.Minute
	// every is how often the Secret is read: another replica may have renewed it.
	every = time.Minute
	// attempts bounds how often a write is tried that conflicts with those of other replicas.
	attempts = 10
)

// Secrets reads and writes Secrets of one namespace.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, s *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	Update(ctx context.Context, s *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// Options describe the certificate and its Secret.
type Options struct {
	Secrets Secrets
	// Name is the name of the Secret, and Hosts the DNS names and IP addresses of the certificate; none only for a client's.
	Name  string
	Hosts []string
	// Client says that the certificate is for connections that this program opens, too, or only for those where there are no Hosts (RFC 5280,
	// 4.2.1.12).
	Client bool
	// Settle is how long a new authority is only trusted, before it signs the certificate; 0 for a day. What its predecessor signs last is
	// due after 60 days, and is then signed by the new one, however long Settle is.
	Settle time.Duration
	// CommonName is whose the certificate is; "" for ks-controller-manager.
	CommonName string
	// Now is the clock.
	Now func() time.Time
}

// Keeper has the current certificate. Its zero value can't be used: Open makes one.
type Keeper struct {
	Options
	now atomic.Pointer[pair]
	// changed receives, without blocking the sender, when the bundle has changed.
	changed chan struct{}
}

// Open reads the Secret, or creates it. Several replicas that do so at the same time end up with the same Secret.
func Open(ctx context.Context, o Options) (*Keeper, error) {
	if len(o.Hosts) == 0 && !o.Client {
		return nil, errors.New("make a serving certificate: it is for no host")
	}
	k := &Keeper{Options: o, changed: make(chan struct{}, 1)}
	return k, k.Renew(ctx)
}

// Certificate returns the newest certificate at every handshake, as tls.Config.GetCertificate requires.
func (k *Keeper) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &k.now.Load().serving, nil
}

// Bundle returns the authorities to trust, in PEM, the newest first.
func (k *Keeper) Bundle() []byte { return k.now.Load().bundle }

// Changed returns a channel that receives when Bundle has changed.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

// Expires returns the end of the serving certificate, for a metric.
func (k *Keeper) Expires() time.Time { return k.now.Load().serving.Leaf.NotAfter }

// Run renews the certificate, and reads what other replicas renewed, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := k.Renew(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "The serving certificate stays as it is", "expires", k.Expires())
			}
		}
	}
}

// Renew reads the Secret and writes what is due. A Secret that was deleted, or can't be parsed, is restored.
func (k *Keeper) Renew(ctx context.Context) error {
	faster := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	if err := retry.OnError(wait.Backoff{Steps: attempts}, faster, func() error { return k.renew(ctx) }); err != nil {
		return fmt.Errorf("keep the serving certificate in Secret %q: %w", k.Name, err)
	}
	return nil
}

// renew is one attempt. It fails with a Conflict or AlreadyExists if another replica was faster.
func (k *Keeper) renew(ctx context.Context) error {
	s, err := k.Secrets.Get(ctx, k.Name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	var stored *pair
	if missing {
		s = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: k.Name}, Type: corev1.SecretTypeTLS}
	} else if stored, err = read(s.Data); err != nil {
		klog.ErrorS(err, "A Secret that has no serving certificate which can be read is written anew", "secret", k.Name)
	}
	// All replicas have the content of a lost Secret in memory, and that content is trusted. A new authority would not be trusted until
	// the one replica that configures kube-apiserver has read it.
	p := stored
	if p == nil {
		p = k.now.Load()
	}
	next, err := p.renewed(k.Now(), k.Options)
	if err != nil {
		return err
	}
	if next == stored {
		k.take(stored)
		return nil
	}
	s = s.DeepCopy()
	s.Data = next.data()
	if missing {
		_, err = k.Secrets.Create(ctx, s, metav1.CreateOptions{})
	} else {
		_, err = k.Secrets.Update(ctx, s, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	k.take(next)
	return nil
}

func (k *Keeper) take(p *pair) {
	if old := k.now.Swap(p); old != nil && string(old.bundle) == string(p.bundle) {
		return
	}
	select {
	case k.changed <- struct{}{}:
	default: // a change is already waiting to be received
	}
}
