package token

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// Rotation says when new keys replace old ones.
type Rotation struct {
	// Every is how long a key signs; 0 means forever.
	Every time.Duration
	// Longest is the longest life of anything that depends on a key: a token, a session. An old key verifies as long.
	Longest time.Duration
}

const (
	// rotationLead is how long a new key is known before it signs: longer than clients cache our public keys (5 min), and than any replica
	// needs to learn of it (rotationCheck).
	rotationLead = 15 * time.Minute
	// rotationCheck is the time between two checks of a replica; it varies by a fifth, so that the replicas spread.
	rotationCheck = 8 * time.Minute
	// rotationMargin is how much longer than Longest an old key verifies: the clocks of replicas differ.
	rotationMargin = time.Hour
	// rotationFull is how many keys of a kind stop the rotation, because each of them still verifies.
	rotationFull = 24
)

// Rotate replaces the keys until ctx ends: the first replica to find that the newest key has signed for long enough makes a new one, and
// removes those whose time is over. It also reads the changes of other replicas, in case the watch of Run is stuck.
func (k *Keyring) Rotate(ctx context.Context, r Rotation) {
	wait := time.Duration(mathrand.Int64N(int64(rotationCheck / 2)))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if err := k.rotate(ctx, r); err != nil && ctx.Err() == nil {
			klog.ErrorS(err, "Looking after the signing keys failed; going on with those that are known, and trying again", "secret", SecretName)
		}
		wait = rotationCheck - rotationCheck/10 + time.Duration(mathrand.Int64N(int64(rotationCheck/5)))
	}
}

// rotate does what is due now. Of many replicas that try, one succeeds.
func (k *Keyring) rotate(ctx context.Context, r Rotation) error {
	secret, err := k.secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // Run creates it again
	}
	if err != nil {
		return fmt.Errorf("read Secret %s: %w", SecretName, err)
	}
	set, err := Decode(secret.Data[SecretKey])
	if err != nil {
		return fmt.Errorf("read Secret %s: %w", SecretName, err)
	}
	next, err := set.next(k.now(), r)
	if err != nil {
		return err
	}
	if next == nil {
		k.adopt(secret)
		return nil
	}
	secret = secret.DeepCopy()
	if secret.Data[SecretKey], err = next.Encode(); err != nil {
		return err
	}
	secret, err = k.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // another replica was faster
	}
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", SecretName, err)
	}
	klog.InfoS("Signing keys rotated", "secret", SecretName, "signsFrom", next.signing[0].NotBefore, "keys", len(next.signing), "macKeys",
		len(next.macs))
	k.adopt(secret)
	return nil
}

// next returns the set that follows s at this time, or nil if s stays.
func (s *KeySet) next(now time.Time, r Rotation) (*KeySet, error) {
	now = now.UTC().Truncate(time.Second)
	signing := slices.DeleteFunc(slices.Clone(s.signing), func(k SigningKey) bool { return !alive(time.Time{}, k.Retire, now) })
	macs := slices.Clone(s.macs)
	changed := len(signing) != len(s.signing)
	if due(s.signing[0].NotBefore, r.Every, now) && len(signing) < rotationFull {
		k, err := newSigningKey(now, now.Add(rotationLead))
		if err != nil {
			return nil, err
		}
		for i := range signing {
			signing[i].Retire = retire(signing[i].Retire, k.NotBefore, r)
		}
		signing, changed = append(signing, k), true
	}
	// A MAC key past its end still opens values that were stored with it (OpenStored), as long as there is room.
	for i := len(macs) - 1; i > 0 && len(macs) >= rotationFull; i-- {
		if !alive(time.Time{}, macs[i].Retire, now) {
			macs, changed = slices.Delete(macs, i, i+1), true
		}
	}
	if due(s.macs[0].NotBefore, r.Every, now) && len(macs) < rotationFull {
		m := newMACKey(now, now.Add(rotationLead))
		for i := range macs {
			macs[i].Retire = retire(macs[i].Retire, m.NotBefore, r)
		}
		macs, changed = append(macs, m), true
	}
	if !changed {
		return nil, nil
	}
	return NewKeySet(signing, macs)
}

// due reports whether a key that has signed since from has done so for long enough.
func due(from time.Time, every time.Duration, now time.Time) bool {
	return every > 0 && !now.Before(from.Add(every-rotationLead))
}

// retire returns the end of a key that is being replaced. A key that has an end already keeps it.
func retire(was, successor time.Time, r Rotation) time.Time {
	if !was.IsZero() {
		return was
	}
	return successor.Add(r.Longest + rotationMargin)
}

func newSigningKey(now, from time.Time) (SigningKey, error) {
	private, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return SigningKey{}, fmt.Errorf("generate a signing key: %w", err)
	}
	return SigningKey{ID: thumbprint(&private.PublicKey), Private: private, Created: now, NotBefore: from}, nil
}

func newMACKey(now, from time.Time) MACKey {
	secret := make([]byte, 2*minMACBytes)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	return MACKey{ID: rand.Text(), Secret: secret, Created: now, NotBefore: from}
}

// Register adds the age of the signing key to the metrics.
func (k *Keyring) Register(metrics prometheus.Registerer) error {
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ks_signing_key_age_seconds", Help: "Since when the key that signs tokens does so; -1 where none may."},
		func() float64 {
			key, err := k.KeySet().signer(k.now())
			if err != nil {
				return -1
			}
			return k.now().Sub(key.NotBefore).Seconds()
		})
	if err := metrics.Register(age); err != nil {
		return fmt.Errorf("register metrics of the signing keys: %w", err)
	}
	return nil
}
