package login_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/iam/factor/factortest"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	"kapis.dev/ks-apiserver/pkg/iam/lockout"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/idp/idptest"
)

// guard returns an authenticator with second factors.
func guard(t testing.TB, s *factortest.Safe, policy login.FactorPolicy) (*login.Authenticator, *doors) {
	d := newDoors(t, 1)
	e := d.all[0]
	e.Factors, e.Policy = s.All[0], policy
	s.Users = e.Passwords.Users
	s.All[0].Users, s.All[0].Now = s.Users, d.clock.Now
	s.All[1].Users, s.All[1].Now = s.Users, d.clock.Now
	s.Clock = d.clock
	return e, d
}

func TestWhoHasASecondFactorIsAskedForIt(t *testing.T) {
	s := factortest.New(t)
	e, d := guard(t, s, "")
	at := iam.Origin{Source: home}
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	if err != nil || p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	iamtest.Want(t, e.SecondFactor(t.Context(), p, "123456", at), iam.ErrCredentials) // not pending
	app, _ := s.Enrol(t)
	d.clock.Step(10 * time.Minute)
	p, err = e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	iamtest.Want(t, e.SecondFactor(t.Context(), p, "000000", at), iam.ErrCredentials)
	if !p.Pending {
		t.Error("a wrong code completed the proof")
	}
	iamtest.Want(t, e.SecondFactor(t.Context(), p, s.Code(t, app, 0), at), nil)
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
	s := factortest.New(t)
	e, d := guard(t, s, login.FactorOptional)
	app, _ := s.Enrol(t)
	d.clock.Step(10 * time.Minute)
	writes := func() int { return s.API.Count("update") }
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
	iamtest.Want(t, e.SecondFactor(t.Context(), p, s.Code(t, app, 0), iam.Origin{Source: enemy}), iam.ErrLimited)
	if writes() != before {
		t.Error("a wrong code was written")
	}
	d.clock.Step(31 * time.Minute)
	iamtest.Want(t, e.SecondFactor(t.Context(), p, s.Code(t, app, 0), iam.Origin{Source: home}), nil)
}

func TestARequiredFactorIsEnrolledBeforeTheLoginIsComplete(t *testing.T) {
	s := factortest.New(t)
	e, d := guard(t, s, login.FactorRequired)
	at := iam.Origin{Source: home}
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	uri, sealed, err := s.All[0].BeginTOTP(p.User)
	iamtest.Want(t, err, nil)
	u, _ := url.Parse(uri)
	app := u.Query().Get("secret")
	recovery, err := e.EnrolTOTP(t.Context(), p, sealed, s.Code(t, app, 0), at)
	if err != nil || p.Pending || len(recovery) != 10 {
		t.Fatalf("%+v, %v", p, err)
	}
	// A user who has a factor can't get past it by enrolling another.
	d.clock.Step(10 * time.Minute)
	p, err = e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	iamtest.Want(t, err, nil)
	uri, sealed, _ = s.All[0].BeginTOTP(p.User)
	u, _ = url.Parse(uri)
	_, err = e.EnrolTOTP(t.Context(), p, sealed, s.Code(t, u.Query().Get("secret"), 0), at)
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
		e, _ := guard(t, factortest.New(t), policy)
		e.Accounts = account.New(account.Options{API: iamtest.NewUserAPI(), Users: iam.NewUserIndex(), Synced: func() bool { return true }})
		e.Directory = idptest.Directory(t, &idp.Entry{Name: "corp", Mapping: idp.MapManual, Provider: known{}})
		p, err := e.Password(t.Context(), login.Attempt{Login: "jane", Password: iamtest.Password, Provider: "corp", Origin: iam.Origin{Source: home}})
		if err != nil || p.Registration == nil || p.Pending != pending {
			t.Errorf("%s: %+v, %v", policy, p, err)
		}
	}
}

