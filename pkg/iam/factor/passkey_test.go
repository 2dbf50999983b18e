package factor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/factor/factortest"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
)

// addTo registers the device as alice's.
func addTo(t testing.TB, d *iamtest.Device, s *factortest.Safe) error {
	t.Helper()
	options, sealed, err := s.All[0].BeginPasskey(s.Alice())
	iamtest.Want(t, err, nil)
	return s.All[1].AddPasskey(t.Context(), s.Alice(), sealed, " phone ", d.Create(t, options))
}

func TestAPasskeyLogsInOnEveryReplica(t *testing.T) {
	s, d := factortest.New(t), iamtest.NewDevice(t)
	iamtest.Want(t, addTo(t, d, s), nil)
	if e := s.All[0].Of(s.Alice()); len(e.Passkeys) != 1 || e.Passkeys[0].Name != "phone" || !e.Any() || e.Passkeys[0].ID != iamtest.Base64(d.ID) {
		t.Fatalf("%+v", e)
	}
	iamtest.Want(t, addTo(t, d, s), iam.ErrCredentials) // it exists already
	for i, who := range []*iam.User{nil, s.Alice(), nil} {
		s.Clock.Step(time.Second)
		options, sealed, err := s.All[i%2].BeginLogin(who)
		iamtest.Want(t, err, nil)
		if who == nil && strings.Contains(string(options), iamtest.Base64(d.ID)) {
			t.Error("the options tell a stranger of a passkey")
		}
		u, err := s.All[1-i%2].FinishLogin(t.Context(), sealed, d.Get(t, options))
		if err != nil || u != s.Alice() {
			t.Fatalf("%v, %v", u, err)
		}
	}
	if used := s.All[0].Of(s.Alice()).Passkeys[0].Used; !used.Equal(s.Clock.Now()) {
		t.Errorf("used at %v", used)
	}
	_, _, err := s.All[0].BeginLogin(s.Users.ByName("bob"))
	iamtest.Want(t, err, factor.ErrNoPasskeys)
	iamtest.Want(t, s.All[0].RemovePasskey(t.Context(), s.Alice(), "none"), iam.ErrCredentials)
	iamtest.Want(t, s.All[0].RemovePasskey(t.Context(), s.Alice(), iamtest.Base64(d.ID)), nil)
	if s.API.Size() != 0 {
		t.Error("something is left")
	}
}

func TestWhatIsRefusedOfAPasskey(t *testing.T) {
	type safe = factortest.Safe
	for name, change := range map[string]func(*safe, *iamtest.Device){
		"AnotherOrigin":     func(_ *safe, d *iamtest.Device) { d.Origin = "https://ks.example.evil.example" },
		"AnotherSite":       func(_ *safe, d *iamtest.Device) { d.RP = "evil.example" },
		"NobodyVerified":    func(_ *safe, d *iamtest.Device) { d.Flags = 0x01 },
		"NobodyPresent":     func(_ *safe, d *iamtest.Device) { d.Flags = 0x04 },
		"AnotherKey":        func(_ *safe, d *iamtest.Device) { d.Key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader) },
		"AnotherUser":       func(_ *safe, d *iamtest.Device) { d.User = []byte("uid-bob") },
		"TooLate":           func(s *safe, _ *iamtest.Device) { s.Clock.Step(factor.BeginLife + time.Second) },
		"UserMadeAnew":      func(s *safe, _ *iamtest.Device) { s.Users.Set(iamtest.User("alice", iamtest.WithUID("another"))) },
		"UserGone":          func(s *safe, _ *iamtest.Device) { s.Users.Delete("", "alice") },
		"CounterWentBack":   func(_ *safe, d *iamtest.Device) { d.Count = 3 },
		"CounterStayed":     func(_ *safe, d *iamtest.Device) { d.Count = 7 },
		"NotThatPasskey":    func(_ *safe, d *iamtest.Device) { d.ID = []byte("another passkey.") },
		"BackupEligibleNow": func(_ *safe, d *iamtest.Device) { d.Flags |= 0x08 },
	} {
		t.Run(name, func(t *testing.T) {
			s, d := factortest.New(t), iamtest.NewDevice(t)
			d.Count = 7
			iamtest.Want(t, addTo(t, d, s), nil)
			for _, who := range []*iam.User{nil, s.Alice()} {
				s.Clock.Step(time.Second)
				options, sealed, err := s.All[0].BeginLogin(who)
				iamtest.Want(t, err, nil)
				bad := *d
				bad.Count++
				change(s, &bad)
				if u, err := s.All[0].FinishLogin(t.Context(), sealed, bad.Get(t, options)); err == nil {
					t.Errorf("logged in as %v", u)
				}
				if s.Alice() == nil || s.Alice().UID != "uid-alice" {
					return
				}
			}
		})
	}
}

func TestAnAnswerIsGoodOnce(t *testing.T) {
	s, d := factortest.New(t), iamtest.NewDevice(t)
	iamtest.Want(t, addTo(t, d, s), nil)
	options, sealed, err := s.All[0].BeginLogin(nil)
	iamtest.Want(t, err, nil)
	answer := d.Get(t, options)
	_, err = s.All[0].FinishLogin(t.Context(), sealed, answer)
	iamtest.Want(t, err, nil)
	for i := range s.All {
		_, err = s.All[i].FinishLogin(t.Context(), sealed, answer)
		iamtest.Want(t, err, iam.ErrCredentials)
	}
}

