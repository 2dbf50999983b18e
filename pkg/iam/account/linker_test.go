package account

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/store"
)

func accounts(api *iamtest.UserAPI) *Linker {
	users := iam.NewUserIndex()
	api.Feeds = append(api.Feeds, users)
	return New(Options{API: api, Users: users, Synced: func() bool { return true }, Named: func(n string) bool { return n == "admin" }})
}

func provider(m idp.Mapping) *idp.Entry { return &idp.Entry{Name: "corp", Mapping: m} }

func jane() *idp.Identity {
	return &idp.Identity{Subject: "s-1", Username: "jane", DisplayName: "Jane Doe", Email: "jane@example.com", Groups: []string{"dev", "system:masters",
		"kapis:x"}}
}

func linked(name, provider, subject string) *store.Object {
	return iamtest.User(name, func(u *iamapi.User) {
		u.Annotations = map[string]string{iamapi.AnnotationIdentityProviderPrefix + provider: subject}
	})
}

// Users are found by provider and subject, and never by a name or an e-mail.
func TestLinksAreFoundByProviderAndSubject(t *testing.T) {
	a := accounts(iamtest.NewUserAPI())
	a.Users.Set(linked("jane", "corp", "s-1"))
	a.Users.Set(iamtest.User("old", func(u *iamapi.User) {
		u.Labels = map[string]string{iamapi.LabelIdentifyProvider: "corp", iamapi.LabelOriginUID: "s-2"}
		u.Annotations = map[string]string{iamapi.AnnotationIdentityProviderPrefix + "git": "42", iamapi.AnnotationIdentityProviderPrefix + "corp": ""}
	}))
	for _, tc := range []struct{ provider, subject, want string }{
		{"corp", "s-1", "jane"}, {"corp", "s-2", "old"}, {"git", "42", "old"}, {"corp", "jane", ""}, {"git", "s-1", ""}, {"corp", "", ""}, {"", "s-1",
			""}, {"corp", "S-1", ""},
	} {
		got := ""
		if u := a.Linked(tc.provider, tc.subject); u != nil {
			got = u.Name
		}
		if got != tc.want {
			t.Errorf("%s %s is %q, want %q", tc.provider, tc.subject, got, tc.want)
		}
	}
	a.Users.Set(linked("jane", "corp", "s-3"))
	if a.Linked("corp", "s-1") != nil || a.Linked("corp", "s-3") == nil {
		t.Error("a link that was changed is kept")
	}
	a.Users.Delete("", "jane")
	if a.Linked("corp", "s-3") != nil {
		t.Error("a link of a deleted user is kept")
	}
	if u := a.Users.ByName("old"); len(u.Links) != 2 {
		t.Errorf("links %v", u.Links)
	}
}

func TestALinkOfTwoUsersIsNobodys(t *testing.T) {
	api := iamtest.NewUserAPI()
	a := accounts(api)
	a.Users.Set(linked("jane", "corp", "s-1"))
	a.Users.Set(linked("eve", "corp", "s-1"))
	for _, m := range []idp.Mapping{idp.MapAuto, idp.MapManual, idp.MapLookup, idp.MapMixed} {
		if u, r, err := a.Resolve(t.Context(), provider(m), jane()); !errors.Is(err, iam.ErrNotLinked) || u != nil || r != nil {
			t.Errorf("%s: %v, %v, %v", m, u, r, err)
		}
	}
	if _, err := a.Register(t.Context(), iam.Registration{Provider: "corp", Subject: "s-1"}, "third", ""); !errors.Is(err, iam.ErrNotLinked) || api.Created != 0 {
		t.Error(err)
	}
	a.Users.Delete("", "eve")
	if u := a.Linked("corp", "s-1"); u == nil || u.Name != "jane" {
		t.Errorf("it is %v", u)
	}
}

