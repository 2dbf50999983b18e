// Package oauth assembles the OAuth 2.0 authorization server: /oauth/* and its discovery documents. Each feature has a
// package of its own below this one; endpoints.go has the table of all addresses.
package oauth

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/account"
	"kapis.dev/ks-apiserver/pkg/oauth/authorize"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/callback"
	"kapis.dev/ks-apiserver/pkg/oauth/claim"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/console"
	"kapis.dev/ks-apiserver/pkg/oauth/device"
	"kapis.dev/ks-apiserver/pkg/oauth/discovery"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
	"kapis.dev/ks-apiserver/pkg/oauth/logout"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/ratelimit"
	"kapis.dev/ks-apiserver/pkg/oauth/tokeninfo"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Options are the dependencies and settings of a Server.
type Options struct {
	// Issuer is the URL that tokens and discovery name as their issuer. It has no query and no fragment.
	Issuer   string
	Tokens   *token.Issuer
	Verifier *token.Verifier
	Keys     token.KeySource
	Clients  *client.Registry
	Sessions *session.Store
	// Authenticator checks passwords and second factors; nil if no user can log in.
	Authenticator *iamlogin.Authenticator
	// Directory has the identity providers, Factors the second factors, and APIKeys the keys for automation; nil for none.
	Directory *idp.Directory
	Factors   *factor.Store
	APIKeys   *apikey.Store
	// ChangePassword sets passwords; nil if users can't change them.
	ChangePassword login.ChangePassword
	// OtherTokens authenticates tokens in TokenReviews that are not access tokens; nil for none.
	OtherTokens authenticator.Token
	// Console is the address of the platform's console, where it asks users to log in for clients, and passes /oauth/ on to this server
	// without cookies; "" where this server's login page asks.
	Console string
	// Origins are those of pages besides this server's whose forms are accepted.
	Origins []string
	// PasswordGrant lets trusted clients take users' passwords (RFC 9700, 2.4).
	PasswordGrant bool
	// CodeLife is how long an authorization code is good; 0 means grant.DefaultCodeLife.
	CodeLife time.Duration
	// Audiences are the member clusters that access tokens are exchanged for; nil for none.
	Audiences func() []string
	// EmailVerified reports whether an identity provider has verified a user's e-mail; nil for never.
	EmailVerified func(*iam.User) bool
	// GroupsOf returns the groups of a User that clients are told; nil for all.
	GroupsOf func(*iam.User) []string
	// Loaded returns why clients or identity providers may be configured that are not known yet, or otherwise than is known, and nil once that
	// is not so; nil itself for never.
	Loaded func() error
	// Origin returns where a request comes from; nil for the address of the connection.
	Origin func(*http.Request) iam.Origin
	// Now is the clock.
	Now func() time.Time
	// Metrics registers the counters; nil for none.
	Metrics prometheus.Registerer
}

// Server answers /oauth/* and the discovery documents.
type Server struct {
	Options
	book   *page.Book
	sealer token.Sealer
	// issuerPath is the path of the issuer's URL, with which the metadata has a second address (RFC 8414, 3.1).
	issuerPath string
	metadata   discovery.Document

	clientAuth    *client.Authenticator
	tokenEndpoint *grant.Endpoint
	introspection *tokeninfo.Introspection
	revocation    *tokeninfo.Revocation
	userInfo      *tokeninfo.UserInfo
	tokenReview   *tokeninfo.TokenReview

	logins       *browser.Logins
	forms        *formstate.Forms
	loginPage    *login.Page
	loginSteps   *login.Steps
	callback     *callback.Handler
	consoleCodes *console.Codes
	authorize    *authorize.Handler
	devices      *device.Handler
	devicePage   *device.Page
	logout       *logout.Handler
	account      *account.Handler
}

