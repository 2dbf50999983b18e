package factor_test

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/factor/factortest"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/token"
)

func TestACodeWorksOnceOverAllReplicas(t *testing.T) {
	s := factortest.New(t)
	secret, _ := s.Enrol(t)
	iamtest.Want(t, s.All[1].Verify(t.Context(), s.Alice(), s.Code(t, secret, 0)), iam.ErrCredentials) // the code that enrolled the app
	for range 3 {
		s.Clock.Step(2 * factor.TOTPStep * time.Second)
		s.API.Hold(0)
		s.API.Hold(1)
		code := s.Code(t, secret, 0)
		var wg sync.WaitGroup
		good := make(chan int, 20)
		for i := range 20 {
			wg.Go(func() {
				switch err := s.All[i%2].Verify(t.Context(), s.Alice(), code); {
				case err == nil:
					good <- i
				case !errors.Is(err, iam.ErrCredentials) && !errors.Is(err, iam.ErrUnavailable):
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		if len(good) != 1 {
			t.Errorf("the code worked %d times", len(good))
		}
		s.API.Release(0)
		s.API.Release(1)
	}
}

func TestClocksMayBeOffByOneStep(t *testing.T) {
	s := factortest.New(t)
	secret, _ := s.Enrol(t)
	for steps, good := range map[int]bool{-2: false, -1: true, 0: true, 1: true, 2: false, 10: false} {
		s.Clock.Step(10 * time.Minute)
		if err := s.All[0].Verify(t.Context(), s.Alice(), s.Code(t, secret, steps)); (err == nil) != good {
			t.Errorf("%d steps off: %v", steps, err)
		}
	}
	s.Clock.Step(10 * time.Minute)
	next := s.Code(t, secret, 1)
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), next[:3]+" "+next[3:]), nil)
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), s.Code(t, secret, 0)), iam.ErrCredentials) // older than the code that was used
}

func TestRecoveryCodesWorkOnce(t *testing.T) {
	s := factortest.New(t)
	_, recovery := s.Enrol(t)
	if len(recovery) != factor.RecoveryCodes || s.All[1].Of(s.Alice()).RecoveryLeft != factor.RecoveryCodes {
		t.Fatalf("%d codes", len(recovery))
	}
	iamtest.Want(t, s.All[1].Verify(t.Context(), s.Alice(), strings.ToUpper(recovery[3])), nil)
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), recovery[3]), iam.ErrCredentials)
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), strings.ReplaceAll(recovery[4], "-", " ")), nil)
	if n := s.All[0].Of(s.Alice()).RecoveryLeft; n != factor.RecoveryCodes-2 {
		t.Errorf("%d are left", n)
	}
	fresh, err := s.All[0].NewRecovery(t.Context(), s.Alice())
	iamtest.Want(t, err, nil)
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), recovery[5]), iam.ErrCredentials)
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), fresh[5]), nil)
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Users.ByName("bob"), fresh[6]), iam.ErrCredentials)
	_, err = s.All[0].NewRecovery(t.Context(), s.Users.ByName("bob"))
	iamtest.Want(t, err, iam.ErrCredentials)
}

func TestNothingThatOpensADoorIsStored(t *testing.T) { // S57
	s := factortest.New(t)
	secret, recovery := s.Enrol(t)
	for _, raw := range s.API.Stored {
		for _, text := range append(recovery, secret) {
			if strings.Contains(raw, text) || strings.Contains(raw, strings.ReplaceAll(text, "-", "")) {
				t.Errorf("%q is in the object", text)
			}
		}
	}
	// A sealed secret can't be opened for another user.
	o := s.All[0].Stored(s.Alice().UID).DeepCopy()
	o.Name, o.Spec.User = "uid-bob", "bob"
	s.All[0].Put(o)
	s.Clock.Step(10 * time.Minute)
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Users.ByName("bob"), s.Code(t, secret, 0)), iam.ErrCredentials)
}

// A factor that is reset while a code uses it up stays reset.
func TestAUsedCodeBringsNoResetFactorBack(t *testing.T) {
	s := factortest.New(t)
	app, _ := s.Enrol(t)
	s.Clock.Step(10 * time.Minute)
	s.API.Hold(0)
	s.API.Fail = func(verb string) error { // the update is made before the deletion, which the feed brings first
		if verb == "update" {
			s.All[0].Delete("", s.Alice().UID)
		}
		return nil
	}
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), s.Code(t, app, 0)), nil)
	if s.API.Fail = nil; s.All[0].Of(s.Alice()).Any() {
		t.Error("it is back")
	}
	former := s.All[1].Stored(s.Alice().UID).DeepCopy()
	iamtest.Want(t, s.All[1].Reset(t.Context(), s.Alice()), nil)
	s.All[0].Put(former)
	if s.Enrol(t); !s.All[0].Of(s.Alice()).Any() {
		t.Error("what is enrolled after the reset is not known")
	}
}

// A first factor that is reset while it is enrolled, and of which the feed brings both before the enrolment is answered.
func TestAnEnrolmentBringsNoResetFactorBack(t *testing.T) {
	s := factortest.New(t)
	s.Enrol(t)
	made := s.All[0].Stored(s.Alice().UID).DeepCopy()
	s.All[0].Delete("", s.Alice().UID)
	s.All[0].Wrote(made)
	if s.All[0].Of(s.Alice()).Any() {
		t.Error("it is back")
	}
	again := made.DeepCopy()
	again.UID = "uid-of-another"
	if s.All[0].Wrote(again); !s.All[0].Of(s.Alice()).Any() {
		t.Error("what is enrolled after the reset is not known")
	}
	s.All[0].Put(made) // a backup of etcd was restored
	if s.All[0].Wrote(again); s.All[0].Stored(s.Alice().UID).UID != made.UID {
		t.Error("one that another has replaced is back")
	}
}