func TestMappings(t *testing.T) {
	for _, tc := range []struct {
		claim    string
		mapping  idp.Mapping
		there    string // a User of another person
		made     string // the prefix of the User's name
		proposed string
	}{
		{"AutoMakesAUser", idp.MapAuto, "", "jane", ""},
		{"AutoNeverTakesAUserOver", idp.MapAuto, "jane", "jane-", ""},
		{"ManualHasThePersonRegister", idp.MapManual, "", "", "jane"},
		{"ManualProposesAFreeName", idp.MapManual, "jane", "", "jane-"},
		{"MixedMakesAUserWhereTheNameIsFree", idp.MapMixed, "", "jane", ""},
		{"MixedHasThePersonRegisterWhereItIsNot", idp.MapMixed, "jane", "", "jane-"},
		{"LookupRefuses", idp.MapLookup, "", "", ""},
		{"WhatIsNoMappingRefuses", "x", "", "", ""},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			api := iamtest.NewUserAPI()
			a := accounts(api)
			if tc.there != "" {
				a.Users.Set(iamtest.User(tc.there))
				api.Objects[tc.there] = &iamapi.User{}
				api.Objects[tc.there].Name, api.Objects[tc.there].UID = tc.there, "other"
			}
			_, _, planned, planErr := a.Plan(provider(tc.mapping), jane())
			u, r, err := a.Resolve(t.Context(), provider(tc.mapping), jane())
			switch {
			case tc.made != "":
				if err != nil || r != nil || !strings.HasPrefix(u.Name, tc.made) || u.Name == tc.there || planErr != nil || planned != u.Name {
					t.Fatalf("%v, %v, %v; planned %s, %v", u, r, err, planned, planErr)
				}
				o := api.Objects[u.Name]
				if o.Annotations[iamapi.AnnotationIdentityProviderPrefix+"corp"] != "s-1" || len(o.Annotations) != 1 || o.Labels != nil || o.Spec.Groups != nil ||
					o.Spec.Password != "" {
					t.Errorf("%+v", o)
				}
				if o.Spec.DisplayName != "Jane Doe" {
					t.Errorf("display name %q", o.Spec.DisplayName)
				}
				if u.State != iamapi.UserActive || u.RefusalReason() != "" {
					t.Errorf("the login has to wait: %q", u.State)
				}
				if again, _, err := a.Resolve(t.Context(), provider(tc.mapping), jane()); err != nil || again.Name != u.Name || api.Created != 1 {
					t.Errorf("again: %v, %v", again, err)
				}
			case tc.proposed != "":
				if err != nil || u != nil || !strings.HasPrefix(r.Username, tc.proposed) || r.Username == tc.there || r.Provider != "corp" || r.Subject != "s-1" ||
					api.Created != 0 {
					t.Errorf("%v, %+v, %v", u, r, err)
				}
			default:
				if !errors.Is(err, iam.ErrNotLinked) || u != nil || r != nil || api.Created != 0 {
					t.Errorf("%v, %+v, %v", u, r, err)
				}
			}
		})
	}
}

// A binding gives rights to the name that it names: no identity gets that name, whether its provider or its owner proposes it.
func TestANameThatABindingNamesIsNotGiven(t *testing.T) {
	api := iamtest.NewUserAPI()
	a := accounts(api)
	id := jane()
	id.Username = "admin"
	u, _, err := a.Resolve(t.Context(), provider(idp.MapAuto), id)
	if err != nil || u.Name == "admin" {
		t.Errorf("%v, %v", u, err)
	}
	if _, err := a.Register(t.Context(), iam.Registration{Provider: "corp", Subject: "s-9"}, "admin", ""); !apierrors.IsAlreadyExists(err) {
		t.Error(err)
	}
}

func TestNobodyIsMadeBeforeAllUsersAreKnown(t *testing.T) {
	api := iamtest.NewUserAPI()
	a := accounts(api)
	a.Synced = func() bool { return false }
	for _, m := range []idp.Mapping{idp.MapAuto, idp.MapManual, idp.MapMixed} {
		if _, _, err := a.Resolve(t.Context(), provider(m), jane()); !errors.Is(err, iam.ErrUnavailable) {
			t.Errorf("%s: %v", m, err)
		}
	}
	if _, err := a.Register(t.Context(), iam.Registration{Provider: "corp", Subject: "s"}, "jane", ""); !errors.Is(err, iam.ErrUnavailable) || api.Created != 0 {
		t.Error(err)
	}
	disabled := provider(idp.MapAuto)
	disabled.Disabled = true
	if _, _, err := a.Resolve(t.Context(), disabled, jane()); !errors.Is(err, iam.ErrUnknownProvider) {
		t.Error(err)
	}
	a.Synced = func() bool { return true }
	for name, id := range map[string]*idp.Identity{"nobody": nil, "no subject": {Username: "jane"}, "overlong": {Subject: strings.Repeat("x", 2000)}} {
		if _, _, err := a.Resolve(t.Context(), provider(idp.MapAuto), id); !errors.Is(err, iam.ErrNotLinked) {
			t.Errorf("%s: %v", name, err)
		}
	}
	api.Fail = errors.New("down")
	if _, _, err := a.Resolve(t.Context(), provider(idp.MapAuto), jane()); !errors.Is(err, iam.ErrUnavailable) {
		t.Error(err)
	}
}

