// Package idp says what an identity provider is: somebody else who vouches for people. Each provider is
// a package below this one, registered in pkg/idp/builtin; a Directory holds those that are configured.
package idp

import (
	"context"
	"errors"
	"net/url"
	"time"
)

// Identity is whom a provider vouches for.
type Identity struct {
	// Subject is the provider's own unchanging name of the person. Users are linked by it, and by nothing that
	// the person, or another one later, could choose.
	Subject string
	// Username is what the person is called there. A new User's name is derived from it.
	Username string
	// DisplayName, Email and Lang are for the User that is made; "" where they are not known.
	DisplayName, Email, Lang string
	// Groups are the person's groups there, as of now.
	Groups []string
	// Hint is what the provider wants to see again when the person logs out there (an ID token); it is a secret.
	Hint string
	// Refresh is what the provider gives to ask about the person again (a refresh token); "" for none. It is a secret.
	Refresh string
	// Authenticated is when the person proved himself to a Redirect provider, as that provider vouches; zero where it does not say.
	Authenticated time.Time
}

// The ways in which a provider fails.
var (
	// ErrCredentials says that the name or the password is wrong; never which.
	ErrCredentials = errors.New("the identity provider does not accept the name or the password")
	// ErrRefused says that the provider, or the person there, said no: a callback that is wrong, a token that does not verify.
	ErrRefused = errors.New("the identity provider did not vouch for anybody")
	// ErrUnavailable says that the provider can't be asked. It is never taken for a wrong password.
	ErrUnavailable = errors.New("the identity provider can't be reached")
	// ErrUnaskable says that the provider has no way to ask about a person again, or that nothing was given to ask about this one with.
	ErrUnaskable = errors.New("the identity provider can't be asked about the person again")
	// ErrGone says that the provider knows the person no more.
	ErrGone = errors.New("the identity provider does not know the person any more")
)

// Provider is one configured provider. What it can do besides is said by the interfaces below that it has.
type Provider interface {
	// Check asks whether the provider answers and its configuration is right, as far as that can be told without
	// a person. Its error says what to change, and holds no secret.
	Check(ctx context.Context) error
}

// Password is a Provider that checks passwords, such as a directory.
type Password interface {
	Provider
	// Login returns who has the name and the password. Its errors are ErrCredentials and ErrUnavailable. An empty
	// password is ErrCredentials, and never sent.
	Login(ctx context.Context, username, password string) (*Identity, error)
}

// Redirect is a Provider that people are sent to with their browsers.
type Redirect interface {
	Provider
	// Begin returns where to send the browser. It makes no call that could fail because of the provider, except
	// where its addresses are not known yet (ErrUnavailable).
	Begin(ctx context.Context, b Begin) (string, error)
	// Finish makes an Identity of what the browser came back with. Its errors are ErrRefused and ErrUnavailable.
	Finish(ctx context.Context, c Callback) (*Identity, error)
}

// Reauthentication is a Redirect that can have people prove themselves anew, and that vouches for it.
type Reauthentication interface {
	Redirect
	// ProvesFreshLogin tells whether the Identity of a login that began with Again says when the person proved himself.
	ProvesFreshLogin() bool
}

// Begin is what a login at a Redirect provider starts with.
type Begin struct {
	// Callback is our address that the browser comes back to; it is the provider's alone (RFC 9700, 4.4).
	Callback string
	// State, Nonce and Verifier are random, of 256 bits each, and bound to the browser by the caller, who compares the
	// state himself. A provider uses those of them that its protocol has.
	State, Nonce, Verifier string
	// LoginHint is what the person typed as a name already; "" for nothing.
	LoginHint string
	// Again asks that the person prove himself anew, even if he is logged in there.
	Again bool
}

// Callback is what the browser came back with, and what Begin was given.
type Callback struct {
	// Values are the parameters of the query or the form, the state among them, which the caller has compared already.
	Values url.Values
	// Callback, Nonce and Verifier are those of Begin.
	Callback, Nonce, Verifier string
	// Again is that of Begin: a provider that can verify it does.
	Again bool
}

// Refresher is a Provider that can be asked about a person again when a session is refreshed.
type Refresher interface {
	Provider
	// Refresh returns the person as he is there now. subject and refresh are those of the Identity of the login; an
	// empty refresh is what a provider gets who gave none. ErrGone ends the session; ErrUnavailable leaves it as it is, and so does
	// ErrUnaskable as long as the session of the browser lives that it was opened in.
	Refresh(ctx context.Context, subject, refresh string) (*Identity, error)
}

// Logout is a Provider with a page that logs people out there.
type Logout interface {
	Provider
	// Logout returns where to send the browser, which comes back to back; "" where the provider has no such page. hint is that of the
	// Identity.
	Logout(ctx context.Context, hint, back, state string) (string, error)
}

// EndSession is a Logout whose page may be told to clients, which then send people there themselves.
type EndSession interface {
	Logout
	// EndSession returns the page's address, as far as it is known without a call; "" where it is not, or where there is none. It is for
	// anybody to
	// see: it has no hint, no state and no secret.
	EndSession() string
}

// Type is a kind of provider that is compiled in.
type Type struct {
	// Name is what configurations call it, such as LDAPIdentityProvider.
	Name string
	// Open makes a provider of the keys of its configuration. It makes no call: a provider that is down opens all the same.
	// A key that it does not read is an error that names it, and no error holds a value.
	Open func(settings []byte, o OpenOptions) (Provider, error)
}

// OpenOptions are what a provider may use.
type OpenOptions struct {
	// Name is the name of the configured provider.
	Name string
	// AllowLoopback lets the provider's address be on this machine; for tests and local debugging. See pkg/egress.
	AllowLoopback bool
}
