package login_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// loginSafe has the second factors of two replicas, which know alice and bob.
type loginSafe struct {
	api   *iamtest.Objects[*v1alpha1.Factor]
	clock *iamtest.Clock
	users *iam.UserIndex
	all   [2]*factor.Store
}

func newLoginSafe(t testing.TB) *loginSafe {
	t.Helper()
	keys, err := iamtest.Keys()
	if err != nil {
		t.Fatal(err)
	}
	web, err := factor.NewPasskeys("https://ks.example/base", "KubeSphere")
	if err != nil || web == nil {
		t.Fatal(err)
	}
	s := &loginSafe{api: iamtest.NewObjects(func() *v1alpha1.Factor { return &v1alpha1.Factor{} }), clock: &iamtest.Clock{Time: iamtest.Start()},
		users: iam.NewUserIndex()}
	s.users.Set(iamtest.User("alice"))
	s.users.Set(iamtest.User("bob"))
	for i := range s.all {
		s.all[i] = &factor.Store{API: s.api, Users: s.users, Keys: keys, Passkeys: web, Now: s.clock.Now}
		s.api.Follow(s.all[i])
	}
	return s
}

func (s *loginSafe) alice() *iam.User { return s.users.ByName("alice") }

// enrol gives alice an authenticator app.
func (s *loginSafe) enrol(t testing.TB) (secret string, recovery []string) {
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

func (s *loginSafe) code(t testing.TB, secret string, steps int) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, s.clock.Now().Add(time.Duration(steps)*30*time.Second))
	iamtest.Want(t, err, nil)
	return code
}

// guard returns an authenticator with second factors.
func (s *loginSafe) guard(t testing.TB, policy login.FactorPolicy) (*login.Authenticator, *doors) {
	d := newDoors(t, 1)
	e := d.all[0]
	e.Factors, e.Policy = s.all[0], policy
	s.users = e.Passwords.Users
	s.all[0].Users, s.all[0].Now = s.users, d.clock.Now
	s.all[1].Users, s.all[1].Now = s.users, d.clock.Now
	s.clock = d.clock
	return e, d
}

func TestWhoHasASecondFactorIsAskedForIt(t *testing.T) {
	s := newLoginSafe(t)
	e, d := s.guard(t, "")
	at := iam.Origin{Source: home}
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	if err != nil || p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	iamtest.Want(t, e.SecondFactor(t.Context(), p, "123456", at), iam.ErrCredentials) // not pending
	app, _ := s.enrol(t)
	d.clock.Add(10 * time.Minute)
	p, err = e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	iamtest.Want(t, e.SecondFactor(t.Context(), p, "000000", at), iam.ErrCredentials)
	if !p.Pending {
		t.Error("a wrong code completed the proof")
	}
	iamtest.Want(t, e.SecondFactor(t.Context(), p, s.code(t, app, 0), at), nil)
	if p.Pending || strings.Join(p.Methods, " ") != "pwd otp mfa" {
		t.Errorf("%+v", p)
	}
	e.Policy = login.FactorOff
	if p, err = e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at}); err != nil || p.Pending {
		t.Errorf("%+v, %v", p, err)
	}
}

// S47: codes are guessed no faster than passwords, and a password alone makes no network known for the user.
func TestCodesCantBeGuessed(t *testing.T) {
	s := newLoginSafe(t)
	e, d := s.guard(t, login.FactorOptional)
	app, _ := s.enrol(t)
	d.clock.Add(10 * time.Minute)
	writes := func() int { return s.api.Count("update") }
	before, refused := writes(), 0
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: enemy}})
	iamtest.Want(t, err, nil)
	d.settle(t)
	for i := range 1000 {
		at := iam.Origin{Source: enemy}
		if i%2 == 0 {
			at.Source = "198.51.100." + string(rune('0'+i%10))
		}
		if err := e.SecondFactor(t.Context(), p, "000000", at); errors.Is(err, iam.ErrLimited) {
			refused++
		} else {
			iamtest.Want(t, err, iam.ErrCredentials)
		}
	}
	if n := 1000 - refused; n != tries*budgetOfCodes {
		t.Errorf("%d codes were looked at", n)
	}
	iamtest.Want(t, e.SecondFactor(t.Context(), p, s.code(t, app, 0), iam.Origin{Source: enemy}), iam.ErrLimited)
	if writes() != before {
		t.Error("a wrong code was written")
	}
	d.clock.Add(31 * time.Minute)
	iamtest.Want(t, e.SecondFactor(t.Context(), p, s.code(t, app, 0), iam.Origin{Source: home}), nil)
}