// A user who is linked after the login is asked for the second factor, whichever way the registration goes on.
func TestALinkOfLaterSkipsNoSecondFactor(t *testing.T) {
	for policy, pending := range map[login.FactorPolicy]bool{login.FactorOptional: true, login.FactorOff: false} {
		s := factortest.New(t)
		e, d := guard(t, s, policy)
		e.Accounts = account.New(account.Options{API: iamtest.NewUserAPI(), Users: s.Users, Synced: func() bool { return true }})
		e.Directory = idptest.Directory(t, &idp.Entry{Name: "corp", Mapping: idp.MapManual, Provider: known{}})
		app, _ := s.Enrol(t)
		d.clock.Step(10 * time.Minute)
		at := iam.Origin{Source: home}
		p, err := e.Password(t.Context(), login.Attempt{Login: "jane", Password: iamtest.Password, Provider: "corp", Origin: at})
		if err != nil || p.Registration == nil || p.Pending {
			t.Fatalf("%s: %+v, %v", policy, p, err)
		}
		s.Users.Set(iamtest.User("alice", iamtest.WithPassword(iamtest.Hash(t, iamtest.Password)), iamtest.WithLink("corp", "s-1")))
		federated := *p
		federated.Methods = []string{iam.MethodFederated}
		iamtest.Want(t, e.Register(t.Context(), &federated, "alice", ""), nil)
		if federated.Pending {
			t.Errorf("%s: a login by a redirect provider is asked for a factor here", policy)
		}
		iamtest.Want(t, e.Register(t.Context(), p, "alice", ""), nil)
		if p.Pending != pending || p.User == nil || p.User.Name != "alice" || p.Registration != nil {
			t.Errorf("%s: %+v", policy, p)
		}
		if pending {
			iamtest.Want(t, e.SecondFactor(t.Context(), p, s.Code(t, app, 0), at), nil)
		}
		if u, err := e.Registered(s.Alice()); err != nil || (u == nil) != pending {
			t.Errorf("%s: the session of the registration becomes that of %v, %v", policy, u, err)
		}
	}
	s := factortest.New(t)
	e, _ := guard(t, s, login.FactorOptional)
	if u, err := e.Registered(s.Alice()); u == nil || err != nil {
		t.Errorf("a user without a factor: %v, %v", u, err)
	}
	if u, err := e.Registered(nil); u != nil || err != nil {
		t.Errorf("no user: %v, %v", u, err)
	}
	e.Factors.Known = func() error { return errors.New("the watch is behind") }
	u, err := e.Registered(s.Alice())
	if iamtest.Want(t, err, iam.ErrUnavailable); u != nil {
		t.Error("a user who may have a factor")
	}
	s.Enrol(t)
	if u, err := e.Registered(s.Alice()); u != nil || err != nil {
		t.Errorf("a user who has a factor, whoever else has one: %v, %v", u, err)
	}
}

func TestAPendingProofEndsWithItsPassword(t *testing.T) {
	s := factortest.New(t)
	e, d := guard(t, s, login.FactorOptional)
	app, _ := s.Enrol(t)
	d.clock.Step(10 * time.Minute)
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: home}})
	iamtest.Want(t, err, nil)
	s.Users.Set(iamtest.User("alice", iamtest.WithPassword(iamtest.Hash(t, "Other-123"))))
	iamtest.Want(t, e.SecondFactor(t.Context(), p, s.Code(t, app, 0), iam.Origin{Source: home}), iam.ErrCredentials)
}

// Until the second factors of all users are loaded, no login succeeds without one.
func TestNobodyGetsInBeforeFactorsAreKnown(t *testing.T) {
	s := factortest.New(t)
	e, _ := guard(t, s, login.FactorOptional)
	s.All[0].Known = func() error { return errors.New("loading") }
	_, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: home}})
	iamtest.Want(t, err, iam.ErrUnavailable)
	e.Policy = login.FactorOff
	_, err = e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: iam.Origin{Source: home}})
	iamtest.Want(t, err, nil)
}