// New makes a Server. It fails if the issuer is not a URL that may be in tokens.
func New(o Options) (*Server, error) {
	path, err := discovery.CheckIssuer(o.Issuer)
	if err != nil {
		return nil, err
	}
	if o.CodeLife = cmp.Or(o.CodeLife, grant.DefaultCodeLife); o.CodeLife < 0 || o.CodeLife > grant.MaxCodeLife {
		return nil, fmt.Errorf("make the authorization server: a code lives for %v; %v at most (RFC 6749, 4.1.2)", o.CodeLife, grant.MaxCodeLife)
	}
	if o.Origin == nil {
		o.Origin = connectionOrigin
	}
	s := &Server{Options: o, issuerPath: path, sealer: token.Sealer{Keys: o.Keys, Now: o.Now}}
	if s.book, err = page.Open(); err != nil {
		return nil, fmt.Errorf("make the authorization server: %w", err)
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ks_oauth_token_requests_total", Help: "Requests of the token endpoint, by grant and what came of it."},
		[]string{"grant", "result"})
	s.assembleTokens(requests)
	s.assemblePages()
	if s.metadata, err = s.makeMetadata(); err != nil {
		return nil, err
	}
	if o.Metrics != nil {
		if err := o.Metrics.Register(requests); err != nil {
			return nil, fmt.Errorf("register metrics of the token endpoint: %w", err)
		}
	}
	return s, nil
}

// assembleTokens makes the endpoints that clients and resource servers call.
func (s *Server) assembleTokens(requests *prometheus.CounterVec) {
	failures := ratelimit.New(ratelimit.FailuresPerSecond, ratelimit.FailuresAtOnce)
	s.clientAuth = &client.Authenticator{Registry: s.Clients, Loaded: s.loaded, Limit: failures, OriginOf: s.Origin, Now: s.Now}
	claims := &claim.Source{Clients: s.Clients, EmailVerified: s.EmailVerified, GroupsOf: s.GroupsOf}
	reader := &tokeninfo.Reader{Sessions: s.Sessions}
	issuer := &grant.Issuer{URL: s.Issuer, Tokens: s.Tokens, Clients: s.Clients, Claims: claims, Now: s.Now}
	s.devices = &device.Handler{
		Issuer: s.Issuer, ClientAuth: s.clientAuth, Clients: s.Clients, Sessions: s.Sessions, Tokens: issuer,
		UserCodes: &device.UserCodes{Keys: s.Keys, Now: s.Now}, Sealer: s.sealer,
		Limit: ratelimit.New(rate.Every(device.GuessPause), device.GuessesAtOnce), OriginOf: s.Origin, Now: s.Now,
	}
	s.tokenEndpoint = &grant.Endpoint{
		ClientAuth: s.clientAuth, Clients: s.Clients, Issuer: issuer, Sessions: s.Sessions, Authenticator: s.Authenticator,
		PasswordGrant: s.PasswordGrant, Audiences: s.Audiences, Verifier: s.Verifier, Reader: reader, Device: s.devices.Grant(),
		Sealer: s.sealer, OriginOf: s.Origin, Now: s.Now, Requests: requests,
	}
	s.introspection = &tokeninfo.Introspection{ClientAuth: s.clientAuth, Reader: reader, Verifier: s.Verifier, Issuer: s.Issuer}
	s.revocation = &tokeninfo.Revocation{ClientAuth: s.clientAuth, Sessions: s.Sessions, Verifier: s.Verifier, Keys: s.Keys, Now: s.Now}
	s.userInfo = &tokeninfo.UserInfo{Reader: reader, Sessions: s.Sessions, Verifier: s.Verifier, Claims: claims}
	s.tokenReview = &tokeninfo.TokenReview{
		Issuer: s.Issuer, Audience: s.Tokens.Audience, Verifier: s.Verifier, Sessions: s.Sessions, OtherTokens: s.OtherTokens,
		Limit: failures, OriginOf: s.Origin, Now: s.Now,
	}
}

