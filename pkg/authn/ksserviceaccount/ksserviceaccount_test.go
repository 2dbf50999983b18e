package ksserviceaccount

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/informer"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

func made(t *testing.T, uid string) string {
	t.Helper()
	s, err := token.NewServiceAccount(uid, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func accountOf(t *testing.T, namespace, name, uid string, secrets ...string) *store.Object {
	t.Helper()
	a := v1alpha1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
	for _, s := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s})
	}
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return &store.Object{Namespace: namespace, Name: name, Raw: raw}
}

func holder(namespace, name, of, uid, token string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
			v1alpha1.AnnotationServiceAccountName: of, v1alpha1.AnnotationServiceAccountUID: uid,
		}},
		Type: v1alpha1.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte(token)},
	}
}

// secretStore is what the watch of Secrets feeds.
type secretStore = informer.Store[*corev1.Secret]

func good(t *testing.T, k *Tokens, s string) bool {
	t.Helper()
	r, ok, err := k.AuthenticateToken(t.Context(), s)
	if ok != (err == nil && r != nil) || err != nil && strings.Contains(err.Error(), s) {
		t.Errorf("%v, %t, %v", r, ok, err)
	}
	return ok
}

func TestATokenIsItsAccount(t *testing.T) {
	k, s := &Tokens{}, made(t, "1")
	_ = informer.NewStore(k.handler()).Add(holder("ns", "a-token", "a", "1", s))
	k.Set(accountOf(t, "ns", "a", "1", "a-token"))
	r, ok, err := k.AuthenticateToken(t.Context(), s)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if u := r.User; u.GetName() != "kubesphere:serviceaccount:ns:a" || u.GetUID() != "1" ||
		!slices.Equal(u.GetGroups(), []string{"kubesphere:serviceaccount", "kubesphere:serviceaccount:ns", "system:authenticated"}) {
		t.Errorf("%+v", u)
	}
}

// S34: a token without an end lives as long as its Secret and its account.
func TestATokenDiesWithWhatHoldsIt(t *testing.T) {
	for name, end := range map[string]func(k *Tokens, secrets *secretStore, s *corev1.Secret){
		"SecretDeleted":       func(_ *Tokens, secrets *secretStore, s *corev1.Secret) { _ = secrets.Delete(s) },
		"SecretNotInANewList": func(_ *Tokens, secrets *secretStore, _ *corev1.Secret) { _ = secrets.Replace(nil, "") },
		"AccountDeleted":      func(k *Tokens, _ *secretStore, _ *corev1.Secret) { k.Delete("ns", "a") },
		"AccountMadeAnew":     func(k *Tokens, _ *secretStore, _ *corev1.Secret) { k.Set(accountOf(t, "ns", "a", "2", "a-token")) },
		"AccountNamesAnother": func(k *Tokens, _ *secretStore, _ *corev1.Secret) { k.Set(accountOf(t, "ns", "a", "1", "b-token")) },
		"AccountIsBroken": func(k *Tokens, _ *secretStore, _ *corev1.Secret) {
			k.Set(&store.Object{Namespace: "ns", Name: "a", Raw: []byte("{")})
		},
		"AccountIsBeingDeleted": func(k *Tokens, _ *secretStore, _ *corev1.Secret) {
			k.Set(&store.Object{Namespace: "ns", Name: "a",
				Raw: []byte(`{"metadata":{"uid":"1","deletionTimestamp":"2026-11-21T00:00:00Z"},"secrets":[{"name":"a-token"}]}`)})
		},
		"TokenReplaced": func(_ *Tokens, secrets *secretStore, s *corev1.Secret) {
			_ = secrets.Update(holder("ns", "a-token", "a", "1", made(t, "1")))
		},
		"TokenRemoved": func(_ *Tokens, secrets *secretStore, s *corev1.Secret) {
			_ = secrets.Update(holder("ns", "a-token", "a", "1", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, s := &Tokens{}, made(t, "1")
			secrets := informer.NewStore(k.handler())
			secret := holder("ns", "a-token", "a", "1", s)
			_ = secrets.Replace([]any{secret}, "")
			k.Set(accountOf(t, "ns", "a", "1", "a-token"))
			if !good(t, k, s) {
				t.Fatal("it is not good to begin with")
			}
			if end(k, secrets, secret); good(t, k, s) {
				t.Error("it is still good")
			}
			if n := len(k.secrets) + len(k.byHash); n != 0 && strings.HasPrefix(name, "Secret") {
				t.Errorf("%d entries are left", n)
			}
		})
	}
}

// A Secret that a user creates besides that of an account gives them no access to this account or any other.
func TestASecretThatNobodyVouchesForOpensNothing(t *testing.T) {
	s := made(t, "1")
	for name, secret := range map[string]*corev1.Secret{
		"NotNamedByTheAccount":   holder("ns", "mine", "a", "1", s),
		"CopyInAnotherNamespace": holder("other", "a-token", "a", "1", s),
		"OfAnotherAccount":       holder("ns", "b-token", "b", "2", s),
		"WithAnotherUID":         holder("ns", "a-token", "a", "2", s),
		"WeakToken":              holder("ns", "a-token", "a", "1", "kssa_1"),
		"OfAnotherType": func() *corev1.Secret {
			o := holder("ns", "a-token", "a", "1", s)
			o.Type = corev1.SecretTypeOpaque
			return o
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			k := &Tokens{}
			k.Set(accountOf(t, "ns", "a", "1", "a-token"))
			k.Set(accountOf(t, "ns", "b", "2", "b-token"))
			k.Set(accountOf(t, "other", "a", "3", "a-token"))
			_ = informer.NewStore(k.handler()).Add(secret)
			if good(t, k, string(secret.Data["token"])) {
				t.Error("it is good")
			}
		})
	}
}