func TestFactorsAreRemovedAndReset(t *testing.T) {
	s := factortest.New(t)
	s.Enrol(t)
	iamtest.Want(t, s.All[1].RemoveTOTP(t.Context(), s.Alice()), nil)
	if s.API.Size() != 0 || s.All[0].Of(s.Alice()).Any() {
		t.Error("something is left")
	}
	s.Enrol(t)
	iamtest.Want(t, s.All[1].Reset(t.Context(), s.Alice()), nil)
	iamtest.Want(t, s.All[1].Reset(t.Context(), s.Alice()), nil)
	if s.API.Size() != 0 || s.All[0].Of(s.Alice()).Any() {
		t.Error("something is left")
	}
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), "123456"), iam.ErrCredentials)
}

func TestAnEnrolmentIsTheUsersOwnAndShort(t *testing.T) {
	s := factortest.New(t)
	uri, sealed, err := s.All[0].BeginTOTP(s.Alice())
	iamtest.Want(t, err, nil)
	u, _ := url.Parse(uri)
	secret := u.Query().Get("secret")
	_, err = s.All[0].ConfirmTOTP(t.Context(), s.Users.ByName("bob"), sealed, s.Code(t, secret, 0))
	iamtest.Want(t, err, iam.ErrCredentials)
	s.Clock.Step(factor.BeginLife + time.Second)
	_, err = s.All[0].ConfirmTOTP(t.Context(), s.Alice(), sealed, s.Code(t, secret, 0))
	iamtest.Want(t, err, iam.ErrCredentials)
	_, err = s.All[0].ConfirmTOTP(t.Context(), s.Alice(), "junk", "123456")
	iamtest.Want(t, err, iam.ErrCredentials)
}

func TestWithoutTheAPINoCodeIsGood(t *testing.T) {
	s := factortest.New(t)
	secret, _ := s.Enrol(t)
	s.Clock.Step(10 * time.Minute)
	s.API.BreakWith(errors.New("down"))
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), s.Code(t, secret, 0)), iam.ErrUnavailable)
	s.API.Mend()
	iamtest.Want(t, s.All[0].Verify(t.Context(), s.Alice(), s.Code(t, secret, 0)), nil)
	iamtest.Want(t, (&factor.Store{}).RemoveTOTP(t.Context(), s.Alice()), iam.ErrUnavailable)
}

func TestSecretsAreSealedAnewInTime(t *testing.T) {
	s := factortest.New(t)
	secret, _ := s.Enrol(t)
	was := s.All[0].Stored(s.Alice().UID).Spec.TOTP.Secret
	s.All[0].Reseal(t.Context())
	if got := s.All[0].Stored(s.Alice().UID).Spec.TOTP.Secret; got != was {
		t.Error("sealed anew too soon")
	}
	s.Clock.Step(factor.ResealAfter)
	s.All[0].Reseal(t.Context())
	if got := s.All[1].Stored(s.Alice().UID).Spec.TOTP.Secret; got == was {
		t.Error("not sealed anew")
	}
	iamtest.Want(t, s.All[1].Verify(t.Context(), s.Alice(), s.Code(t, secret, 0)), nil)
}

// A secret stays sealed for years: its key may have expired before Reseal runs, and the user must not lose the app by that.
func TestASecretOutlivesTheKeyThatSealedIt(t *testing.T) {
	s := factortest.New(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	iamtest.Want(t, err, nil)
	signing := []token.SigningKey{{ID: "signing", Private: private, Created: iamtest.Start(), NotBefore: iamtest.Start()}}
	old := token.MACKey{ID: "old", Secret: []byte(strings.Repeat("0123456789abcdef", 2)), Created: iamtest.Start(), NotBefore: iamtest.Start()}
	use := func(macs ...token.MACKey) {
		set, err := token.NewKeySet(signing, macs)
		iamtest.Want(t, err, nil)
		for _, f := range s.All {
			f.Keys = set
		}
	}
	use(old)
	secret, _ := s.Enrol(t)
	s.Clock.Step(factor.ResealAfter + time.Hour)
	old.Retire = s.Clock.Now().Add(-time.Minute)
	use(old, token.MACKey{ID: "new", Secret: []byte(strings.Repeat("fedcba9876543210", 2)), Created: iamtest.Start(), NotBefore: iamtest.Start().Add(time.Hour)})
	iamtest.Want(t, s.All[1].Verify(t.Context(), s.Alice(), s.Code(t, secret, 0)), nil)
	s.Clock.Step(2 * factor.TOTPStep * time.Second)
	use(token.MACKey{ID: "new", Secret: []byte(strings.Repeat("fedcba9876543210", 2)), Created: iamtest.Start(), NotBefore: iamtest.Start().Add(time.Hour)})
	iamtest.Want(t, s.All[1].Verify(t.Context(), s.Alice(), s.Code(t, secret, 0)), nil) // the use has sealed it again
}

func FuzzVerify(f *testing.F) {
	s := factortest.New(f)
	s.Enrol(f)
	f.Add("123456")
	f.Add("abcd-efgh-ijkl-mnop")
	f.Add("123 456\x00")
	f.Fuzz(func(t *testing.T, code string) {
		if err := s.All[0].Verify(t.Context(), s.Alice(), code); err == nil && len(factor.PlainCode(code)) != factor.TOTPDigits {
			t.Errorf("%q is good", code)
		}
		_, _ = s.All[0].ConfirmTOTP(t.Context(), s.Alice(), code, code)
		_, _ = s.All[0].FinishLogin(t.Context(), code, []byte(code))
	})
}