// assemblePages makes the endpoints that browsers call.
func (s *Server) assemblePages() {
	s.logins = &browser.Logins{
		Cookies: browser.Cookies{Issuer: s.Issuer}, Sessions: s.Sessions, Sealer: s.sealer, OriginOf: s.Origin, Now: s.Now,
		Access: s.Verifier.Access, Trusted: s.Clients.Trusted,
	}
	s.forms = &formstate.Forms{Logins: s.logins, Sealer: s.sealer, Origins: s.Origins, Now: s.Now}
	s.loginPage = &login.Page{Book: s.book, Forms: s.forms, Logins: s.logins, Directory: noProviders{}}
	setup := &login.TOTPSetup{Book: s.book, Forms: s.forms}
	factors := &account.Factors{
		Book: s.book, Forms: s.forms, Setup: setup, Enrolled: func(*iam.User) factor.Enrolled { return factor.Enrolled{} },
	}
	s.consoleCodes = &console.Codes{
		Clients: s.Clients, Sessions: s.Sessions, Tokens: s.tokenEndpoint.Issuer, Sealer: s.sealer, OriginOf: s.Origin, Now: s.Now,
	}
	s.authorize = &authorize.Handler{
		Issuer: s.Issuer, Path: s.issuerPath, Console: s.Console, Clients: s.Clients, Sessions: s.Sessions, Tokens: s.tokenEndpoint.Issuer,
		Verifier: s.Verifier, Sealer: s.sealer, CodeLife: s.CodeLife, Logins: s.logins, LoginPage: s.loginPage, Forms: s.forms,
		Book: s.book, Now: s.Now,
	}
	s.loginSteps = &login.Steps{
		Page: s.loginPage, Book: s.book, Forms: s.forms, Logins: s.logins, Setup: setup, Console: s.consoleCodes,
		Authorize: s.authorize, OriginOf: s.Origin, Now: s.Now,
	}
	s.callback = &callback.Handler{
		Issuer: s.Issuer, Logins: s.logins, LoginPage: s.loginPage, Steps: s.loginSteps, Console: s.consoleCodes,
		Forms: s.forms, Book: s.book, Sealer: s.sealer, OriginOf: s.Origin, Now: s.Now,
	}
	s.devicePage = &device.Page{
		Devices: s.devices, Logins: s.logins, LoginPage: s.loginPage, Forms: s.forms, Book: s.book, Now: s.Now,
	}
	s.logout = &logout.Handler{
		Issuer: s.Issuer, Clients: s.Clients, Sessions: s.Sessions, Verifier: s.Verifier, Reader: s.tokenEndpoint.Reader,
		Sealer: s.sealer, Logins: s.logins, Forms: s.forms, Book: s.book,
	}
	s.account = &account.Handler{
		Book: s.book, Forms: s.forms, Logins: s.logins, LoginPage: s.loginPage, Sessions: s.Sessions, Factors: factors,
		Logout: s.logout, Now: s.Now,
	}
	s.enable(factors)
}

// enable sets the features of the pages. Features without an option stay nil.
func (s *Server) enable(factors *account.Factors) {
	s.useDirectory(noProviders{})
	if s.Directory != nil {
		s.useDirectory(s.Directory)
	}
	if s.Sessions != nil {
		s.forms.Users = s.Sessions.Users.Lookup
	}
	if s.Authenticator != nil {
		s.loginSteps.Authenticator, s.loginSteps.Enroller, s.callback.Authenticator = s.Authenticator, s.Authenticator, s.Authenticator
		if s.Authenticator.Accounts != nil {
			s.loginSteps.Accounts = s.Authenticator
		}
	}
	if s.ChangePassword != nil {
		passwords := &login.PasswordSetter{Change: s.ChangePassword, Users: s.Sessions.Users.ByName, OriginOf: s.Origin}
		s.loginSteps.Passwords, s.account.Passwords = passwords, passwords
	}
	if s.Factors != nil {
		s.loginSteps.TOTP, factors.TOTP, factors.Enrolled = s.Factors, s.Factors, s.Factors.Of
		if s.Factors.Passkeys != nil { // passkeys need an issuer with a host name
			s.loginPage.Passkeys, factors.Passkeys = s.Factors, s.Factors
		}
	}
	s.loginSteps.Enrolled = factors.Enrolled
	if s.APIKeys != nil {
		s.account.Keys = s.APIKeys
	}
}

// useDirectory sets the directory of identity providers.
func (s *Server) useDirectory(d login.Directory) {
	s.loginPage.Directory, s.callback.Directory, s.logout.Directory = d, d, d
}

// noProviders is an empty directory.
type noProviders struct{}

// Entry returns nil.
func (noProviders) Entry(string) *idp.Entry { return nil }

// Entries returns nil.
func (noProviders) Entries() []*idp.Entry { return nil }

// connectionOrigin returns the address of the connection of a request.
func connectionOrigin(r *http.Request) iam.Origin {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return iam.Origin{Source: host, UserAgent: r.UserAgent()}
}
