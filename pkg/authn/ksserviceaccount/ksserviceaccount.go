// Package ksserviceaccount authenticates service accounts of kubesphere.io by their tokens. A token is good as long as both the Secret
// that holds it and the ServiceAccount that names this Secret exist. Only hashes of tokens are stored in memory.
package ksserviceaccount

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

var errRefused = errors.New("the service account's token is not good: its Secret or its ServiceAccount is gone")

// errUnavailable returns the error for a token that may be good, since not everything is known that tokens are verified by.
func errUnavailable() error {
	return status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable, "tokens of service accounts can't be verified now: try again"))
}

type account struct {
	uid     string
	secrets []string
	info    *user.DefaultInfo
}

// secret is a Secret that holds a token.
type secret struct {
	hash    [sha256.Size]byte
	account types.NamespacedName
	uid     string // of the account that it was made for
}

// Tokens has the tokens of all service accounts. It is a store.Sink of serviceaccounts.kubesphere.io/v1alpha1, and Run watches the
// Secrets. The zero value has none.
type Tokens struct {
	// Complete returns why the cluster may have ServiceAccounts that it was not told of, and nil while it has none; nil itself for never.
	Complete func() error

	listed   atomic.Bool // the Secrets were
	mu       sync.RWMutex
	accounts map[types.NamespacedName]*account
	secrets  map[types.NamespacedName]secret
	byHash   map[[sha256.Size]byte][]types.NamespacedName // of Secrets: more than one may have a copy of the token
}

var (
	_ store.Sink          = (*Tokens)(nil)
	_ authenticator.Token = (*Tokens)(nil)
)

// AuthenticateToken returns the service account of a token. Its error is a Status of 503 where the token may only not be known yet.
func (t *Tokens) AuthenticateToken(_ context.Context, s string) (*authenticator.Response, bool, error) {
	if !strings.HasPrefix(s, token.ServiceAccountPrefix) {
		return nil, false, nil
	}
	parsed, err := token.ParseServiceAccount(s)
	if err != nil {
		return nil, false, err
	}
	a := t.find(parsed.Hash)
	if a == nil {
		if err := t.complete(); err != nil {
			return nil, false, err
		}
		if a = t.find(parsed.Hash); a == nil { // it may have come before the last of them
			return nil, false, errRefused
		}
	}
	return &authenticator.Response{User: a.info}, true, nil
}

// find returns the account of a token, or nil.
func (t *Tokens) find(hash [sha256.Size]byte) *account {
	t.mu.RLock()
	defer t.mu.RUnlock()
	// A lookup by the hash of a secret reveals nothing of the secret by its time.
	for _, at := range t.byHash[hash] {
		held := t.secrets[at]
		if a := t.accounts[held.account]; a != nil && a.uid == held.uid && slices.Contains(a.secrets, at.Name) {
			return a
		}
	}
	return nil
}

// complete returns why a token may be good that is not known.
func (t *Tokens) complete() error {
	if !t.listed.Load() {
		return fmt.Errorf("%w: the Secrets are not read yet", errUnavailable())
	}
	if t.Complete == nil {
		return nil
	}
	if err := t.Complete(); err != nil {
		return fmt.Errorf("%w: %w", errUnavailable(), err)
	}
	return nil
}

// Set adds or replaces a ServiceAccount. One that is being deleted counts as deleted.
func (t *Tokens) Set(o *store.Object) {
	var in v1alpha1.ServiceAccount
	if err := json.Unmarshal(o.Raw, &in); err != nil {
		klog.ErrorS(err, "A ServiceAccount is left out, and its tokens refused", "serviceaccount", klog.KRef(o.Namespace, o.Name))
		t.Delete(o.Namespace, o.Name)
		return
	}
	if in.DeletionTimestamp != nil {
		t.Delete(o.Namespace, o.Name)
		return
	}
	a := &account{uid: string(in.UID), info: &user.DefaultInfo{
		Name: iamv1beta1.ServiceAccountUser(o.Namespace, o.Name), UID: string(in.UID),
		Groups: []string{iamv1beta1.ServiceAccountsGroup, iamv1beta1.ServiceAccountsGroup + ":" + o.Namespace, user.AllAuthenticated},
	}}
	for i := range in.Secrets {
		a.secrets = append(a.secrets, in.Secrets[i].Name)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.accounts == nil {
		t.accounts = map[types.NamespacedName]*account{}
	}
	t.accounts[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = a
}

// Delete removes a ServiceAccount.
func (t *Tokens) Delete(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.accounts, types.NamespacedName{Namespace: namespace, Name: name})
}

// setSecret adds or replaces a Secret of the type.
func (t *Tokens) setSecret(s *corev1.Secret) {
	at := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(at)
	held, err := token.ParseServiceAccount(string(s.Data[v1alpha1.ServiceAccountTokenKey]))
	name, uid := s.Annotations[v1alpha1.AnnotationServiceAccountName], s.Annotations[v1alpha1.AnnotationServiceAccountUID]
	if err != nil || name == "" || uid == "" || held.Account != token.ServiceAccountID(uid) || s.DeletionTimestamp != nil ||
		s.Type != v1alpha1.SecretTypeServiceAccountToken {
		return
	}
	if t.secrets == nil {
		t.secrets, t.byHash = map[types.NamespacedName]secret{}, map[[sha256.Size]byte][]types.NamespacedName{}
	}
	t.secrets[at] = secret{hash: held.Hash, account: types.NamespacedName{Namespace: s.Namespace, Name: name}, uid: uid}
	t.byHash[held.Hash] = append(t.byHash[held.Hash], at)
}

// deleteSecret removes a Secret.
func (t *Tokens) deleteSecret(namespace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(types.NamespacedName{Namespace: namespace, Name: name})
}

// drop removes a Secret. The caller holds the lock.
func (t *Tokens) drop(at types.NamespacedName) {
	old, ok := t.secrets[at]
	if !ok {
		return
	}
	delete(t.secrets, at)
	left := slices.DeleteFunc(t.byHash[old.hash], func(p types.NamespacedName) bool { return p == at })
	if t.byHash[old.hash] = left; len(left) == 0 {
		delete(t.byHash, old.hash)
	}
}