// O49: a replica that is behind skips nobody's second factor, nor replaces it.
func TestAFactorThatAReplicaWasNotToldOfCounts(t *testing.T) {
	s := factortest.New(t)
	e, d := guard(t, s, login.FactorOptional)
	at := iam.Origin{Source: home}
	password := func() (*iam.AuthnResult, error) {
		d.clock.Step(10 * time.Minute)
		return e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	}
	behind := errors.New("the watch is behind")
	e.Factors.Known = func() error { return behind }
	app, _ := s.Enrol(t)
	if p, err := password(); err != nil || !p.Pending {
		t.Errorf("a factor that is known: %+v, %v", p, err)
	}
	e.Factors.Delete("", s.Alice().UID)
	waited := 0
	e.Pause = func(context.Context, time.Duration) { // the definition of the kind was applied again
		if waited++; waited == 3 {
			behind = nil
		}
		impatient, end := context.WithCancel(t.Context())
		end()
		other, err := e.Lockout.Begin(impatient, lockout.Password, s.Alice(), "alice", at)
		if err != nil {
			t.Fatalf("another login of the user waits meanwhile: %v", err)
		}
		other.Cancel()
	}
	if p, err := password(); err != nil || p.Pending || waited != 3 {
		t.Errorf("after %d pauses: %+v, %v", waited, p, err)
	}
	behind, waited = errors.New("the watch is behind"), 0
	_, err := e.Password(t.Context(), login.Attempt{Login: "nobody", Password: iamtest.Password, Origin: at})
	if iamtest.Want(t, err, iam.ErrCredentials); waited < 3 {
		t.Errorf("a name that nobody has waits for %d pauses", waited)
	}
	e.Pause, behind = nil, errors.New("the watch is behind")
	for _, policy := range []login.FactorPolicy{login.FactorOptional, login.FactorRequired} {
		e.Policy = policy
		_, err := password()
		iamtest.Want(t, err, iam.ErrUnavailable)
	}
	behind = nil
	p, err := password()
	iamtest.Want(t, err, nil)
	uri, sealed, err := e.Factors.BeginTOTP(p.User)
	iamtest.Want(t, err, nil)
	u, err := url.Parse(uri)
	iamtest.Want(t, err, nil)
	_, err = e.EnrolTOTP(t.Context(), p, sealed, s.Code(t, u.Query().Get("secret"), 0), at)
	iamtest.Want(t, err, iam.ErrCredentials)
	e.Factors.Delete("", s.Alice().UID)
	offered, err := e.Factors.OfferedSecret(s.Alice())
	iamtest.Want(t, err, nil)
	_, err = e.EnrolOffered(t.Context(), s.Alice(), offered, s.Code(t, offered, 0), at)
	iamtest.Want(t, err, iam.ErrCredentials)
	d.clock.Step(10 * time.Minute)
	if err := s.All[1].Verify(t.Context(), s.Alice(), s.Code(t, app, 0)); err != nil || !p.Pending {
		t.Errorf("the app of before: %+v, %v", p, err)
	}
}

func TestAPasskeyIsASecondFactorOrALoginOfItsOwn(t *testing.T) {
	s, d := factortest.New(t), iamtest.NewDevice(t)
	e, doors := guard(t, s, login.FactorOptional)
	options, sealed, err := s.All[0].BeginPasskey(s.Alice())
	iamtest.Want(t, err, nil)
	iamtest.Want(t, s.All[1].AddPasskey(t.Context(), s.Alice(), sealed, " phone ", d.Create(t, options)), nil)
	at := iam.Origin{Source: home}
	p, err := e.Password(t.Context(), login.Attempt{Login: "alice", Password: iamtest.Password, Origin: at})
	if err != nil || !p.Pending {
		t.Fatalf("%+v, %v", p, err)
	}
	doors.clock.Step(time.Second)
	options, sealed, err = s.All[0].BeginLogin(p.User)
	iamtest.Want(t, err, nil)
	iamtest.Want(t, e.Passkey(t.Context(), p, sealed, []byte("{}"), at), iam.ErrCredentials)
	iamtest.Want(t, e.Passkey(t.Context(), p, sealed, d.Get(t, options), at), nil)
	if p.Pending || strings.Join(p.Methods, " ") != "pwd hwk mfa" {
		t.Errorf("%+v", p)
	}
	doors.clock.Step(time.Second)
	options, sealed, err = s.All[0].BeginLogin(nil)
	iamtest.Want(t, err, nil)
	alone, err := e.PasskeyLogin(t.Context(), sealed, d.Get(t, options), at)
	if err != nil || alone.Pending || alone.User.Name != "alice" {
		t.Errorf("%+v, %v", alone, err)
	}
}
