package login

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/account"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/lockout"
	"kapis.dev/ks-apiserver/pkg/iam/password"
	"kapis.dev/ks-apiserver/pkg/idp"
)

// pauseStep is what the time of a refusal is rounded up to, so that it does not reveal whether something was written for an existing user.
const pauseStep = 300 * time.Millisecond

// Attempt is an attempt to log in with a password.
type Attempt struct {
	iam.Origin
	// Login is the name or e-mail as typed.
	Login, Password string
	// Provider is the identity provider to ask; "" for a local password.
	Provider string
}

// Recorder records logins and failed attempts. loginrecord.Recorder is one.
type Recorder interface {
	Add(u *iam.User, t iamv1beta1.LoginType, provider string, o iam.Origin, err error)
}

// Authenticator checks passwords and second factors, links identities to Users, counts failures, and has each attempt recorded.
type Authenticator struct {
	Passwords *password.Checker
	Directory *idp.Directory
	Accounts  *account.Linker
	Factors   *factor.Store
	// Lockout refuses attempts after too many failures; nil for never. Records records attempts; nil for no records.
	Lockout *lockout.Limiter
	Records Recorder
	// Policy says when second factors are asked for after a password; "" means FactorOptional. Logins by a redirect provider or a proxy
	// need none here.
	Policy FactorPolicy
	// Write writes new passwords; nil if none can be set.
	Write PasswordWriter
	// Pause waits before a refusal is answered, and until second factors are known; nil for no wait.
	Pause func(ctx context.Context, d time.Duration)
	// Now is the clock; nil for the system's.
	Now func() time.Time
}

// Password checks a password. Its errors are ErrCredentials, ErrSuspended, ErrLimited, ErrBusy, ErrUnavailable, ErrUnknownProvider,
// ErrNotLinked, and idp.ErrUnavailable. A pending result needs SecondFactor.
//
// The lockout decides before the password is compared. A provider that does not answer does not count as a failure of the user.
func (e *Authenticator) Password(ctx context.Context, a Attempt) (*iam.AuthnResult, error) {
	began := e.now()
	p, err := e.password(ctx, a)
	e.pause(ctx, began, err)
	if a.Provider == "" && errors.Is(err, iam.ErrCredentials) {
		// The user, or the new password, may only not be known here. Nobody is told the one from the other by it (S50).
		if err := e.Passwords.Users.Complete(); err != nil {
			return nil, err
		}
	}
	return p, err
}

func (e *Authenticator) password(ctx context.Context, a Attempt) (*iam.AuthnResult, error) {
	way, name := lockout.Password, a.Login
	var ask idp.Password
	var entry *idp.Entry
	if a.Provider != "" {
		var err error
		if entry, ask, err = e.provider(a.Provider); err != nil {
			return nil, err
		}
		way, name = lockout.ByProvider(a.Provider), folded(a.Login)
	}
	note(ctx, nil, passwordMethod(a.Provider), a.Provider)
	e.awaitFactors(ctx)
	u := e.Passwords.Users.ByLogin(name)
	try, err := e.begin(ctx, way, guessed(u, ask == nil), name, a.Origin)
	if err != nil {
		e.record(ctx, u, passwordMethod(a.Provider), a.Provider, a.Origin, err)
		return nil, err
	}
	var p *iam.AuthnResult
	if ask == nil {
		p, err = e.local(ctx, a)
	} else {
		// The answer counts even if the client has disconnected.
		p, err = e.remote(context.WithoutCancel(ctx), entry, ask, a)
	}
	if err = e.settle(ctx, try, p, err); err != nil {
		e.record(ctx, u, passwordMethod(a.Provider), a.Provider, a.Origin, err)
		return nil, err
	}
	note(ctx, p.User, passwordMethod(a.Provider), a.Provider)
	if p.User != nil && !p.Pending {
		e.record(ctx, p.User, passwordMethod(a.Provider), a.Provider, a.Origin, nil)
	}
	return p, nil
}

