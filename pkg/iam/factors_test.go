package iam

import (
	"context"
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
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
	"kapis.dev/ks-apiserver/pkg/token"
)

// safe are the second factors of two replicas, which know alice and bob.
type safe struct {
	api   *objects[*v1alpha1.Factor]
	clock *clock
	users *UserIndex
	all   [2]*Factors
}

func newSafe(t testing.TB) *safe {
	t.Helper()
	keys, err := sharedKeys()
	if err != nil {
		t.Fatal(err)
	}
	web, err := NewPasskeys("https://ks.example/base", "KubeSphere")
	if err != nil || web == nil {
		t.Fatal(err)
	}
	s := &safe{api: newObjects(func() *v1alpha1.Factor { return &v1alpha1.Factor{} }), clock: &clock{t: start()}, users: NewUserIndex()}
	s.users.Set(userObject("alice"))
	s.users.Set(userObject("bob"))
	for i := range s.all {
		s.all[i] = &Factors{API: s.api, Users: s.users, Keys: keys, Passkeys: web, Now: s.clock.now}
		s.api.follow(s.all[i])
	}
	return s
}

func (s *safe) alice() *User { return s.users.ByName("alice") }

// enrol gives alice an authenticator app.
func (s *safe) enrol(t testing.TB) (secret string, recovery []string) {
	t.Helper()
	written := s.api.count("create")
	uri, sealed, err := s.all[0].BeginTOTP(s.alice())
	want(t, err, nil)
	u, err := url.Parse(uri)
	want(t, err, nil)
	if secret = u.Query().Get("secret"); secret == "" || u.Scheme != "otpauth" || s.api.count("create") != written {
		t.Fatalf("%s, %d written", u.Scheme, s.api.count("create"))
	}
	_, err = s.all[0].ConfirmTOTP(t.Context(), s.alice(), sealed, "000000")
	want(t, err, ErrCredentials)
	recovery, err = s.all[0].ConfirmTOTP(t.Context(), s.alice(), sealed, s.code(t, secret, 0))
	want(t, err, nil)
	return secret, recovery
}

func (s *safe) code(t testing.TB, secret string, steps int) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, s.clock.now().Add(time.Duration(steps)*totpStep*time.Second))
	want(t, err, nil)
	return code
}

