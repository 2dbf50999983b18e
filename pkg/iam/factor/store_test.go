package factor

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/token"
)

// safe has the second factors of two replicas, which know alice and bob.
type safe struct {
	api   *iamtest.Objects[*v1alpha1.Factor]
	clock *iamtest.Clock
	users *iam.UserIndex
	all   [2]*Store
}

func newSafe(t testing.TB) *safe {
	t.Helper()
	keys, err := iamtest.Keys()
	if err != nil {
		t.Fatal(err)
	}
	web, err := NewPasskeys("https://ks.example/base", "KubeSphere")
	if err != nil || web == nil {
		t.Fatal(err)
	}
	s := &safe{api: iamtest.NewObjects(func() *v1alpha1.Factor { return &v1alpha1.Factor{} }), clock: &iamtest.Clock{Time: iamtest.Start()},
		users: iam.NewUserIndex()}
	s.users.Set(iamtest.User("alice"))
	s.users.Set(iamtest.User("bob"))
	for i := range s.all {
		s.all[i] = &Store{API: s.api, Users: s.users, Keys: keys, Passkeys: web, Now: s.clock.Now}
		s.api.Follow(s.all[i])
	}
	return s
}

func (s *safe) alice() *iam.User { return s.users.ByName("alice") }

// enrol gives alice an authenticator app.
func (s *safe) enrol(t testing.TB) (secret string, recovery []string) {
	t.Helper()
	written := s.api.Count("create")
	uri, sealed, err := s.all[0].BeginTOTP(s.alice())
	iamtest.Want(t, err, nil)
	u, err := url.Parse(uri)
	iamtest.Want(t, err, nil)
	if secret = u.Query().Get("secret"); secret == "" || u.Scheme != "otpauth" || s.api.Count("create") != written {
		t.Fatalf("%s, %d written", u.Scheme, s.api.Count("create"))
	}
	_, err = s.all[0].ConfirmTOTP(t.Context(), s.alice(), sealed, "000000")
	iamtest.Want(t, err, iam.ErrCredentials)
	recovery, err = s.all[0].ConfirmTOTP(t.Context(), s.alice(), sealed, s.code(t, secret, 0))
	iamtest.Want(t, err, nil)
	return secret, recovery
}

func (s *safe) code(t testing.TB, secret string, steps int) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, s.clock.Now().Add(time.Duration(steps)*totpStep*time.Second))
	iamtest.Want(t, err, nil)
	return code
}

func TestACodeWorksOnceOverAllReplicas(t *testing.T) {
	s := newSafe(t)
	secret, _ := s.enrol(t)
	iamtest.Want(t, s.all[1].Verify(t.Context(), s.alice(), s.code(t, secret, 0)), iam.ErrCredentials) // the code that enrolled the app
	for range 3 {
		s.clock.Add(2 * totpStep * time.Second)
		s.api.Hold(0)
		s.api.Hold(1)
		code := s.code(t, secret, 0)
		var wg sync.WaitGroup
		good := make(chan int, 20)
		for i := range 20 {
			wg.Go(func() {
				switch err := s.all[i%2].Verify(t.Context(), s.alice(), code); {
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
		s.api.Release(0)
		s.api.Release(1)
	}
}

func TestClocksMayBeOffByOneStep(t *testing.T) {
	s := newSafe(t)
	secret, _ := s.enrol(t)
	for steps, good := range map[int]bool{-2: false, -1: true, 0: true, 1: true, 2: false, 10: false} {
		s.clock.Add(10 * time.Minute)
		if err := s.all[0].Verify(t.Context(), s.alice(), s.code(t, secret, steps)); (err == nil) != good {
			t.Errorf("%d steps off: %v", steps, err)
		}
	}
	s.clock.Add(10 * time.Minute)
	next := s.code(t, secret, 1)
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), next[:3]+" "+next[3:]), nil)
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), s.code(t, secret, 0)), iam.ErrCredentials) // older than the code that was used
}

func TestRecoveryCodesWorkOnce(t *testing.T) {
	s := newSafe(t)
	_, recovery := s.enrol(t)
	if len(recovery) != recoveryCodes || s.all[1].Of(s.alice()).RecoveryLeft != recoveryCodes {
		t.Fatalf("%d codes", len(recovery))
	}
	iamtest.Want(t, s.all[1].Verify(t.Context(), s.alice(), strings.ToUpper(recovery[3])), nil)
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), recovery[3]), iam.ErrCredentials)
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), strings.ReplaceAll(recovery[4], "-", " ")), nil)
	if n := s.all[0].Of(s.alice()).RecoveryLeft; n != recoveryCodes-2 {
		t.Errorf("%d are left", n)
	}
	fresh, err := s.all[0].NewRecovery(t.Context(), s.alice())
	iamtest.Want(t, err, nil)
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), recovery[5]), iam.ErrCredentials)
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), fresh[5]), nil)
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.users.ByName("bob"), fresh[6]), iam.ErrCredentials)
	_, err = s.all[0].NewRecovery(t.Context(), s.users.ByName("bob"))
	iamtest.Want(t, err, iam.ErrCredentials)
}

func TestNothingThatOpensADoorIsStored(t *testing.T) { // S57
	s := newSafe(t)
	secret, recovery := s.enrol(t)
	for _, raw := range s.api.Stored {
		for _, text := range append(recovery, secret) {
			if strings.Contains(raw, text) || strings.Contains(raw, strings.ReplaceAll(text, "-", "")) {
				t.Errorf("%q is in the object", text)
			}
		}
	}
	// A sealed secret can't be opened for another user.
	o := s.all[0].stored(s.alice().UID).DeepCopy()
	o.Name, o.Spec.User = "uid-bob", "bob"
	s.all[0].put(o)
	s.clock.Add(10 * time.Minute)
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.users.ByName("bob"), s.code(t, secret, 0)), iam.ErrCredentials)
}

