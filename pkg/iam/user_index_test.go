package iam_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/store"
)

func TestUserIsReadFromItsJSON(t *testing.T) {
	users := iam.NewUserIndex()
	users.Set(iamtest.User("alice", func(u *iamapi.User) {
		u.Spec.Groups = []string{"dev", "system:masters", "kapis:global:admin", "", "dev", "ops"}
		u.Spec.Lang, u.Spec.DisplayName = "zh", "Alice"
		u.Annotations = map[string]string{iamapi.AnnotationUninitialized: "true"}
	}))
	u := users.ByName("alice")
	if u.UID != "uid-alice" || u.Email != "alice@example.com" || u.Lang != "zh" || u.DisplayName != "Alice" || !u.Uninitialized || u.Deleting {
		t.Errorf("%+v", *u)
	}
	if want := []string{"dev", "ops", "system:authenticated"}; !slices.Equal(u.Info().GetGroups(), want) {
		t.Errorf("groups %v, want %v", u.Info().GetGroups(), want)
	}
}

func TestUsersAreFoundByNameAndByEmail(t *testing.T) {
	users := iam.NewUserIndex()
	users.Set(iamtest.User("alice", func(u *iamapi.User) { u.Spec.Email = "Alice@Example.com" }))
	users.Set(iamtest.User("bob", func(u *iamapi.User) { u.Spec.Email = "shared@example.com" }))
	users.Set(iamtest.User("carol", func(u *iamapi.User) { u.Spec.Email = "SHARED@example.com" }))
	users.Set(iamtest.User("dave", func(u *iamapi.User) { u.Spec.Email = "" }))
	for login, want := range map[string]string{
		"alice": "alice", "alice@example.com": "alice", "ALICE@EXAMPLE.COM": "alice",
		"shared@example.com": "", "nobody": "", "nobody@example.com": "", "": "", "@": "", "dave": "dave", "Alice": "",
	} {
		got := ""
		if u := users.ByLogin(login); u != nil {
			got = u.Name
		}
		if got != want {
			t.Errorf("%q is %q, want %q", login, got, want)
		}
	}
	users.Delete("", "carol")
	if u := users.ByEmail("shared@example.com"); u == nil || u.Name != "bob" {
		t.Errorf("the e-mail is bob's alone now, and it is %v", u)
	}
	users.Set(iamtest.User("alice", func(u *iamapi.User) { u.Spec.Email = "new@example.com" }))
	if users.ByEmail("alice@example.com") != nil || users.ByEmail("new@example.com") == nil {
		t.Error("the index kept an e-mail that was changed")
	}
}

func TestUserThatCanNotBeReadIsNotThere(t *testing.T) {
	for name, raw := range map[string]string{
		"broken":       `{"metadata":`,
		"no uid":       `{"metadata":{"name":"alice"}}`,
		"wrong type":   `{"metadata":{"name":"alice","uid":"u"},"spec":{"groups":"x"}}`,
		"system name":  `{"metadata":{"name":"system:admin","uid":"u"}}`,
		"kapis's name": `{"metadata":{"name":"kapis:x","uid":"u"}}`,
	} {
		users := iam.NewUserIndex()
		users.Set(iamtest.User("alice"))
		users.Set(&store.Object{Name: "alice", Raw: []byte(raw)})
		if u := users.ByName("alice"); u != nil {
			t.Errorf("%s: %v is there", name, u)
		}
		if users.ByName("system:admin") != nil {
			t.Errorf("%s: a user of the system", name)
		}
	}
}

// S57: no way of printing a user shows the hash.
func TestUserIsPrintedWithoutHisPassword(t *testing.T) {
	users := iam.NewUserIndex()
	h := iamtest.Hash(t, iamtest.Password)
	users.Set(iamtest.User("alice", iamtest.WithPassword(h)))
	u := users.ByName("alice")
	b, _ := json.Marshal(u)
	printed := []string{string(b), fmt.Sprint(u)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		printed = append(printed, fmt.Sprintf(verb, u), fmt.Sprintf(verb, *u))
	}
	for _, s := range printed {
		if strings.Contains(s, h) || strings.Contains(s, h[8:40]) || strings.Contains(s, fmt.Sprintf("%x", h)) ||
			strings.Contains(s, fmt.Sprintf("%v", []byte(h)[:8])[1:20]) {
			t.Errorf("the hash is in %s", s)
		}
	}
}

func TestDeletingUserIsSeen(t *testing.T) {
	users := iam.NewUserIndex()
	users.Set(iamtest.User("alice", func(u *iamapi.User) { now := metav1.NewTime(iamtest.Start()); u.DeletionTimestamp = &now }))
	if u := users.ByName("alice"); !u.Deleting || u.RefusalReason() == "" {
		t.Errorf("%+v", *u)
	}
}

