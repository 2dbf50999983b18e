package login

import (
	"context"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// Steps takes the forms of a login, one step at a time. Features that are nil are not offered.
type Steps struct {
	Page          *Page
	Book          *page.Book
	Forms         *formstate.Forms
	Logins        *browser.Logins
	Authenticator Authenticator
	Accounts      Accounts
	TOTP          TOTP
	Enroller      Enroller
	// Enrolled returns which second factors a user has.
	Enrolled  func(*iam.User) factor.Enrolled
	Setup     *TOTPSetup
	Passwords *PasswordSetter
	// Console completes logins for the platform's console, Authorize those for clients.
	Console   Console
	Authorize AuthorizationEndpoint
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time
}

// Console sends the browser back to the platform's console after a login at a provider.
type Console interface {
	Send(r *http.Request, in *formstate.ConsoleLogin, result *iam.AuthnResult) (any, error)
}

// AuthorizationEndpoint resumes an authorization request after the login.
type AuthorizationEndpoint interface {
	Resume(r *http.Request, b *browser.Login, a *protocol.AuthorizationRequest) (any, error)
}

// Serve answers POST /oauth/login: one step of a login.
func (s *Steps) Serve(req *restful.Request) (any, error) {
	f, err := s.Forms.ReadPost(req)
	if err != nil {
		return nil, err
	}
	switch f["step"] {
	case "password":
		return s.password(req.Request, f)
	case "passkey":
		return s.passkey(req.Request, f)
	case "factor":
		return s.factor(req.Request, f)
	case "password-new":
		return s.newPassword(req.Request, f)
	case "totp-confirm":
		return s.enrol(req.Request, f)
	case "enrolled":
		return s.enrolled(req.Request, f)
	case "register":
		return s.register(req.Request, f)
	}
	return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.stale"), nil)
}

// password takes a user name and a password.
func (s *Steps) password(r *http.Request, f protocol.Form) (any, error) {
	state, err := s.Forms.Open(r, formstate.Login, f["form"])
	if err != nil {
		return nil, err
	}
	if s.Authenticator == nil {
		return nil, protocol.Problem(http.StatusServiceUnavailable, page.Say("error.later"), nil)
	}
	result, err := s.Authenticator.Password(r.Context(), iamlogin.Attempt{Origin: s.OriginOf(r), Login: f["username"], Password: f["password"],
		Provider: f["provider"]})
	if err != nil {
		return s.Page.Failed(r, state, err, PageState{Username: f["username"], Provider: f["provider"]})
	}
	return s.Advance(r, state, result)
}

// Advance continues a login with an authentication result: it asks for the next missing step, or logs the user in. Until
// then nothing is stored and nothing is issued.
func (s *Steps) Advance(r *http.Request, state *formstate.State, result *iam.AuthnResult) (any, error) {
	if result.At.IsZero() {
		result.At = s.Now()
	}
	state.Challenge, state.Result = "", formstate.PackResult(result)
	switch {
	case result.Pending && result.User != nil:
		return s.askFactor(r, state, result, 0, nil)
	case result.User == nil && result.Registration != nil:
		return s.askRegistration(r, state, result.Registration.Username, result.Registration.Email, 0, nil)
	case result.User == nil || result.Pending:
		return nil, iam.ErrNotLinked
	case result.User.Uninitialized && result.Provider == "":
		return s.askNewPassword(r, state, 0, nil)
	case state.Console != nil:
		return s.Console.Send(r, state.Console, result)
	}
	b, set, err := s.Logins.Admit(r, result)
	if err != nil {
		return nil, err
	}
	if state.Request == nil {
		to := page.Root(r) + "account"
		if state.Again {
			to += "?done=fresh"
		}
		return page.WithCookies{Set: []*http.Cookie{set}, Then: protocol.Redirect(to)}, nil
	}
	return protocol.WithCookie(s.Book, set)(s.Authorize.Resume(r, b, state.Request))
}

// Authenticator checks passwords, second factors and identities.
type Authenticator interface {
	Password(context.Context, iamlogin.Attempt) (*iam.AuthnResult, error)
	SecondFactor(ctx context.Context, result *iam.AuthnResult, code string, o iam.Origin) error
	Passkey(ctx context.Context, result *iam.AuthnResult, sealed string, response []byte, o iam.Origin) error
	PasskeyLogin(ctx context.Context, sealed string, response []byte, o iam.Origin) (*iam.AuthnResult, error)
}