func TestARequiredFactorIsEnrolledBeforeTheLoginIsComplete(t *testing.T) {
	s := newLoginSafe(t)
	e, d := s.guard(t, login.FactorRequired)
	at := iam.Origin{Source: home}
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	uri, sealed, err := s.all[0].BeginTOTP(p.User)
	iamtest.Want(t, err, nil)
	u, _ := url.Parse(uri)
	app := u.Query().Get("secret")
	recovery, err := e.EnrolTOTP(t.Context(), p, sealed, s.code(t, app, 0), at)
	if err != nil || p.Pending || len(recovery) != 10 {
		t.Fatalf("%+v, %v", p, err)
	}
	// A user who has a factor can't get past it by enrolling another.
	d.clock.Add(10 * time.Minute)
	p, err = e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	iamtest.Want(t, err, nil)
	uri, sealed, _ = s.all[0].BeginTOTP(p.User)
	u, _ = url.Parse(uri)
	_, err = e.EnrolTOTP(t.Context(), p, sealed, s.code(t, u.Query().Get("secret"), 0), at)
	if !errors.Is(err, iam.ErrCredentials) || !p.Pending {
		t.Errorf("%+v, %v", p, err)
	}
}

// known is a directory that knows jane.
type known struct{}

func (known) Check(context.Context) error { return nil }

func (known) Login(context.Context, string, string) (*idp.Identity, error) {
	return &idp.Identity{Subject: "s-1", Username: "jane", DisplayName: "Jane Doe", Email: "jane@example.com"}, nil
}

// A first login is a login: a user who has to register has to enrol a factor as well, and has no session until then.
func TestWhoRegistersEnrolsARequiredFactorToo(t *testing.T) {
	for policy, pending := range map[login.FactorPolicy]bool{login.FactorRequired: true, login.FactorOptional: false, login.FactorOff: false} {
		e, _ := newLoginSafe(t).guard(t, policy)
		e.Accounts = account.New(account.Options{API: iamtest.NewUserAPI(), Users: iam.NewUserIndex(), Synced: func() bool { return true }})
		e.Directory = idptest.Directory(t, &idp.Entry{Name: "corp", Mapping: idp.MapManual, Provider: known{}})
		p, err := e.Password(t.Context(), login.Attempt{Login: "jane", Password: iamtest.Password, Provider: "corp", Origin: iam.Origin{Source: home}})
		if err != nil || p.Registration == nil || p.Pending != pending {
			t.Errorf("%s: %+v, %v", policy, p, err)
		}
	}
}

func TestAPendingProofEndsWithItsPassword(t *testing.T) {
	s := newLoginSafe(t)
	e, d := s.guard(t, login.FactorOptional)
	app, _ := s.enrol(t)
	d.clock.Add(10 * time.Minute)
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: home}})
	iamtest.Want(t, err, nil)
	s.users.Set(iamtest.User("alice", iamtest.WithPassword(iamtest.Hash(t, "Other-123"))))
	iamtest.Want(t, e.SecondFactor(t.Context(), p, s.code(t, app, 0), iam.Origin{Source: home}), iam.ErrCredentials)
}

// Until the second factors of all users are loaded, no login succeeds without one.
func TestNobodyGetsInBeforeFactorsAreKnown(t *testing.T) {
	s := newLoginSafe(t)
	e, _ := s.guard(t, login.FactorOptional)
	s.all[0].Known = func() error { return errors.New("loading") }
	_, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: home}})
	iamtest.Want(t, err, iam.ErrUnavailable)
	e.Policy = login.FactorOff
	_, err = e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: home}})
	iamtest.Want(t, err, nil)
}

func TestAPasskeyIsASecondFactorOrALoginOfItsOwn(t *testing.T) {
	s, d := newLoginSafe(t), iamtest.NewDevice(t)
	e, doors := s.guard(t, login.FactorOptional)
	options, sealed, err := s.all[0].BeginPasskey(s.alice())
	iamtest.Want(t, err, nil)
	iamtest.Want(t, s.all[1].AddPasskey(t.Context(), s.alice(), sealed, " phone ", d.Create(t, options)), nil)
	at := iam.Origin{Source: home}
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	doors.clock.Add(time.Second)
	options, sealed, err = s.all[0].BeginLogin(p.User)
	iamtest.Want(t, err, nil)
	iamtest.Want(t, e.Passkey(t.Context(), p, sealed, []byte("{}"), at), iam.ErrCredentials)
	iamtest.Want(t, e.Passkey(t.Context(), p, sealed, d.Get(t, options), at), nil)
	if p.Pending || strings.Join(p.Methods, " ") != "pwd hwk mfa" {
		t.Errorf("%+v", p)
	}
	doors.clock.Add(time.Second)
	options, sealed, err = s.all[0].BeginLogin(nil)
	iamtest.Want(t, err, nil)
	alone, err := e.PasskeyLogin(t.Context(), sealed, d.Get(t, options), at)
	if err != nil || alone.Pending || alone.User.Name != "alice" {
		t.Errorf("%+v, %v", alone, err)
	}
}