// folded returns a name as directories compare it: without case, accents, width, surrounding blanks and invisible characters (RFC 4518, 2).
// Otherwise each spelling of one name would have tries of its own.
func folded(login string) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.In(r, unicode.Mn, unicode.Cc, unicode.Cf), r == '\u1806', r == '\ufffc':
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r))
	}, norm.NFKD.String(login))
	return strings.Join(strings.Fields(s), " ")
}

// guessed returns the user for whom a password attempt is counted: nil if no local password could be right.
func guessed(u *iam.User, local bool) *iam.User {
	if u != nil && local && !u.HasPassword() {
		return nil
	}
	return u
}

// entry returns an enabled provider.
func (e *Authenticator) entry(name string) (*idp.Entry, error) {
	synced := e.Directory.Synced() // before the read: what arrives after it may be there already
	entry := e.Directory.Entry(name)
	switch {
	case entry == nil && !synced:
		return nil, fmt.Errorf("%w: the configuration of %q is not read yet", idp.ErrUnavailable, name)
	case entry == nil || entry.Disabled:
		return nil, fmt.Errorf("%w: %q", iam.ErrUnknownProvider, name)
	}
	return entry, nil
}

// provider returns a provider that checks passwords.
func (e *Authenticator) provider(name string) (*idp.Entry, idp.Password, error) {
	entry, err := e.entry(name)
	if err != nil {
		return nil, nil, err
	}
	if entry.Provider == nil {
		return nil, nil, fmt.Errorf("%w: the configuration of %q is wrong", idp.ErrUnavailable, name)
	}
	p, ok := entry.Provider.(idp.Password)
	if !ok {
		return nil, nil, fmt.Errorf("%w: %q does not take passwords", iam.ErrUnknownProvider, name)
	}
	return entry, p, nil
}

func (e *Authenticator) local(ctx context.Context, a Attempt) (*iam.AuthnResult, error) {
	u, err := e.Passwords.Check(ctx, a.Login, a.Password)
	if err != nil {
		return nil, err
	}
	return e.second(ctx, &iam.AuthnResult{User: u, Methods: []string{iam.MethodPassword}, At: e.now()})
}

func (e *Authenticator) remote(ctx context.Context, entry *idp.Entry, ask idp.Password, a Attempt) (*iam.AuthnResult, error) {
	if a.Password == "" {
		return nil, iam.ErrCredentials
	}
	id, err := ask.Login(ctx, a.Login, a.Password)
	switch {
	case errors.Is(err, idp.ErrCredentials):
		return nil, fmt.Errorf("%w: %w", iam.ErrCredentials, err)
	case err != nil:
		return nil, err
	}
	p, err := e.link(ctx, entry, id, iam.MethodPassword)
	if err != nil {
		return nil, err
	}
	return e.second(ctx, p)
}

// link returns the result of a login by an identity.
func (e *Authenticator) link(ctx context.Context, entry *idp.Entry, id *idp.Identity, method string) (*iam.AuthnResult, error) {
	u, reg, err := e.Accounts.Resolve(ctx, entry, id)
	if err != nil {
		return nil, err
	}
	p := &iam.AuthnResult{User: u, Registration: reg, Provider: entry.Name, Subject: id.Subject, Groups: id.Groups, Hint: id.Hint,
		Refresh: id.Refresh,
		Methods: []string{method}, At: e.now()}
	if method == iam.MethodFederated {
		// A login by a provider does not say when the user authenticated there: the browser's session at the provider may be weeks old.
		if p.Authenticated = id.Authenticated; p.Authenticated.IsZero() {
			p.Authenticated = iam.TimeUnknown
		}
	}
	if u == nil {
		return p, nil
	}
	if u.Deleting || u.State != iamv1beta1.UserActive && u.State != iamv1beta1.UserAuthLimitExceeded {
		return nil, iam.ErrSuspended
	}
	return p, nil
}