func FuzzParseUser(f *testing.F) {
	for _, s := range []string{string(iamtest.User("alice").Raw), "{}", `{"metadata":{"name":"a","uid":"b"},"spec":{"password":"$2a$04$"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		u, err := iam.ParseUser(raw)
		if err != nil {
			return
		}
		for _, g := range u.Groups {
			if g == "" || strings.HasPrefix(g, "system:") || strings.HasPrefix(g, "kapis:") {
				t.Errorf("group %q", g)
			}
		}
	})
}

// Nobody is told that a user is gone who is only not known yet, or not now; who is known is found all the same.
func TestAUserIsGoneOnlyWhereAllUsersAreKnown(t *testing.T) {
	users := iam.NewUserIndex()
	users.Set(iamtest.User("alice"))
	users.Set(iamtest.User("off", iamtest.WithState(iamapi.UserDisabled)))
	unknown := errors.New("list users: not complete yet")
	users.CompleteBy(func() error { return unknown })
	for _, tc := range []struct {
		name, uid string
		found     bool
	}{{"alice", "", true}, {"alice", "uid-alice", true}, {"alice", "uid-of-another", false}, {"bob", "", false}} {
		u, err := users.Lookup(tc.name, tc.uid)
		if (u != nil) != tc.found || tc.found && err != nil || !tc.found && (!errors.Is(err, iam.ErrUnavailable) || !apierrors.IsServiceUnavailable(err)) {
			t.Errorf("%s %q: %v, %v", tc.name, tc.uid, u, err)
		}
	}
	if _, _, err := users.Active("bob"); !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("not known yet: %v", err)
	}
	if uid, err := users.FleetUIDOf("bob"); uid != "" || !errors.Is(err, iam.ErrUnavailable) {
		t.Errorf("not known yet: %q, %v", uid, err)
	}
	unknown = nil
	for _, name := range []string{"bob", "off"} {
		if _, _, err := users.Active(name); !errors.Is(err, iam.ErrSuspended) || errors.Is(err, iam.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if u, err := users.Lookup("alice", "uid-of-another"); u != nil || err != nil {
		t.Errorf("%v, %v", u, err)
	}
	if u, _, err := users.Active("alice"); err != nil || u.GetName() != "alice" {
		t.Errorf("%v, %v", u, err)
	}
	// A user who comes between the look-up and the question whether all are known is found.
	users.CompleteBy(func() error { users.Set(iamtest.User("bob")); return nil })
	if u, err := users.Lookup("bob", "uid-bob"); u == nil || err != nil {
		t.Errorf("%v, %v", u, err)
	}
}

// F17: which user of the fleet somebody is, is the hub's word, which counts where the label says that the hub keeps them here: an annotation is
// written by whoever may write users.
func TestNobodyIsAUserOfTheFleetByAnAnnotationAlone(t *testing.T) {
	users := iam.NewUserIndex()
	of := map[string]string{iamapi.AnnotationFleetUID: "uid-there"}
	users.Set(iamtest.User("root", func(u *iamapi.User) { u.Annotations = of }))
	users.Set(iamtest.User("ann", func(u *iamapi.User) {
		u.Annotations, u.Labels = of, map[string]string{clusterv1alpha1.LabelFleet: "u-hub"}
	}))
	for name, want := range map[string]string{"root": "uid-root", "ann": "uid-there"} {
		if uid, err := users.FleetUIDOf(name); uid != want || err != nil {
			t.Errorf("%s is %q, %v", name, uid, err)
		}
	}
}

// S37: a user who is deleted and made again is somebody else, also without a password here.
func TestANameIsItsUsersSinceTheyWereMade(t *testing.T) {
	users, day := iam.NewUserIndex(), 24*time.Hour
	since := func() time.Time {
		_, since, err := users.Active("bob")
		iamtest.Want(t, err, nil)
		return since
	}
	bob := func(created time.Time, changed string) {
		users.Set(iamtest.User("bob", func(u *iamapi.User) {
			u.CreationTimestamp = metav1.NewTime(created)
			u.Annotations = map[string]string{iamapi.AnnotationLastPasswordChangeTime: changed}
		}))
	}
	first := iamtest.Start()
	bob(first, "")
	if got := since(); !got.Equal(first) {
		t.Errorf("at first since %v", got)
	}
	users.Delete("", "bob")
	bob(first.Add(day), "")
	if got := since(); !got.Equal(first.Add(day)) {
		t.Errorf("again since %v", got)
	}
	for changed, want := range map[time.Duration]time.Duration{2 * day: 2 * day, 0: day} { // a backup may bring an older annotation
		if bob(first.Add(day), first.Add(changed).Format(time.RFC3339)); !since().Equal(first.Add(want)) {
			t.Errorf("with a password of %v since %v", changed, since())
		}
	}
}
