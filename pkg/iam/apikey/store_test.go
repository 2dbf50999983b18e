package apikey

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

// keyring are the API keys of two replicas.
type keyring struct {
	api   *iamtest.Objects[*v1alpha1.APIKey]
	clock *clocktesting.FakeClock
	users *iam.UserIndex
	all   [2]*Store
}

func newKeyring(t testing.TB) *keyring {
	t.Helper()
	k := &keyring{api: iamtest.NewObjects(func() *v1alpha1.APIKey { return &v1alpha1.APIKey{} }), clock: clocktesting.NewFakeClock(iamtest.Start()),
		users: iam.NewUserIndex()}
	k.users.Set(iamtest.User("alice", func(u *iamapi.User) { u.Spec.Groups = []string{"devs"} }))
	k.users.Set(iamtest.User("bob"))
	for i := range k.all {
		k.all[i] = &Store{API: k.api, Users: k.users, MaxAge: 365 * 24 * time.Hour, Now: k.clock.Now}
		k.api.Follow(k.all[i])
	}
	return k
}

func (k *keyring) make(t testing.TB, user string) (*Key, token.APIKey) {
	t.Helper()
	return k.makeFor(t, user, "")
}

func (k *keyring) makeFor(t testing.TB, user, scope string) (*Key, token.APIKey) {
	t.Helper()
	made, text, err := k.all[0].Create(t.Context(), k.users.ByName(user), Request{Description: "ci", Scope: scope, Expires: k.clock.Now().Add(24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	key, err := token.ParseAPIKey(text)
	if err != nil || key.Name != made.Name {
		t.Fatalf("%v, %v", key.Name, err)
	}
	for _, raw := range k.api.Stored { // S57
		if secret := text[len(token.APIKeyPrefix)+27:]; strings.Contains(raw, secret[:40]) {
			t.Errorf("the secret is in the object")
		}
	}
	return made, key
}

func (k *keyring) good(t testing.TB, i int, key token.APIKey) bool {
	t.Helper()
	_, err := k.all[i].Authenticate(key)
	if err != nil && !errors.Is(err, iam.ErrKey) {
		t.Fatal(err)
	}
	return err == nil
}

func TestAnAPIKeyIsItsUsersOnEveryReplica(t *testing.T) {
	k := newKeyring(t)
	_, key := k.make(t, "alice")
	for i := range k.all {
		u, err := k.all[i].Authenticate(key)
		if err != nil {
			t.Fatal(err)
		}
		if u.GetName() != "alice" || u.GetUID() != "uid-alice" || u.GetGroups()[0] != "devs" || u.GetExtra()[iam.ExtraCredential][0] != iam.CredentialAPIKey ||
			u.GetExtra()[iam.ExtraCredentialID][0] != "APIKEY="+key.Name {
			t.Errorf("%+v", u)
		}
	}
	if k.users.ByName("alice").Info().GetExtra() != nil {
		t.Error("the user himself became one who comes with a key")
	}
	k.users.Set(iamtest.User("alice", func(u *iamapi.User) { u.Spec.Groups = []string{"ops"} }))
	if u, _ := k.all[1].Authenticate(key); u.GetGroups()[0] != "ops" {
		t.Errorf("groups %v after a change", u.GetGroups())
	}
	other := key
	other.Hash[0] ^= 1
	if k.good(t, 0, other) {
		t.Error("another secret is good")
	}
}

func TestAnAPIKeyCarriesWhatItIsForOnEveryReplica(t *testing.T) {
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
		if _, _, err := k.all[0].Create(t.Context(), alice, Request{Scope: scope, Expires: k.clock.Now().Add(time.Hour)}); !errors.Is(err, iam.ErrScope) ||
			!strings.Contains(err.Error(), `"read"`) {
			t.Errorf("%q: %v", scope, err)
		}
	}
	if k.api.Size() != 2 {
		t.Errorf("%d keys", k.api.Size())
	}
}

// forgetful is a cluster whose definition of API keys has no scopes yet.
type forgetful struct {
	*iamtest.Objects[*v1alpha1.APIKey]
}

func (f forgetful) Create(ctx context.Context, o *v1alpha1.APIKey) (*v1alpha1.APIKey, error) {
	cut := o.DeepCopy()
	cut.Spec.Scope = ""
	return f.Objects.Create(ctx, cut)
}

func TestAScopeThatTheClusterForgetsMakesNoKey(t *testing.T) {
	k := newKeyring(t)
	k.all[0].API = forgetful{k.api}
	_, _, err := k.all[0].Create(t.Context(), k.users.ByName("alice"), Request{Scope: authz.ScopeRead, Expires: k.clock.Now().Add(time.Hour)})
	iamtest.Want(t, err, iam.ErrUnavailable)
	if k.api.Size() != 0 || len(k.all[0].List(k.users.ByName("alice"))) != 0 {
		t.Error("a key to everything was made")
	}
}

func TestWhatEndsAnAPIKey(t *testing.T) {
	for name, test := range map[string]struct {
		do   func(*testing.T, *keyring, *Key)
		good bool
	}{
		"Revoked": {func(t *testing.T, k *keyring, a *Key) {
			iamtest.Want(t, k.all[1].Revoke(t.Context(), k.users.ByName("alice"), a.Name), nil)
		}, false},
		"AllRevoked": {func(t *testing.T, k *keyring, _ *Key) {
			iamtest.Want(t, k.all[1].RevokeAll(t.Context(), k.users.ByName("alice")), nil)
		}, false},
		"OfAnotherUser": {func(t *testing.T, k *keyring, a *Key) {
			iamtest.Want(t, k.all[0].Revoke(t.Context(), k.users.ByName("bob"), a.Name), iam.ErrOver)
		}, true},
		"Expired": {func(_ *testing.T, k *keyring, _ *Key) { k.clock.Step(24 * time.Hour) }, false},
		"Disabled": {func(_ *testing.T, k *keyring, _ *Key) {
			k.users.Set(iamtest.User("alice", iamtest.WithState(iamapi.UserDisabled)))
		}, false},
		"Deleted":  {func(_ *testing.T, k *keyring, _ *Key) { k.users.Delete("", "alice") }, false},
		"MadeAnew": {func(_ *testing.T, k *keyring, _ *Key) { k.users.Set(iamtest.User("alice", iamtest.WithUID("another"))) }, false},
		"NewPassword": {func(t *testing.T, k *keyring, _ *Key) {
			k.users.Set(iamtest.User("alice", iamtest.WithPassword(iamtest.Hash(t, "Other-123"))))
		}, true},
		"GuessingLocksNoKey": {func(_ *testing.T, k *keyring, _ *Key) {
			k.users.Set(iamtest.User("alice", iamtest.WithState(iamapi.UserAuthLimitExceeded)))
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
		"InThePast": {k.clock.Now(), "", iam.ErrExpiry},
		"Never":     {time.Time{}, "", iam.ErrExpiry},
		"TooLong":   {k.clock.Now().Add(366 * 24 * time.Hour), "", iam.ErrExpiry},
		"ManyWords": {k.clock.Now().Add(time.Hour), strings.Repeat("x", 257), errLongDescription},
	} {
		if _, _, err := k.all[0].Create(t.Context(), alice, Request{Description: test.description, Expires: test.expires}); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range keysPerUser {
		k.make(t, "alice")
		k.clock.Step(time.Second)
	}
	_, _, err := k.all[1].Create(t.Context(), alice, Request{Expires: k.clock.Now().Add(time.Hour)})
	iamtest.Want(t, err, iam.ErrTooMany)
	list := k.all[1].List(alice)
	if len(list) != keysPerUser || !list[0].Created.After(list[1].Created) || len(k.all[0].List(k.users.ByName("bob"))) != 0 {
		t.Errorf("%d keys", len(list))
	}
	_, _, err = (&Store{}).Create(t.Context(), alice, Request{Expires: k.clock.Now()})
	iamtest.Want(t, err, iam.ErrUnavailable)
	k.api.BreakWith(errors.New("down"))
	iamtest.Want(t, k.all[0].Revoke(t.Context(), alice, list[0].Name), iam.ErrUnavailable)
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
		k.clock.Step(time.Minute)
	}
	if n := k.api.Count("update"); n < 4 || n > 6 {
		t.Errorf("%d writes in five hours", n)
	}
	if got := k.all[0].List(alice)[0].Used; k.clock.Now().Sub(got) > 2*time.Minute {
		t.Errorf("last used at %v, now it is %v", got, k.clock.Now())
	}
}

// A key that is revoked while its last use is written stays revoked.
func TestTheLastUseOfARevokedKeyBringsItBackNowhere(t *testing.T) {
	for _, verb := range []string{"get", "update"} {
		k := newKeyring(t)
		made, key := k.make(t, "alice")
		k.clock.Step(2 * time.Hour)
		if !k.good(t, 0, key) {
			t.Fatal("the key is not good")
		}
		k.api.Hold(0)
		k.api.Fail = func(now string) error { // each call is answered as before the deletion, which the feed brings first
			if now == verb {
				k.all[0].Delete("", made.Name)
			}
			return nil
		}
		k.all[0].Sweep(t.Context())
		if k.good(t, 0, key) || len(k.all[0].List(k.users.ByName("alice"))) > 0 {
			t.Errorf("deleted at the %s, it is good", verb)
		}
		if !k.good(t, 1, key) {
			t.Error("where it was not deleted, it is not good")
		}
		k.api.Fail = nil
	}
}

func TestKeysThatAreOverAreDeleted(t *testing.T) {
	k := newKeyring(t)
	k.make(t, "alice")
	_, key := k.make(t, "bob")
	k.users.Delete("", "alice")
	k.all[0].Sweep(t.Context())
	if k.api.Size() != 2 {
		t.Error("a key went before its user may be known")
	}
	k.clock.Step(time.Hour)
	k.users.CompleteBy(func() error { return errors.New("the watch is broken") })
	if k.all[0].Sweep(t.Context()); k.api.Size() != 2 {
		t.Error("a key went while not all users are known")
	}
	k.users.CompleteBy(nil)
	k.all[0].Sweep(t.Context())
	if k.api.Size() != 1 || !k.good(t, 1, key) {
		t.Errorf("%d keys are left", k.api.Size())
	}
	k.clock.Step(49 * time.Hour)
	k.all[1].Sweep(t.Context())
	if k.api.Size() != 0 {
		t.Errorf("%d keys are left", k.api.Size())
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

// A replica that has just started, or whose caches are not up to date, does not say of a key that it does not exist, nor that its user is gone: it says
// that it can't tell. It lets nobody in by that, and refuses what it knows to be wrong.
func TestAKeyIsUnknownOnlyWhereAllKeysAndUsersAreKnown(t *testing.T) {
	k := newKeyring(t)
	_, key := k.make(t, "alice")
	keys, users := errors.New("list apikeys: not complete yet"), errors.New("list users: not complete yet")
	started := &Store{API: k.api, Users: iam.NewUserIndex(), MaxAge: time.Hour, Now: k.clock.Now, Complete: func() error { return keys }}
	started.Users.CompleteBy(func() error { return users })
	want := func(what string, key token.APIKey, want error) {
		t.Helper()
		_, err := started.Authenticate(key)
		if !errors.Is(err, want) || apierrors.IsServiceUnavailable(err) != errors.Is(want, iam.ErrUnavailable) || (err == nil) != (want == nil) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	want("neither keys nor users are known", key, iam.ErrUnavailable)
	k.api.Follow(started)
	started.Set(&store.Object{Name: key.Name, Raw: redaction.Bytes(k.api.Stored[key.Name])})
	want("the key is known, and its user not", key, iam.ErrUnavailable)
	other := key
	other.Hash[0] ^= 1
	want("another secret", other, iam.ErrKey)
	started.Users.Set(iamtest.User("alice"))
	want("both are known", key, nil)
	other.Name = "unknown"
	want("another key", other, iam.ErrUnavailable)
	if keys = nil; true {
		want("another key, and all are known", other, iam.ErrKey)
	}
	started.Users.Set(iamtest.User("alice", func(u *iamapi.User) { u.UID = "uid-of-another" }))
	want("the user was made again, or not yet", key, iam.ErrUnavailable)
	if users = nil; true {
		want("the user was made again", key, iam.ErrKey)
	}
}

// A replica that does not know all keys revokes those that it knows, and says that there may be others (O49).
func TestWhoRevokesAllKeysIsToldWhereNotAllAreKnown(t *testing.T) {
	k := newKeyring(t)
	alice, incomplete := k.users.ByName("alice"), errors.New("list apikeys: not complete yet")
	_, unknown := k.make(t, "alice")
	started := &Store{API: k.api, Users: k.users, MaxAge: 24 * time.Hour, Now: k.clock.Now, Complete: func() error { return incomplete }}
	k.api.Follow(started)
	_, known := k.make(t, "alice")
	if err := started.RevokeAll(t.Context(), alice); !errors.Is(err, iam.ErrUnavailable) || !errors.Is(err, incomplete) {
		t.Errorf("got %v", err)
	}
	if k.good(t, 0, known) || !k.good(t, 0, unknown) {
		t.Errorf("the known one is good: %v; the other: %v", k.good(t, 0, known), k.good(t, 0, unknown))
	}
	started.Set(&store.Object{Name: unknown.Name, Raw: redaction.Bytes(k.api.Stored[unknown.Name])})
	incomplete = nil
	iamtest.Want(t, started.RevokeAll(t.Context(), alice), nil)
	if k.good(t, 0, unknown) {
		t.Error("repeated where all are known, it revokes not all")
	}
}
