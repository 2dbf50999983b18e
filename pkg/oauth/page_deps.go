package oauth

import (
	"context"
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// pageDeps is what the pages work with, as small as they need it. A nil part is one that this server does not offer.
type pageDeps struct {
	book          *page.Book
	authenticator personAuthenticator
	enroller      enroller
	directory     directory
	accounts      accounts
	totp          totp
	passkeys      passkeys
	enrolled      func(*iam.User) factor.Enrolled
	keys          apiKeys
	password      ChangePassword
	users         func(name string) *iam.User
}

// ChangePassword sets a user's password, as iam.Authenticator does.
type ChangePassword func(ctx context.Context, c login.PasswordChange) error

type personAuthenticator interface {
	Password(context.Context, login.Attempt) (*iam.AuthnResult, error)
	Identity(ctx context.Context, provider string, id *idp.Identity, o iam.Origin) (*iam.AuthnResult, error)
	SecondFactor(ctx context.Context, p *iam.AuthnResult, code string, o iam.Origin) error
	Passkey(ctx context.Context, p *iam.AuthnResult, sealed string, response []byte, o iam.Origin) error
	PasskeyLogin(ctx context.Context, sealed string, response []byte, o iam.Origin) (*iam.AuthnResult, error)
}

// enroller completes the login of somebody who has to have a second factor, and has none yet.
type enroller interface {
	EnrolTOTP(ctx context.Context, p *iam.AuthnResult, sealed, code string, o iam.Origin) (recovery []string, err error)
}

type directory interface {
	Entry(name string) *idp.Entry
	Entries() []*idp.Entry
}

type accounts interface {
	Register(ctx context.Context, r iam.Registration, name, email string) (*iam.User, error)
}

type totp interface {
	BeginTOTP(*iam.User) (uri, sealed string, err error)
	ConfirmTOTP(ctx context.Context, u *iam.User, sealed, code string) (recovery []string, err error)
	RemoveTOTP(context.Context, *iam.User) error
	NewRecovery(context.Context, *iam.User) ([]string, error)
}

type passkeys interface {
	BeginPasskey(*iam.User) (options []byte, sealed string, err error)
	AddPasskey(ctx context.Context, u *iam.User, sealed, name string, response []byte) error
	RemovePasskey(ctx context.Context, u *iam.User, id string) error
	BeginLogin(*iam.User) (options []byte, sealed string, err error)
}

type apiKeys interface {
	Create(ctx context.Context, u *iam.User, in apikey.Request) (*apikey.Key, string, error)
	List(*iam.User) []apikey.Key
	Revoke(ctx context.Context, u *iam.User, name string) error
}

// noProviders is the directory of a server that has none.
type noProviders struct{}

func (noProviders) Entry(string) *idp.Entry { return nil }

func (noProviders) Entries() []*idp.Entry { return nil }

func newPageDeps(o *Options) (*pageDeps, error) {
	book, err := page.Open()
	if err != nil {
		return nil, err
	}
	d := &pageDeps{book: book, directory: noProviders{}, password: o.ChangePassword, enrolled: func(*iam.User) factor.Enrolled { return factor.Enrolled{} }}
	if o.Directory != nil {
		d.directory = o.Directory
	}
	if o.Sessions != nil {
		d.users = o.Sessions.Users.ByName
	}
	if o.Entrance != nil {
		d.authenticator, d.enroller = o.Entrance, o.Entrance
		if o.Entrance.Accounts != nil {
			d.accounts = o.Entrance.Accounts
		}
	}
	if o.Factors != nil {
		d.totp, d.enrolled = o.Factors, o.Factors.Of
		if o.Factors.Passkeys != nil { // a platform without a name of its own has none
			d.passkeys = o.Factors
		}
	}
	if o.APIKeys != nil {
		d.keys = o.APIKeys
	}
	return d, nil
}

// pages are the addresses that people's browsers go to. Each judges the browser's cookie itself.
func (s *Server) pages() []endpoint {
	get, post, both := []string{http.MethodGet}, []string{http.MethodPost}, []string{http.MethodGet, http.MethodPost}
	all := []endpoint{
		{"/login", get, "", false, s.login, "login", "the page that people log in on"},
		{"/login", post, "", false, s.loginStep, "login-step", "a step of a login"},
		{"/login/{provider}", get, "", false, s.loginAt, "login-at", "log in at an identity provider"},
		{"/login/{provider}/login", get, "", false, s.loginAtAsCAS, "login-at-cas", "log in at an identity provider, for a client that speaks CAS"},
		{"/callback/{provider}", both, "", false, s.callback, "callback", "where an identity provider sends the browser back to"},
		{"/consent", post, "", false, s.consent, "consent", "what a person says to a client's request"},
		{"/device", get, "", false, s.devicePage, "device", "the page that people let a device in on (RFC 8628, 3.3)"},
		{"/device", post, "", false, s.deviceStep, "device-step", "a step of letting a device in"},
		{"/logout/confirm", post, "", false, s.logoutConfirm, "logout-confirm", "what a person says to a logout"},
		{"/account", get, "", false, s.account, "account", "a person's own page"},
		{"/account", post, "", false, s.accountStep, "account-step", "a change on a person's own page"},
		{"/static/{file}", get, "", false, s.static, "static", "what pages look like"},
	}
	for i := range all {
		all[i].handle = s.forPeople(all[i].handle)
	}
	return all
}

// isPage tells the paths of pages.
func isPage(path string) bool {
	switch path = strings.TrimPrefix(path, "/oauth/"); strings.TrimSuffix(path, "/") {
	case "login", "consent", "device", "logout/confirm", "account":
		return true
	}
	below, _, found := strings.Cut(path, "/")
	return found && (below == "login" || below == "callback" || below == "static")
}