func TestFactorsAreRemovedAndReset(t *testing.T) {
	s := newSafe(t)
	s.enrol(t)
	iamtest.Want(t, s.all[1].RemoveTOTP(t.Context(), s.alice()), nil)
	if s.api.Size() != 0 || s.all[0].Of(s.alice()).Any() {
		t.Error("something is left")
	}
	s.enrol(t)
	iamtest.Want(t, s.all[1].Reset(t.Context(), s.alice()), nil)
	iamtest.Want(t, s.all[1].Reset(t.Context(), s.alice()), nil)
	if s.api.Size() != 0 || s.all[0].Of(s.alice()).Any() {
		t.Error("something is left")
	}
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), "123456"), iam.ErrCredentials)
}

func TestAnEnrolmentIsTheUsersOwnAndShort(t *testing.T) {
	s := newSafe(t)
	uri, sealed, err := s.all[0].BeginTOTP(s.alice())
	iamtest.Want(t, err, nil)
	u, _ := url.Parse(uri)
	secret := u.Query().Get("secret")
	_, err = s.all[0].ConfirmTOTP(t.Context(), s.users.ByName("bob"), sealed, s.code(t, secret, 0))
	iamtest.Want(t, err, iam.ErrCredentials)
	s.clock.Add(beginLife + time.Second)
	_, err = s.all[0].ConfirmTOTP(t.Context(), s.alice(), sealed, s.code(t, secret, 0))
	iamtest.Want(t, err, iam.ErrCredentials)
	_, err = s.all[0].ConfirmTOTP(t.Context(), s.alice(), "junk", "123456")
	iamtest.Want(t, err, iam.ErrCredentials)
}

func TestWithoutTheAPINoCodeIsGood(t *testing.T) {
	s := newSafe(t)
	secret, _ := s.enrol(t)
	s.clock.Add(10 * time.Minute)
	s.api.BreakWith(errors.New("down"))
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), s.code(t, secret, 0)), iam.ErrUnavailable)
	s.api.Mend()
	iamtest.Want(t, s.all[0].Verify(t.Context(), s.alice(), s.code(t, secret, 0)), nil)
	iamtest.Want(t, (&Store{}).RemoveTOTP(t.Context(), s.alice()), iam.ErrUnavailable)
}

func TestSecretsAreSealedAnewInTime(t *testing.T) {
	s := newSafe(t)
	secret, _ := s.enrol(t)
	was := s.all[0].stored(s.alice().UID).Spec.TOTP.Secret
	s.all[0].Reseal(t.Context())
	if got := s.all[0].stored(s.alice().UID).Spec.TOTP.Secret; got != was {
		t.Error("sealed anew too soon")
	}
	s.clock.Add(resealAfter)
	s.all[0].Reseal(t.Context())
	if got := s.all[1].stored(s.alice().UID).Spec.TOTP.Secret; got == was {
		t.Error("not sealed anew")
	}
	iamtest.Want(t, s.all[1].Verify(t.Context(), s.alice(), s.code(t, secret, 0)), nil)
}

// A secret stays sealed for years: its key may have expired before Reseal runs, and the user must not lose the app by that.
func TestASecretOutlivesTheKeyThatSealedIt(t *testing.T) {
	s := newSafe(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	iamtest.Want(t, err, nil)
	signing := []token.SigningKey{{ID: "signing", Private: private, Created: iamtest.Start(), NotBefore: iamtest.Start()}}
	old := token.MACKey{ID: "old", Secret: []byte(strings.Repeat("0123456789abcdef", 2)), Created: iamtest.Start(), NotBefore: iamtest.Start()}
	use := func(macs ...token.MACKey) {
		set, err := token.NewKeySet(signing, macs)
		iamtest.Want(t, err, nil)
		for _, f := range s.all {
			f.Keys = set
		}
	}
	use(old)
	secret, _ := s.enrol(t)
	s.clock.Add(resealAfter + time.Hour)
	old.Retire = s.clock.Now().Add(-time.Minute)
	use(old, token.MACKey{ID: "new", Secret: []byte(strings.Repeat("fedcba9876543210", 2)), Created: iamtest.Start(), NotBefore: iamtest.Start().Add(time.Hour)})
	iamtest.Want(t, s.all[1].Verify(t.Context(), s.alice(), s.code(t, secret, 0)), nil)
	s.clock.Add(2 * totpStep * time.Second)
	use(token.MACKey{ID: "new", Secret: []byte(strings.Repeat("fedcba9876543210", 2)), Created: iamtest.Start(), NotBefore: iamtest.Start().Add(time.Hour)})
	iamtest.Want(t, s.all[1].Verify(t.Context(), s.alice(), s.code(t, secret, 0)), nil) // the use has sealed it again
}

func FuzzVerify(f *testing.F) {
	s := newSafe(f)
	s.enrol(f)
	f.Add("123456")
	f.Add("abcd-efgh-ijkl-mnop")
	f.Add("123 456\x00")
	f.Fuzz(func(t *testing.T, code string) {
		if err := s.all[0].Verify(t.Context(), s.alice(), code); err == nil && len(plainCode(code)) != totpDigits {
			t.Errorf("%q is good", code)
		}
		_, _ = s.all[0].ConfirmTOTP(t.Context(), s.alice(), code, code)
		_, _ = s.all[0].FinishLogin(t.Context(), code, []byte(code))
	})
}
