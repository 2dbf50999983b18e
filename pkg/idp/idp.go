// Package idp defines identity providers: external systems that authenticate users. Each type of provider is a package
// below this one, registered in pkg/idp/builtin; a Directory has those that are configured.
package idp

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// Identity is a person as a provider identifies them.
type Identity struct {
	// Subject is the provider's own unchanging identifier of the person. Users are linked by it, and by nothing that the
	// person, or a later one, could choose.
	Subject string
	// Username is the person's user name at the provider. A new User's name is derived from it.
	Username string
	// DisplayName, Email and Lang are for the User that is created; "" if they are not known.
	DisplayName, Email, Lang string
	// Groups are the person's current groups at the provider.
	Groups []string
	// Extra is what else the provider says of the person in one request (user.Info's extra): nothing of it is stored.
	Extra map[string][]string
	// Hint is what the provider needs when the person logs out there (an ID token); it is a secret.
	Hint string
	// Refresh is the provider's token for asking about the person again (a refresh token); "" for none. It is a secret.
	Refresh string
	// Authenticated is when the person authenticated at a Redirect provider, as the provider asserts; zero if it does not say.
	Authenticated time.Time
}

// The errors of providers.
var (
	// ErrCredentials says that the name or the password is wrong, but never which.
	ErrCredentials = errors.New("the identity provider does not accept the name or the password")
	// ErrRefused says that the provider or the person refused, or that a callback or a token is not valid.
	ErrRefused = errors.New("the identity provider did not vouch for anybody")
	// ErrUnavailable says that the provider can't be asked. It is never taken for a wrong password.
	ErrUnavailable = errors.New("the identity provider can't be reached")
	// ErrUnaskable says that the provider can't be asked about a person again, or that there is no token for asking about this one.
	ErrUnaskable = errors.New("the identity provider can't be asked about the person again")
	// ErrGone says that the person no longer exists at the provider.
	ErrGone = errors.New("the identity provider does not know the person any more")
)

// RenewedError is the error of a Refresh that failed after the provider had issued another refresh token: it may not take the former one
// again. It wraps the reason, which is never ErrGone.
type RenewedError struct {
	// Next is what the next Refresh asks with.
	Next Secret
	// Err is the reason.
	Err error
}

// Renewed returns err as a RenewedError if the next Refresh has to ask with another token than this one.
func Renewed(refresh, next string, err error) error {
	if next == "" || next == refresh {
		return err
	}
	return &RenewedError{Next: NewSecret(next), Err: err}
}

// Error returns the reason.
func (e *RenewedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RenewedError) Unwrap() error { return e.Err }

// Provider is one configured provider. The interfaces below are optional: they say what else it can do.
type Provider interface {
	// Check checks whether the provider answers and its configuration is right, as far as that is possible without a user.
	// Its error says what to change, and contains no secret.
	Check(ctx context.Context) error
}

// Password is a Provider that checks passwords, such as a directory.
type Password interface {
	Provider
	// Login returns the identity with that name and password. Its errors are ErrCredentials and ErrUnavailable. An empty
	// password is ErrCredentials, and never sent.
	Login(ctx context.Context, username, password string) (*Identity, error)
}

// Redirect is a Provider that browsers are redirected to.
type Redirect interface {
	Provider
	// Begin returns where to send the browser. It makes no call to the provider, unless its addresses are not known yet
	// (then it may fail with ErrUnavailable).
	Begin(ctx context.Context, b Begin) (string, error)
	// Finish returns the Identity for the parameters with which the browser returned. Its errors are ErrRefused and ErrUnavailable.
	Finish(ctx context.Context, c Callback) (*Identity, error)
}

// Reauthentication is a Redirect that can make users authenticate again, and that asserts when they did.
type Reauthentication interface {
	Redirect
	// ProvesFreshLogin reports whether the Identity of a login that began with Again has the time of authentication.
	ProvesFreshLogin() bool
}

// Begin has the parameters with which a login at a Redirect provider starts.
type Begin struct {
	// Callback is the redirect URI, which is used for this provider only (RFC 9700, 4.4).
	Callback string
	// State, Nonce and Verifier are random, of 256 bits each. The caller binds them to the browser and compares the state;
	// a provider uses those that its protocol has.
	State, Nonce, Verifier string
	// LoginHint is the user name as already typed; "" for none.
	LoginHint string
	// Again asks the user to authenticate again, even if they are logged in at the provider.
	Again bool
}

// Callback has the parameters with which the browser returned, and those that Begin was given.
type Callback struct {
	// Values are the parameters of the query or the form. The caller has compared the state already.
	Values url.Values
	// Callback, Nonce and Verifier are those of Begin.
	Callback, Nonce, Verifier string
	// Again is that of Begin: a provider that can verify it must do so.
	Again bool
}

// Refresher is a Provider that can be asked about a user again when a session is refreshed.
type Refresher interface {
	Provider
	// Refresh returns the person's current identity at the provider. subject and refresh are those of the Identity of the login;
	// refresh is "" if the provider gave none. ErrGone ends the session; ErrUnavailable leaves it unchanged, and so does
	// ErrUnaskable as long as the session of the browser lives in which it was opened. A RenewedError has the refresh token that was
	// issued before the fault.
	Refresh(ctx context.Context, subject, refresh string) (*Identity, error)
}

// Logout is a Provider with a logout page.
type Logout interface {
	Provider
	// Logout returns the URL of the logout page, from which the browser returns to back; "" if the provider has no such page. hint is
	// that of the Identity.
	Logout(ctx context.Context, hint, back, state string) (string, error)
}

// EndSession is a Logout whose page may be published to clients, which then redirect browsers there themselves.
type EndSession interface {
	Logout
	// EndSession returns the URL of the page, if it is known without a call; "" otherwise. It is public: it contains no hint, no state
	// and no secret.
	EndSession() string
}

// Type is a type of provider that is compiled in.
type Type struct {
	// Name is the name of the type in configurations, such as LDAPIdentityProvider.
	Name string
	// Open makes a provider from the keys of its configuration. It makes no call: a provider that is down opens all the
	// same. An unknown key is an error that names it; no error contains a value.
	Open func(settings []byte, o OpenOptions) (Provider, error)
}

// OpenOptions are options that a provider may use.
type OpenOptions struct {
	// Name is the name of the configured provider.
	Name string
	// AllowLoopback allows loopback addresses of providers, for tests and local debugging. See pkg/egress.
	AllowLoopback bool
}