func TestPasskeysNeedAHostAndTLS(t *testing.T) {
	for issuer, good := range map[string]bool{
		"https://ks.example": true, "https://ks.example:30880/base": true, "http://localhost:9090": true,
		"http://ks.example": false, "https://192.0.2.1": false, "https://[::1]": false,
	} {
		w, err := factor.NewPasskeys(issuer, "KubeSphere")
		if err != nil || (w != nil) != good {
			t.Errorf("%s: %v, %v", issuer, w != nil, err)
		}
	}
	s := factortest.New(t)
	s.All[0].Passkeys = nil
	_, _, err := s.All[0].BeginPasskey(s.Alice())
	iamtest.Want(t, err, factor.ErrNoPasskeys)
	_, err = s.All[0].FinishLogin(t.Context(), "", nil)
	iamtest.Want(t, err, factor.ErrNoPasskeys)
	iamtest.Want(t, s.All[0].AddPasskey(t.Context(), s.Alice(), "", "", nil), factor.ErrNoPasskeys)
}

func TestNamesOfPasskeysAreCut(t *testing.T) {
	for _, name := range [][2]string{{" phone ", "phone"}, {strings.Repeat("é", 100), strings.Repeat("é", 64)}, {"a\xffb", "ab"}} {
		if got := factor.CutName(name[0]); got != name[1] {
			t.Errorf("%q became %q", name[0], got)
		}
	}
	s := factortest.New(t)
	for i := range factor.MaxPasskeys + 1 {
		d := iamtest.NewDevice(t)
		err := addTo(t, d, s)
		if i < factor.MaxPasskeys {
			iamtest.Want(t, err, nil)
		} else {
			iamtest.Want(t, err, iam.ErrTooMany)
		}
	}
	if raw := fmt.Sprint(s.API.Stored); strings.Contains(raw, "clientDataJSON\\\":\\\"ey") {
		t.Error("what was attested is kept")
	}
}

// A counter that does not grow means that two authenticators have one key (WebAuthn, 6.1.1): neither is accepted again, even if it counts
// beyond the other.
func TestACopiedPasskeyIsRefusedFromThenOn(t *testing.T) {
	s, d := factortest.New(t), iamtest.NewDevice(t)
	d.Count = 7
	iamtest.Want(t, addTo(t, d, s), nil)
	logIn := func(i int, count uint32) error {
		s.Clock.Step(time.Second)
		options, sealed, err := s.All[i].BeginLogin(nil)
		iamtest.Want(t, err, nil)
		d.Count = count
		_, err = s.All[i].FinishLogin(t.Context(), sealed, d.Get(t, options))
		return err
	}
	iamtest.Want(t, logIn(0, 9), nil)
	iamtest.Want(t, logIn(0, 8), iam.ErrCredentials) // the copy, or the owner after the copy was used
	for _, count := range []uint32{10, 11, 1000} {
		for i := range s.All {
			iamtest.Want(t, logIn(i, count+uint32(i)), iam.ErrCredentials)
		}
	}
	if used := s.All[0].Of(s.Alice()).Passkeys[0].Used; !used.Before(s.Clock.Now().Add(-time.Second)) {
		t.Errorf("it was used at %v", used)
	}
	iamtest.Want(t, s.All[0].RemovePasskey(t.Context(), s.Alice(), iamtest.Base64(d.ID)), nil)
	d.Count = 0
	iamtest.Want(t, addTo(t, d, s), nil)
	iamtest.Want(t, logIn(0, 1001), nil)
}

// An answer that is sent twice, as by a form on a slow connection, does not disable the passkey.
func TestAnAnswerSentTwiceIsNoCopy(t *testing.T) {
	s, d := factortest.New(t), iamtest.NewDevice(t)
	d.Count = 7
	iamtest.Want(t, addTo(t, d, s), nil)
	for d.Count = 8; d.Count < 10; d.Count++ {
		s.Clock.Step(time.Second)
		options, sealed, err := s.All[0].BeginLogin(nil)
		iamtest.Want(t, err, nil)
		answer := d.Get(t, options)
		_, err = s.All[0].FinishLogin(t.Context(), sealed, answer)
		iamtest.Want(t, err, nil)
		_, err = s.All[0].FinishLogin(t.Context(), sealed, answer)
		iamtest.Want(t, err, iam.ErrCredentials)
	}
}

// A passkey that is not known at this replica, or whose user is not, may be good.
func TestAPasskeyIsUnknownOnlyWhereAllFactorsAndUsersAreKnown(t *testing.T) {
	s, d := factortest.New(t), iamtest.NewDevice(t)
	iamtest.Want(t, addTo(t, d, s), nil)
	started := &factor.Store{API: s.API, Users: s.Users, Keys: s.All[0].Keys, Passkeys: s.All[0].Passkeys, Now: s.Clock.Now}
	unknown := errors.New("list factors: not complete yet")
	started.Known = func() error { return unknown }
	for _, want := range []error{iam.ErrUnavailable, iam.ErrCredentials} {
		options, sealed, err := started.BeginLogin(nil)
		iamtest.Want(t, err, nil)
		_, err = started.FinishLogin(t.Context(), sealed, d.Get(t, options))
		iamtest.Want(t, err, want)
		unknown = nil
	}
}