// Two replicas whose feeds lag create one User between them.
func TestReplicasMakeOneUserForOneIdentity(t *testing.T) {
	api := iamtest.NewUserAPI()
	api.Quiet = true
	replicas := []*Linker{accounts(api), accounts(api)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // do not wait for the feeds
	var group sync.WaitGroup
	var mu sync.Mutex
	names := map[string]bool{}
	for i := range 16 {
		group.Go(func() {
			u, _, err := replicas[i%2].Resolve(ctx, provider(idp.MapAuto), jane())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			names[u.Name] = true
			mu.Unlock()
		})
	}
	group.Wait()
	if len(names) != 1 || api.Created != 1 {
		t.Errorf("%v, %d created", names, api.Created)
	}
}

func TestAnEMailIsTakenOverOnlyWhereItIsFree(t *testing.T) {
	for email, want := range map[string]string{"jane@example.com": "jane@example.com", "ALICE@example.com": "", "no mail": "", strings.Repeat("x", 300) +
		"@example.com": ""} {
		api := iamtest.NewUserAPI()
		a := accounts(api)
		a.Users.Set(iamtest.User("alice"))
		id := jane()
		id.Email = email
		u, _, err := a.Resolve(t.Context(), provider(idp.MapAuto), id)
		if err != nil || u.Email != want {
			t.Errorf("%.20q: %v, %v", email, u, err)
		}
	}
}

func TestRegistration(t *testing.T) {
	r := iam.Registration{Provider: "corp", Subject: "s-1", Username: "jane", DisplayName: "Jane Doe"}
	for _, tc := range []struct {
		claim, name, email string
		r                  iam.Registration
		code               int
	}{
		{"AFreeNameIsMade", "janey", "janey@example.com", r, 0},
		{"WithoutAnEMail", "janey", "", r, 0},
		{"ATakenNameIsAConflict", "alice", "", r, 409},
		{"ATakenEMailIsAConflict", "janey", "Alice@Example.com", r, 409},
		{"ABoundNameIsAConflict", "admin", "", r, 409},
		{"AnUpperCaseName", "Jane", "", r, 422},
		{"ASystemName", "system:admin", "", r, 422},
		{"AnEmptyName", "", "", r, 422},
		{"AnOverlongName", strings.Repeat("x", 64), "", r, 422},
		{"APath", "../admin", "", r, 422},
		{"AnEMailThatIsNone", "janey", "jane", r, 422},
		{"NoIdentity", "janey", "", iam.Registration{Provider: "corp"}, -1},
	} {
		t.Run(tc.claim, func(t *testing.T) {
			api := iamtest.NewUserAPI()
			a := accounts(api)
			a.Users.Set(iamtest.User("alice"))
			u, err := a.Register(t.Context(), tc.r, tc.name, tc.email)
			switch {
			case tc.code == 0:
				if err != nil || u.Name != tc.name || u.Email != tc.email || !slices.Equal(u.Links, []iam.Link{{Provider: "corp", Subject: "s-1"}}) {
					t.Fatalf("%v, %v", u, err)
				}
				if again, err := a.Register(t.Context(), tc.r, tc.name, tc.email); err != nil || again.UID != u.UID || api.Created != 1 {
					t.Errorf("again: %v, %v", again, err)
				}
				if _, err := a.Register(t.Context(), tc.r, "second", ""); !errors.Is(err, iam.ErrNotLinked) || api.Created != 1 {
					t.Errorf("a second user of one identity: %v", err)
				}
			case tc.code < 0:
				if !errors.Is(err, iam.ErrNotLinked) || api.Created != 0 {
					t.Error(err)
				}
			default:
				var s apierrors.APIStatus
				if !errors.As(err, &s) || int(s.Status().Code) != tc.code || u != nil || api.Created != 0 {
					t.Errorf("%v, %v", u, err)
				}
			}
		})
	}
	t.Run("ANameTakenMeanwhileIsAConflict", func(t *testing.T) {
		api := iamtest.NewUserAPI()
		a := accounts(api)
		api.Objects["janey"] = &iamapi.User{}
		api.Objects["janey"].Name, api.Objects["janey"].UID = "janey", "other"
		if _, err := a.Register(t.Context(), r, "janey", ""); !apierrors.IsAlreadyExists(err) {
			t.Error(err)
		}
	})
}

func TestVouchedIsTheUserWithTheGroupsOfTheIdentity(t *testing.T) {
	a := accounts(iamtest.NewUserAPI())
	a.Users.Set(iamtest.User("jane", func(u *iamapi.User) {
		u.Annotations = map[string]string{iamapi.AnnotationIdentityProviderPrefix + "corp": "s-1"}
		u.Spec.Groups = []string{"local"}
	}))
	info, err := a.Vouched(t.Context(), provider(idp.MapLookup), jane())
	if err != nil || info.GetName() != "jane" || info.GetUID() != "uid-jane" || !slices.Equal(info.GetGroups(), []string{"local", "system:authenticated", "dev"}) {
		t.Fatalf("%v, %v", info, err)
	}
	more := jane()
	more.Extra = map[string][]string{"team": {"a"}}
	if info, err := a.Vouched(t.Context(), provider(idp.MapLookup), more); err != nil || !slices.Equal(info.GetExtra()["team"], []string{"a"}) {
		t.Errorf("got %v, %v, want the extra of the identity", info, err)
	}
	if own := a.Users.ByName("jane").Info(); own.GetExtra() != nil {
		t.Errorf("the user got extras: %v", own.GetExtra())
	}
	if own := a.Users.ByName("jane").Info().GetGroups(); !slices.Equal(own, []string{"local", "system:authenticated"}) {
		t.Errorf("the user himself got groups: %v", own)
	}
	a.Users.Set(iamtest.User("jane", func(u *iamapi.User) {
		u.Annotations = map[string]string{iamapi.AnnotationIdentityProviderPrefix + "corp": "s-1"}
		u.Status.State = iamapi.UserDisabled
	}))
	if _, err := a.Vouched(t.Context(), provider(idp.MapLookup), jane()); !errors.Is(err, iam.ErrSuspended) {
		t.Error(err)
	}
	other := jane()
	other.Subject = "s-2"
	for _, m := range []idp.Mapping{idp.MapLookup, idp.MapManual} {
		if _, err := a.Vouched(t.Context(), provider(m), other); !errors.Is(err, iam.ErrNotLinked) {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// A user whose password is hashed, and a linked one without a password, have nothing to hash, and are active at once; any other user waits.
func TestWhoHasNothingToHashIsActiveAtOnce(t *testing.T) {
	link, hash := map[string]string{iamapi.AnnotationIdentityProviderPrefix + "corp": "s-1"}, iamtest.Hash(t, iamtest.Password)
	for _, tc := range []struct {
		claim string
		set   func(*iamapi.User)
		want  iamapi.UserState
	}{
		{"Linked", func(u *iamapi.User) { u.Annotations, u.Spec.Password = link, "" }, iamapi.UserActive},
		{"NotLinked", func(u *iamapi.User) { u.Spec.Password = "" }, iamapi.UserPending},
		{"WithAHash", func(u *iamapi.User) { u.Spec.Password = hash }, iamapi.UserActive},
		{"WithAPasswordInClearText", func(u *iamapi.User) { u.Annotations, u.Spec.Password = link, "Secret-123" }, iamapi.UserPending},
	} {
		users := iam.NewUserIndex()
		users.Set(iamtest.User("jane", func(u *iamapi.User) {
			u.Status.State = iamapi.UserPending
			tc.set(u)
		}))
		if u := users.ByName("jane"); u.State != tc.want {
			t.Errorf("%s: %q", tc.claim, u.State)
		}
	}
	users := iam.NewUserIndex()
	users.Set(iamtest.User("jane", func(u *iamapi.User) {
		u.Annotations, u.Spec.Password, u.Status.State = link, "", iamapi.UserDisabled
	}))
	if u := users.ByName("jane"); u.State != iamapi.UserDisabled {
		t.Errorf("a disabled user is %q", u.State)
	}
	users.Set(iamtest.User("jane", iamtest.WithPassword(hash), iamtest.WithState(iamapi.UserDisabled)))
	if u := users.ByName("jane"); u.State != iamapi.UserDisabled {
		t.Errorf("a disabled user with a password is %q", u.State)
	}
}

// Names are valid, follow from the identity, and differ where identities do.
func TestDerivedNames(t *testing.T) {
	for username, want := range map[string]string{
		"jane": "jane", "jane.doe": "jane.doe", "j-1": "j-1", "Jane": "jane-", "jane_doe": "jane-doe-", "jane@example.com": "jane-example-com-", "JÖRG": "j-rg-",
		"王": "user-", "": "user-", "__": "user-", "-x-": "x-", "system:admin": "system-admin-", strings.Repeat("x", 63): strings.Repeat("x",
			63), strings.Repeat("x", 64): strings.Repeat("x", 52) + "-",
	} {
		got := candidates("corp", &idp.Identity{Subject: "s-1", Username: username})
		if got[0] != want && (!strings.HasSuffix(want, "-") || !strings.HasPrefix(got[0], want)) {
			t.Errorf("%q becomes %q, want %q", username, got[0], want)
		}
	}
}

func FuzzDerivedNames(f *testing.F) {
	for _, s := range []string{"jane", "Jane_Doe", "王小明", "a.b", "x\x00", strings.Repeat("Y", 300), "-", ".", "a..b", "\xff\xfe"} {
		f.Add(s, "s-1", "s-2")
	}
	f.Fuzz(func(t *testing.T, username, one, two string) {
		first := candidates("corp", &idp.Identity{Subject: one, Username: username})
		if !slices.Equal(first, candidates("corp", &idp.Identity{Subject: one, Username: username})) {
			t.Fatal("not the same twice")
		}
		for _, name := range first {
			if len(name) > maxName || len(validation.IsDNS1123Subdomain(name)) > 0 {
				t.Fatalf("%q becomes %q", username, name)
			}
			if plain, ok := plainName(name); !ok || plain != name {
				t.Fatalf("%q could not be registered", name)
			}
		}
		if one == two {
			return
		}
		second := candidates("corp", &idp.Identity{Subject: two, Username: username})
		if first[len(first)-2] == second[len(second)-2] || first[len(first)-1] == second[len(second)-1] {
			t.Fatalf("%q and %q become %q", one, two, first)
		}
		if elsewhere := candidates("other", &idp.Identity{Subject: one, Username: username}); elsewhere[len(elsewhere)-1] == first[len(first)-1] {
			t.Fatal("two providers make one name")
		}
	})
}

func BenchmarkLinked(b *testing.B) {
	users := iam.NewUserIndex()
	for i := range 10_000 {
		users.Set(linked(fmt.Sprintf("u%d", i), "corp", fmt.Sprintf("s-%d", i)))
	}
	a := New(Options{Users: users})
	b.ReportAllocs()
	for b.Loop() {
		if a.Linked("corp", "s-5000") == nil {
			b.Fatal("not found")
		}
	}
}

// An identity whose User is not known at this replica is not told that it has none.
func TestAnIdentityIsNotLinkedOnlyWhereAllUsersAreKnown(t *testing.T) {
	a := accounts(iamtest.NewUserAPI())
	unknown := errors.New("the watch is broken")
	a.Users.CompleteBy(func() error { return unknown })
	for _, want := range []error{iam.ErrUnavailable, iam.ErrNotLinked} {
		if _, err := a.Vouched(t.Context(), provider(idp.MapLookup), jane()); !errors.Is(err, want) || apierrors.IsServiceUnavailable(err) == (unknown == nil) {
			t.Errorf("got %v, want %v", err, want)
		}
		unknown = nil
	}
}

// A provider whose users are linked by administrators alone, from now on, registers nobody, by no form and no token of before.
func TestNobodyRegistersWhereTheMappingIsAnotherByNow(t *testing.T) {
	for name, e := range map[string]*idp.Entry{"none": nil, "disabled": {Name: "corp", Mapping: idp.MapManual, Disabled: true},
		"lookup": provider(idp.MapLookup), "auto": provider(idp.MapAuto), "manual": provider(idp.MapManual), "mixed": provider(idp.MapMixed)} {
		api := iamtest.NewUserAPI()
		a := accounts(api)
		a.Provider = func(name string) *idp.Entry {
			if name != "corp" {
				return provider(idp.MapManual)
			}
			return e
		}
		_, err := a.Register(t.Context(), iam.Registration{Provider: "corp", Subject: "s-1"}, "jane", "")
		if good := name == "manual" || name == "mixed"; good && err != nil || !good && (!errors.Is(err, iam.ErrUnknownProvider) || api.Created != 0) {
			t.Errorf("%s: %v, %d created", name, err, api.Created)
		}
	}
}