func TestACodeWorksOnceOverAllReplicas(t *testing.T) {
	s := newSafe(t)
	secret, _ := s.enrol(t)
	want(t, s.all[1].verify(t.Context(), s.alice(), s.code(t, secret, 0)), ErrCredentials) // it enrolled
	for range 3 {
		s.clock.add(2 * totpStep * time.Second)
		s.api.hold(0)
		s.api.hold(1)
		code := s.code(t, secret, 0)
		var wg sync.WaitGroup
		good := make(chan int, 20)
		for i := range 20 {
			wg.Go(func() {
				switch err := s.all[i%2].verify(t.Context(), s.alice(), code); {
				case err == nil:
					good <- i
				case !errors.Is(err, ErrCredentials) && !errors.Is(err, ErrUnavailable):
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		if len(good) != 1 {
			t.Errorf("the code worked %d times", len(good))
		}
		s.api.release(0)
		s.api.release(1)
	}
}

func TestClocksMayBeOffByOneStep(t *testing.T) {
	s := newSafe(t)
	secret, _ := s.enrol(t)
	for steps, good := range map[int]bool{-2: false, -1: true, 0: true, 1: true, 2: false, 10: false} {
		s.clock.add(10 * time.Minute)
		if err := s.all[0].verify(t.Context(), s.alice(), s.code(t, secret, steps)); (err == nil) != good {
			t.Errorf("%d steps off: %v", steps, err)
		}
	}
	s.clock.add(10 * time.Minute)
	next := s.code(t, secret, 1)
	want(t, s.all[0].verify(t.Context(), s.alice(), next[:3]+" "+next[3:]), nil)
	want(t, s.all[0].verify(t.Context(), s.alice(), s.code(t, secret, 0)), ErrCredentials) // older than the one that was used
}

func TestRecoveryCodesWorkOnce(t *testing.T) {
	s := newSafe(t)
	_, recovery := s.enrol(t)
	if len(recovery) != recoveryCodes || s.all[1].Of(s.alice()).RecoveryLeft != recoveryCodes {
		t.Fatalf("%d codes", len(recovery))
	}
	want(t, s.all[1].verify(t.Context(), s.alice(), strings.ToUpper(recovery[3])), nil)
	want(t, s.all[0].verify(t.Context(), s.alice(), recovery[3]), ErrCredentials)
	want(t, s.all[0].verify(t.Context(), s.alice(), strings.ReplaceAll(recovery[4], "-", " ")), nil)
	if n := s.all[0].Of(s.alice()).RecoveryLeft; n != recoveryCodes-2 {
		t.Errorf("%d are left", n)
	}
	fresh, err := s.all[0].NewRecovery(t.Context(), s.alice())
	want(t, err, nil)
	want(t, s.all[0].verify(t.Context(), s.alice(), recovery[5]), ErrCredentials)
	want(t, s.all[0].verify(t.Context(), s.alice(), fresh[5]), nil)
	want(t, s.all[0].verify(t.Context(), s.users.ByName("bob"), fresh[6]), ErrCredentials)
	_, err = s.all[0].NewRecovery(t.Context(), s.users.ByName("bob"))
	want(t, err, ErrCredentials)
}

func TestNothingThatOpensADoorIsStored(t *testing.T) { // S57
	s := newSafe(t)
	secret, recovery := s.enrol(t)
	for _, raw := range s.api.stored {
		for _, text := range append(recovery, secret) {
			if strings.Contains(raw, text) || strings.Contains(raw, strings.ReplaceAll(text, "-", "")) {
				t.Errorf("%q is in the object", text)
			}
		}
	}
	// The sealed secret of one user is none of another's.
	o := s.all[0].stored(s.alice().UID).DeepCopy()
	o.Name, o.Spec.User = "uid-bob", "bob"
	s.all[0].put(o)
	s.clock.add(10 * time.Minute)
	want(t, s.all[0].verify(t.Context(), s.users.ByName("bob"), s.code(t, secret, 0)), ErrCredentials)
}

func TestFactorsAreRemovedAndReset(t *testing.T) {
	s := newSafe(t)
	s.enrol(t)
	want(t, s.all[1].RemoveTOTP(t.Context(), s.alice()), nil)
	if s.api.size() != 0 || s.all[0].Of(s.alice()).Any() {
		t.Error("something is left")
	}
	s.enrol(t)
	want(t, s.all[1].Reset(t.Context(), s.alice()), nil)
	want(t, s.all[1].Reset(t.Context(), s.alice()), nil)
	if s.api.size() != 0 || s.all[0].Of(s.alice()).Any() {
		t.Error("something is left")
	}
	want(t, s.all[0].verify(t.Context(), s.alice(), "123456"), ErrCredentials)
}

func TestAnEnrolmentIsTheUsersOwnAndShort(t *testing.T) {
	s := newSafe(t)
	uri, sealed, err := s.all[0].BeginTOTP(s.alice())
	want(t, err, nil)
	u, _ := url.Parse(uri)
	secret := u.Query().Get("secret")
	_, err = s.all[0].ConfirmTOTP(t.Context(), s.users.ByName("bob"), sealed, s.code(t, secret, 0))
	want(t, err, ErrCredentials)
	s.clock.add(beginLife + time.Second)
	_, err = s.all[0].ConfirmTOTP(t.Context(), s.alice(), sealed, s.code(t, secret, 0))
	want(t, err, ErrCredentials)
	_, err = s.all[0].ConfirmTOTP(t.Context(), s.alice(), "junk", "123456")
	want(t, err, ErrCredentials)
}

func TestWithoutTheAPINoCodeIsGood(t *testing.T) {
	s := newSafe(t)
	secret, _ := s.enrol(t)
	s.clock.add(10 * time.Minute)
	s.api.breakWith(errors.New("down"))
	want(t, s.all[0].verify(t.Context(), s.alice(), s.code(t, secret, 0)), ErrUnavailable)
	s.api.mend()
	want(t, s.all[0].verify(t.Context(), s.alice(), s.code(t, secret, 0)), nil)
	want(t, (&Factors{}).RemoveTOTP(t.Context(), s.alice()), ErrUnavailable)
}

func TestSecretsAreSealedAnewInTime(t *testing.T) {
	s := newSafe(t)
	secret, _ := s.enrol(t)
	was := s.all[0].stored(s.alice().UID).Spec.TOTP.Secret
	s.all[0].Reseal(t.Context())
	if got := s.all[0].stored(s.alice().UID).Spec.TOTP.Secret; got != was {
		t.Error("sealed anew too soon")
	}
	s.clock.add(resealAfter)
	s.all[0].Reseal(t.Context())
	if got := s.all[1].stored(s.alice().UID).Spec.TOTP.Secret; got == was {
		t.Error("not sealed anew")
	}
	want(t, s.all[1].verify(t.Context(), s.alice(), s.code(t, secret, 0)), nil)
}

// A secret is sealed for years: the key that sealed it may be worn out before the sweep comes by, and nobody may lose his app by that.
func TestASecretOutlivesTheKeyThatSealedIt(t *testing.T) {
	s := newSafe(t)
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	want(t, err, nil)
	signing := []token.SigningKey{{ID: "signing", Private: private, Created: start(), NotBefore: start()}}
	old := token.MACKey{ID: "old", Secret: []byte(strings.Repeat("0123456789abcdef", 2)), Created: start(), NotBefore: start()}
	use := func(macs ...token.MACKey) {
		set, err := token.NewKeySet(signing, macs)
		want(t, err, nil)
		for _, f := range s.all {
			f.Keys = set
		}
	}
	use(old)
	secret, _ := s.enrol(t)
	s.clock.add(resealAfter + time.Hour)
	old.Retire = s.clock.now().Add(-time.Minute)
	use(old, token.MACKey{ID: "new", Secret: []byte(strings.Repeat("fedcba9876543210", 2)), Created: start(), NotBefore: start().Add(time.Hour)})
	want(t, s.all[1].verify(t.Context(), s.alice(), s.code(t, secret, 0)), nil)
	s.clock.add(2 * totpStep * time.Second)
	use(token.MACKey{ID: "new", Secret: []byte(strings.Repeat("fedcba9876543210", 2)), Created: start(), NotBefore: start().Add(time.Hour)})
	want(t, s.all[1].verify(t.Context(), s.alice(), s.code(t, secret, 0)), nil) // the use has sealed it anew
}

func FuzzVerify(f *testing.F) {
	s := newSafe(f)
	s.enrol(f)
	f.Add("123456")
	f.Add("abcd-efgh-ijkl-mnop")
	f.Add("123 456\x00")
	f.Fuzz(func(t *testing.T, code string) {
		if err := s.all[0].verify(t.Context(), s.alice(), code); err == nil && len(plainCode(code)) != totpDigits {
			t.Errorf("%q is good", code)
		}
		_, _ = s.all[0].ConfirmTOTP(t.Context(), s.alice(), code, code)
		_, _ = s.all[0].FinishLogin(t.Context(), code, []byte(code))
	})
}

// guard is an entrance with second factors.
func (s *safe) guard(t testing.TB, policy Policy) (*Authenticator, *doors) {
	d := newDoors(t, 1)
	e := d.all[0]
	e.Factors, e.Policy = s.all[0], policy
	s.users = e.Passwords.users
	s.all[0].Users, s.all[0].Now = s.users, d.clock.now
	s.all[1].Users, s.all[1].Now = s.users, d.clock.now
	s.clock = d.clock
	return e, d
}

func TestWhoHasASecondFactorIsAskedForIt(t *testing.T) {
	s := newSafe(t)
	e, d := s.guard(t, "")
	at := Origin{Source: home}
	p, err := e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: at})
	if err != nil || p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	want(t, e.SecondFactor(t.Context(), p, "123456", at), ErrCredentials) // not pending
	app, _ := s.enrol(t)
	d.clock.add(10 * time.Minute)
	p, err = e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	want(t, e.SecondFactor(t.Context(), p, "000000", at), ErrCredentials)
	if !p.Pending {
		t.Error("a wrong code completed the proof")
	}
	want(t, e.SecondFactor(t.Context(), p, s.code(t, app, 0), at), nil)
	if p.Pending || strings.Join(p.Methods, " ") != "pwd otp mfa" {
		t.Errorf("%+v", p)
	}
	e.Policy = FactorOff
	if p, err = e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: at}); err != nil || p.Pending {
		t.Errorf("%+v, %v", p, err)
	}
}

