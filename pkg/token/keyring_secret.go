package token

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/informer"
)

// SecretName is the Secret, in this server's namespace, through which all replicas share their keys.
const SecretName = "ks-apiserver-signing-keys"

// Secrets has the calls that a Keyring makes; the Secrets client of one namespace implements it.
type Secrets interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Secret, error)
	Create(ctx context.Context, s *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error)
	List(ctx context.Context, o metav1.ListOptions) (*corev1.SecretList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	Update(ctx context.Context, s *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error)
}

// Keyring is the KeySource that the replicas share: one Secret, created by the first replica.
type Keyring struct {
	secrets Secrets
	now     func() time.Time
	set     atomic.Pointer[KeySet]
	// seen is the hash of the text that set was read from.
	mu   sync.Mutex
	seen [sha256.Size]byte
}

// retryEvery is the pause between attempts to create keys again.
const retryEvery = 2 * time.Second

// OpenKeyring reads the keys, and creates them if there are none.
func OpenKeyring(ctx context.Context, secrets Secrets, now func() time.Time) (*Keyring, error) {
	k := &Keyring{secrets: secrets, now: now}
	secret, err := secrets.Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		secret, err = k.create(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read the signing keys, Secret %s: %w", SecretName, err)
	}
	set, err := Decode(secret.Data[SecretKey])
	if err != nil {
		return nil, fmt.Errorf("signing keys, Secret %s, key %s: %w; mend the Secret, or delete it to have new keys made (everyone logs in"+
			" again)",
			SecretName, SecretKey, err)
	}
	k.seen = sha256.Sum256(secret.Data[SecretKey])
	k.set.Store(set)
	return k, nil
}

// create creates the Secret, or returns the one that another replica created in the meantime.
func (k *Keyring) create(ctx context.Context) (*corev1.Secret, error) {
	set, err := Generate(k.now())
	if err != nil {
		return nil, err
	}
	b, err := set.Encode()
	if err != nil {
		return nil, err
	}
	made, err := k.secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName, Labels: map[string]string{"app.kubernetes.io/managed-by": "ks-apiserver"}},
		Data:       map[string][]byte{SecretKey: b},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return k.secrets.Get(ctx, SecretName, metav1.GetOptions{})
	}
	return made, err
}

// KeySet returns the keys as last read.
func (k *Keyring) KeySet() *KeySet { return k.set.Load() }

// Run watches the Secret until ctx ends. A Secret that can't be read leaves the keys as they are; one that was deleted is created again
// with new keys, which ends all tokens: that is how an operator replaces keys that may be compromised.
func (k *Keyring) Run(ctx context.Context) {
	which := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, SecretName).String()}
	informer.Run(ctx, k.secrets, which, informer.Handler[*corev1.Secret]{
		Set:    k.adopt,
		Delete: func(_, name string) { k.replace(ctx, name) },
	})
}

func (k *Keyring) adopt(secret *corev1.Secret) {
	if secret.Name != SecretName {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	sum := sha256.Sum256(secret.Data[SecretKey])
	if sum == k.seen {
		return // only metadata changed: a new set would empty the verifier's cache
	}
	set, err := Decode(secret.Data[SecretKey])
	if err != nil {
		klog.ErrorS(err, "The Secret of the signing keys can't be read; going on with the keys known before", "secret", SecretName)
		return
	}
	k.seen = sum
	k.set.Store(set)
	klog.InfoS("Signing keys changed", "secret", SecretName, "keys", len(set.signing))
}

func (k *Keyring) replace(ctx context.Context, name string) {
	if name != SecretName || ctx.Err() != nil {
		return
	}
	klog.InfoS("The Secret of the signing keys was deleted: new keys are made, and everyone logs in again", "secret", SecretName)
	_ = wait.PollUntilContextCancel(ctx, retryEvery, true, func(ctx context.Context) (bool, error) {
		secret, err := k.create(ctx)
		if err != nil {
			klog.ErrorS(err, "Making new signing keys failed; going on with the old ones, and trying again", "secret", SecretName)
			return false, nil
		}
		k.adopt(secret)
		return true, nil
	}) // the only error is the end of ctx
}