// Identity is a login by a redirect provider or an authenticating proxy. Its errors are those of Password.
func (e *Authenticator) Identity(ctx context.Context, provider string, id *idp.Identity, o iam.Origin) (*iam.AuthnResult, error) {
	entry, err := e.entry(provider)
	if err != nil {
		return nil, err
	}
	if id == nil || id.Subject == "" {
		return nil, fmt.Errorf("%w: %q", iam.ErrUnknownProvider, provider)
	}
	note(ctx, nil, "provider", provider)
	p, err := e.link(ctx, entry, id, iam.MethodFederated)
	if err != nil {
		return nil, err
	}
	if p.User != nil {
		e.record(ctx, p.User, "provider", provider, o, nil)
	}
	return p, nil
}

// Confirm checks the password of a user who is logged in, before an important change. It counts as a login, and has the errors of Password.
func (e *Authenticator) Confirm(ctx context.Context, u *iam.User, password string, o iam.Origin) error {
	began := e.now()
	e.awaitFactors(ctx)
	err := func() error {
		try, err := e.begin(ctx, lockout.Password, guessed(u, true), u.Name, o)
		if err != nil {
			return err
		}
		p, err := e.local(ctx, Attempt{Login: u.Name, Password: password})
		if err == nil && p.User.UID != u.UID {
			err = iam.ErrCredentials
		}
		return e.settle(ctx, try, p, err)
	}()
	e.pause(ctx, began, err)
	return err
}

func (e *Authenticator) begin(ctx context.Context, w lockout.Method, u *iam.User, name string, o iam.Origin) (*lockout.Attempt, error) {
	if e.Lockout == nil {
		return nil, nil
	}
	return e.Lockout.Begin(ctx, w, u, name, o)
}

// settle counts the outcome of an attempt.
func (e *Authenticator) settle(ctx context.Context, try *lockout.Attempt, p *iam.AuthnResult, err error) error {
	if try == nil {
		return err
	}
	switch {
	case err == nil && try.User == nil:
		try.Cancel() // the provider accepted a name without a User
	case err == nil && p.User != nil && p.User.UID != try.User.UID:
		try.Cancel() // the name of another user; the failures of the named user are not cleared
	case err == nil && p.User != nil:
		return try.Succeed(!p.Pending)
	case errors.Is(err, iam.ErrCredentials):
		try.Fail(ctx)
	default: // a suspended or unregistered user who had the right password
		try.Cancel()
	}
	return err
}

func (e *Authenticator) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

// pause rounds up the time of a refusal.
func (e *Authenticator) pause(ctx context.Context, began time.Time, err error) {
	if e.Pause == nil || !errors.Is(err, iam.ErrCredentials) && !errors.Is(err, iam.ErrLimited) {
		return
	}
	e.Pause(ctx, pauseStep-e.now().Sub(began)%pauseStep)
}

// Pause waits for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// record records a login, or a failed attempt, of a known user, also in the audit event of the request.
func (e *Authenticator) record(ctx context.Context, u *iam.User, method, provider string, o iam.Origin, err error) {
	note(ctx, u, method, provider)
	if e.Records != nil && u != nil {
		e.Records.Add(u, iamv1beta1.LoginToken, provider, o, err)
	}
}

// note writes into the audit event of the request who logs in. Names without a user are left out, since people type passwords there by
// mistake.
func note(ctx context.Context, u *iam.User, method, provider string) {
	event := audit.From(ctx)
	if event == nil {
		return
	}
	event.SetLogin(audit.VerbLogin, method, provider)
	if u == nil {
		event.SetUser("", "")
		return
	}
	event.SetUser(u.Name, u.UID)
}

// passwordMethod is how a password is checked: here, or by a provider.
func passwordMethod(provider string) string {
	if provider == "" {
		return "password"
	}
	return "provider"
}