// S47: codes are guessed no faster than passwords, and a password alone makes no place one of the user's.
func TestCodesCantBeGuessed(t *testing.T) {
	s := newSafe(t)
	e, d := s.guard(t, FactorOptional)
	app, _ := s.enrol(t)
	d.clock.add(10 * time.Minute)
	writes := func() int { return s.api.count("update") }
	before, refused := writes(), 0
	p, err := e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: Origin{Source: enemy}})
	want(t, err, nil)
	d.settle(t)
	for i := range 1000 {
		at := Origin{Source: enemy}
		if i%2 == 0 {
			at.Source = "198.51.100." + string(rune('0'+i%10))
		}
		if err := e.SecondFactor(t.Context(), p, "000000", at); errors.Is(err, ErrLimited) {
			refused++
		} else {
			want(t, err, ErrCredentials)
		}
	}
	if n := 1000 - refused; n != tries*codeBudget {
		t.Errorf("%d codes were looked at", n)
	}
	want(t, e.SecondFactor(t.Context(), p, s.code(t, app, 0), Origin{Source: enemy}), ErrLimited)
	if writes() != before {
		t.Error("a wrong code was written")
	}
	d.clock.add(31 * time.Minute)
	want(t, e.SecondFactor(t.Context(), p, s.code(t, app, 0), Origin{Source: home}), nil)
}

