package iam

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/token"
)

// keyring are the API keys of two replicas.
type keyring struct {
	api   *objects[*v1alpha1.APIKey]
	clock *clock
	users *UserIndex
	all   [2]*APIKeys
}

func newKeyring(t testing.TB) *keyring {
	t.Helper()
	k := &keyring{api: newObjects(func() *v1alpha1.APIKey { return &v1alpha1.APIKey{} }), clock: &clock{t: start()}, users: NewUserIndex()}
	k.users.Set(userObject("alice", func(u *iamapi.User) { u.Spec.Groups = []string{"devs"} }))
	k.users.Set(userObject("bob"))
	for i := range k.all {
		k.all[i] = &APIKeys{API: k.api, Users: k.users, MaxAge: 365 * 24 * time.Hour, Now: k.clock.now}
		k.api.follow(k.all[i])
	}
	return k
}

func (k *keyring) make(t testing.TB, user string) (*APIKey, token.APIKey) {
	t.Helper()
	return k.makeFor(t, user, "")
}

func (k *keyring) makeFor(t testing.TB, user, scope string) (*APIKey, token.APIKey) {
	t.Helper()
	made, text, err := k.all[0].Create(t.Context(), k.users.ByName(user), NewAPIKey{Description: "ci", Scope: scope, Expires: k.clock.now().Add(24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	key, err := token.ParseAPIKey(text)
	if err != nil || key.Name != made.Name {
		t.Fatalf("%v, %v", key.Name, err)
	}
	for _, raw := range k.api.stored { // S57
		if secret := text[len(token.APIKeyPrefix)+27:]; strings.Contains(raw, secret[:40]) {
			t.Errorf("the secret is in the object")
		}
	}
	return made, key
}

func (k *keyring) good(t testing.TB, i int, key token.APIKey) bool {
	t.Helper()
	_, err := k.all[i].Authenticate(key)
	if err != nil && !errors.Is(err, ErrKey) {
		t.Fatal(err)
	}
	return err == nil
}

func TestAnAPIKeyIsItsUsersOnEveryReplica(t *testing.T) { // U36
	k := newKeyring(t)
	_, key := k.make(t, "alice")
	for i := range k.all {
		u, err := k.all[i].Authenticate(key)
		if err != nil {
			t.Fatal(err)
		}
		if u.GetName() != "alice" || u.GetUID() != "uid-alice" || u.GetGroups()[0] != "devs" || u.GetExtra()[ExtraCredential][0] != CredentialAPIKey ||
			u.GetExtra()[extraCredentialID][0] != "APIKEY="+key.Name {
			t.Errorf("%+v", u)
		}
	}
	if k.users.ByName("alice").Info().GetExtra() != nil {
		t.Error("the user himself became one who comes with a key")
	}
	k.users.Set(userObject("alice", func(u *iamapi.User) { u.Spec.Groups = []string{"ops"} }))
	if u, _ := k.all[1].Authenticate(key); u.GetGroups()[0] != "ops" {
		t.Errorf("groups %v after a change", u.GetGroups())
	}
	other := key
	other.Hash[0] ^= 1
	if k.good(t, 0, other) {
		t.Error("another secret is good")
	}
}

func TestAnAPIKeyCarriesWhatItIsForOnEveryReplica(t *testing.T) { // U36
	k := newKeyring(t)
	alice := k.users.ByName("alice")
	made, key := k.makeFor(t, "alice", authz.ScopeRead)
	_, whole := k.make(t, "alice")
	for i := range k.all {
		u, err := k.all[i].Authenticate(key)
		if err != nil || !slices.Equal(u.GetExtra()[authz.ExtraScope], []string{"read"}) {
			t.Errorf("%v %v", u, err)
		}
		if u, err = k.all[i].Authenticate(whole); err != nil || u.GetExtra()[authz.ExtraScope] != nil {
			t.Errorf("%v %v", u, err)
		}
	}
	if list := k.all[1].List(alice); len(list) != 2 || list[0].Scope+list[1].Scope != "read" || made.Scope != "read" {
		t.Errorf("%+v", list)
	}
	for _, scope := range []string{"write", "Read", "read ", "read,write"} {
		if _, _, err := k.all[0].Create(t.Context(), alice, NewAPIKey{Scope: scope, Expires: k.clock.now().Add(time.Hour)}); !errors.Is(err, ErrScope) ||
			!strings.Contains(err.Error(), `"read"`) {
			t.Errorf("%q: %v", scope, err)
		}
	}
	if k.api.size() != 2 {
		t.Errorf("%d keys", k.api.size())
	}
}

// forgetful is a cluster whose definition of API keys is older than their scopes.
type forgetful struct{ *objects[*v1alpha1.APIKey] }

func (f forgetful) Create(ctx context.Context, o *v1alpha1.APIKey) (*v1alpha1.APIKey, error) {
	cut := o.DeepCopy()
	cut.Spec.Scope = ""
	return f.objects.Create(ctx, cut)
}

func TestAScopeThatTheClusterForgetsMakesNoKey(t *testing.T) {
	k := newKeyring(t)
	k.all[0].API = forgetful{k.api}
	_, _, err := k.all[0].Create(t.Context(), k.users.ByName("alice"), NewAPIKey{Scope: authz.ScopeRead, Expires: k.clock.now().Add(time.Hour)})
	want(t, err, ErrUnavailable)
	if k.api.size() != 0 || len(k.all[0].List(k.users.ByName("alice"))) != 0 {
		t.Error("a key to everything was made")
	}
}

func TestWhatEndsAnAPIKey(t *testing.T) { // U36, U39
	for name, test := range map[string]struct {
		do   func(*testing.T, *keyring, *APIKey)
		good bool
	}{
		"Revoked": {func(t *testing.T, k *keyring, a *APIKey) {
			want(t, k.all[1].Revoke(t.Context(), k.users.ByName("alice"), a.Name), nil)
		}, false},
		"AllRevoked": {func(t *testing.T, k *keyring, _ *APIKey) {
			want(t, k.all[1].RevokeAll(t.Context(), k.users.ByName("alice")), nil)
		}, false},
		"OfAnotherUser": {func(t *testing.T, k *keyring, a *APIKey) {
			want(t, k.all[0].Revoke(t.Context(), k.users.ByName("bob"), a.Name), ErrOver)
		}, true},
		"Expired": {func(_ *testing.T, k *keyring, _ *APIKey) { k.clock.add(24 * time.Hour) }, false},
		"Disabled": {func(_ *testing.T, k *keyring, _ *APIKey) {
			k.users.Set(userObject("alice", withState(iamapi.UserDisabled)))
		}, false},
		"Deleted":  {func(_ *testing.T, k *keyring, _ *APIKey) { k.users.Delete("", "alice") }, false},
		"MadeAnew": {func(_ *testing.T, k *keyring, _ *APIKey) { k.users.Set(userObject("alice", withUID("another"))) }, false},
		"NewPassword": {func(t *testing.T, k *keyring, _ *APIKey) {
			k.users.Set(userObject("alice", withPassword(hash(t, "Other-123"))))
		}, true},
		"GuessingLocksNoKey": {func(_ *testing.T, k *keyring, _ *APIKey) {
			k.users.Set(userObject("alice", withState(iamapi.UserAuthLimitExceeded)))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeyring(t)
			made, key := k.make(t, "alice")
			test.do(t, k, made)
			for i := range k.all {
				if k.good(t, i, key) != test.good {
					t.Errorf("replica %d: good is %v", i, !test.good)
				}
			}
		})
	}
}

func TestAPIKeysAreBounded(t *testing.T) {
	k := newKeyring(t)
	alice := k.users.ByName("alice")
	for name, test := range map[string]struct {
		expires     time.Time
		description string
		want        error
	}{
		"InThePast": {k.clock.now(), "", ErrExpiry},
		"Never":     {time.Time{}, "", ErrExpiry},
		"TooLong":   {k.clock.now().Add(366 * 24 * time.Hour), "", ErrExpiry},
		"ManyWords": {k.clock.now().Add(time.Hour), strings.Repeat("x", 257), errLongDescription},
	} {
		if _, _, err := k.all[0].Create(t.Context(), alice, NewAPIKey{Description: test.description, Expires: test.expires}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range keysPerUser {
		k.make(t, "alice")
		k.clock.add(time.Second)
	}
	_, _, err := k.all[1].Create(t.Context(), alice, NewAPIKey{Expires: k.clock.now().Add(time.Hour)})
	want(t, err, ErrTooMany)
	list := k.all[1].List(alice)
	if len(list) != keysPerUser || !list[0].Created.After(list[1].Created) || len(k.all[0].List(k.users.ByName("bob"))) != 0 {
		t.Errorf("%d keys", len(list))
	}
	_, _, err = (&APIKeys{}).Create(t.Context(), alice, NewAPIKey{Expires: k.clock.now()})
	want(t, err, ErrUnavailable)
	k.api.breakWith(errors.New("down"))
	want(t, k.all[0].Revoke(t.Context(), alice, list[0].Name), ErrUnavailable)
}

func TestTheLastUseIsWrittenOnceAnHour(t *testing.T) {
	k := newKeyring(t)
	_, key := k.make(t, "alice")
	alice := k.users.ByName("alice")
	for range 300 {
		k.good(t, 0, key)
		k.good(t, 1, key)
		k.all[0].Sweep(t.Context())
		k.all[1].Sweep(t.Context())
		k.clock.add(time.Minute)
	}
	if n := k.api.count("update"); n < 4 || n > 6 {
		t.Errorf("%d writes in five hours", n)
	}
	if got := k.all[0].List(alice)[0].Used; k.clock.now().Sub(got) > 2*time.Minute {
		t.Errorf("last used at %v, now it is %v", got, k.clock.now())
	}
}

func TestKeysThatAreOverAreDeleted(t *testing.T) {
	k := newKeyring(t)
	k.make(t, "alice")
	_, key := k.make(t, "bob")
	k.users.Delete("", "alice")
	k.all[0].Sweep(t.Context())
	if k.api.size() != 2 {
		t.Error("a key went before its user may be known")
	}
	k.clock.add(time.Hour)
	k.all[0].Sweep(t.Context())
	if k.api.size() != 1 || !k.good(t, 1, key) {
		t.Errorf("%d keys are left", k.api.size())
	}
	k.clock.add(49 * time.Hour)
	k.all[1].Sweep(t.Context())
	if k.api.size() != 0 {
		t.Errorf("%d keys are left", k.api.size())
	}
}

func BenchmarkAuthenticateAPIKey(b *testing.B) {
	k := newKeyring(b)
	_, key := k.make(b, "alice")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.all[0].Authenticate(key); err != nil {
			b.Fatal(err)
		}
	}
}