func TestACopyTakesNothingFromTheToken(t *testing.T) {
	k, s := &Tokens{}, made(t, "1")
	secrets := informer.NewStore(k.handler())
	k.Set(accountOf(t, "ns", "a", "1", "a-token"))
	_ = secrets.Add(holder("ns", "copy", "a", "1", s))
	_ = secrets.Add(holder("ns", "a-token", "a", "1", s))
	if !good(t, k, s) {
		t.Error("a copy that came first took it away")
	}
	if _ = secrets.Delete(holder("ns", "copy", "a", "1", s)); !good(t, k, s) {
		t.Error("the end of a copy ended it")
	}
}

func TestOtherTokensArePassedOver(t *testing.T) { // S32
	k := &Tokens{}
	key, _ := token.NewAPIKey()
	for _, s := range []string{"", "x", key, "a.b.c"} {
		if _, ok, err := k.AuthenticateToken(t.Context(), s); ok || err != nil {
			t.Errorf("%q: %t, %v", s, ok, err)
		}
	}
	if good(t, k, made(t, "1")) || good(t, k, "kssa_") {
		t.Error("an unknown token is good")
	}
}

// S57: no plaintext is stored.
func TestNoTokenIsKept(t *testing.T) {
	k, s := &Tokens{}, made(t, "1")
	_ = informer.NewStore(k.handler()).Add(holder("ns", "a-token", "a", "1", s))
	if text := fmt.Sprintf("%+v %+v", k.secrets, k.byHash); strings.Contains(text, s[10:40]) {
		t.Error("the token is in memory")
	}
}

// Until the Secrets are read, and while ServiceAccounts are not known in full, it can't be told of a token whether it is good.
func TestATokenIsUnknownOnlyWhereAllIsKnown(t *testing.T) {
	unknown := errors.New("list serviceaccounts: not complete yet")
	k, s := &Tokens{Complete: func() error { return unknown }}, made(t, "1")
	unavailable := func(want bool) {
		t.Helper()
		_, ok, err := k.AuthenticateToken(t.Context(), s)
		seconds, wait := apierrors.SuggestsClientDelay(err)
		if ok || err == nil || apierrors.IsServiceUnavailable(err) != want || wait != want || want && seconds == 0 {
			t.Errorf("%t, %v: want that it can't be told: %t", ok, err, want)
		}
	}
	unavailable(true)
	unknown = nil
	unavailable(true) // the Secrets are not read yet
	secrets := informer.NewStore(k.handler())
	_ = secrets.Replace(nil, "")
	unavailable(false)
	unknown = errors.New("the watch is broken")
	unavailable(true)
	_ = secrets.Add(holder("ns", "a-token", "a", "1", s))
	unavailable(true) // its account is not known
	k.Set(accountOf(t, "ns", "a", "1", "a-token"))
	if !good(t, k, s) {
		t.Error("what is known is refused")
	}
	if _, _, err := k.AuthenticateToken(t.Context(), "kssa_x"); err == nil || apierrors.IsServiceUnavailable(err) {
		t.Errorf("what is no token: %v", err)
	}
}