func TestARequiredFactorIsEnrolledBeforeTheLoginIsComplete(t *testing.T) {
	s := newSafe(t)
	e, d := s.guard(t, FactorRequired)
	at := Origin{Source: home}
	p, err := e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	uri, sealed, err := s.all[0].BeginTOTP(p.User)
	want(t, err, nil)
	u, _ := url.Parse(uri)
	app := u.Query().Get("secret")
	recovery, err := e.EnrolTOTP(t.Context(), p, sealed, s.code(t, app, 0), at)
	if err != nil || p.Pending || len(recovery) != recoveryCodes {
		t.Fatalf("%+v, %v", p, err)
	}
	// Who has a factor can't get past it by enrolling another.
	d.clock.add(10 * time.Minute)
	p, err = e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: at})
	want(t, err, nil)
	uri, sealed, _ = s.all[0].BeginTOTP(p.User)
	u, _ = url.Parse(uri)
	_, err = e.EnrolTOTP(t.Context(), p, sealed, s.code(t, u.Query().Get("secret"), 0), at)
	if !errors.Is(err, ErrCredentials) || !p.Pending {
		t.Errorf("%+v, %v", p, err)
	}
}

// known is a directory that knows jane.
type known struct{}

func (known) Check(context.Context) error { return nil }

func (known) Login(context.Context, string, string) (*idp.Identity, error) { return jane(), nil }

// A first login is a login: whoever has to register has to enrol a factor as well, and is no one's session until then.
func TestWhoRegistersEnrolsARequiredFactorToo(t *testing.T) {
	for policy, pending := range map[Policy]bool{FactorRequired: true, FactorOptional: false, FactorOff: false} {
		e, _ := newSafe(t).guard(t, policy)
		e.Accounts = accounts(newUserAPI())
		e.Directory = idptest.Directory(t, &idp.Entry{Name: "corp", Mapping: idp.MapManual, Provider: known{}})
		p, err := e.Password(t.Context(), Attempt{Login: "jane", Password: secret, Provider: "corp", Origin: Origin{Source: home}})
		if err != nil || p.Registration == nil || p.Pending != pending {
			t.Errorf("%s: %+v, %v", policy, p, err)
		}
	}
}

func TestAPendingProofEndsWithItsPassword(t *testing.T) {
	s := newSafe(t)
	e, d := s.guard(t, FactorOptional)
	app, _ := s.enrol(t)
	d.clock.add(10 * time.Minute)
	p, err := e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: Origin{Source: home}})
	want(t, err, nil)
	s.users.Set(userObject("alice", withPassword(hash(t, "Other-123"))))
	want(t, e.SecondFactor(t.Context(), p, s.code(t, app, 0), Origin{Source: home}), ErrCredentials)
}

// While it is not known who has a second factor, nobody gets in without one.
func TestNobodyGetsInBeforeFactorsAreKnown(t *testing.T) {
	s := newSafe(t)
	e, _ := s.guard(t, FactorOptional)
	s.all[0].Known = func() error { return errors.New("loading") }
	_, err := e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: Origin{Source: home}})
	want(t, err, ErrUnavailable)
	e.Policy = FactorOff
	_, err = e.Password(t.Context(), Attempt{Login: "alice", Password: secret, Origin: Origin{Source: home}})
	want(t, err, nil)
}
