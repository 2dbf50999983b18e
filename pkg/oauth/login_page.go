package oauth

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// askLogin answers with the login page, which goes on with a once the person has logged in (proceed).
func (s *Server) askLogin(r *http.Request, a *authorization) (any, error) {
	return s.loginPage(r, formState{Request: a}, loginState{})
}

// login is the login page of somebody who came by himself.
func (s *Server) login(req *restful.Request) (any, error) {
	b, err := s.loggedIn(req.Request)
	if err != nil {
		return nil, err
	}
	if b != nil {
		return redirect(root(req.Request) + "account"), nil
	}
	return s.loginPage(req.Request, formState{}, loginState{})
}

// loginState is how the login page looks after a step that failed.
type loginState struct {
	code               int
	say                page.Message
	username, provider string
}

// loginPage answers with the login page; p is what to go on with.
func (s *Server) loginPage(r *http.Request, p formState, shown loginState) (any, error) {
	d := page.Login{Client: p.client(), Username: shown.username}
	d.Error = shown.say
	if d.Username == "" && p.Request != nil {
		d.Username = p.Request.LoginHint
	}
	b, err := s.loggedIn(r)
	if err != nil {
		return nil, err
	}
	if b != nil && (p.Request == nil || !has(p.Request.Prompt, promptSelect)) {
		d.Again, d.Username = true, b.user.Name
	}
	// What stands in the page is not what was sent.
	p.Session, p.Result, p.Challenge, p.Enrolment = "", nil, "", nil
	var set *http.Cookie
	if d.Form, set, err = s.sealForm(r, formLogin, p); err != nil {
		return nil, err
	}
	if d.Passkey, err = s.passkeyLogin(r, p, set, nil); err != nil {
		return nil, err
	}
	s.listProviders(&d, r, shown.provider, p.mustBeFresh(), b)
	if d.Passkey != nil {
		d.Passkey.Or = len(d.Redirects) == 0
	}
	return s.show(shown.code, d, p.targets(), set), nil
}

// listProviders puts the providers on the login page that people may choose. Where a login has to be fresh, those that can't
// vouch for it are left out, and b, who came from one of them, is told so.
func (s *Server) listProviders(d *page.Login, r *http.Request, chosen string, fresh bool, b *browser) {
	for _, e := range s.deps.directory.Entries() {
		if e.Hidden || e.Disabled || e.Provider == nil {
			continue
		}
		p := page.Provider{Name: e.Name, Label: label(e), Chosen: e.Name == chosen}
		if _, ok := e.Provider.(idp.Password); ok {
			d.Passwords = append(d.Passwords, p)
			continue
		}
		if _, ok := e.Provider.(idp.Redirect); ok {
			if fresh && !provesFreshLogin(e.Provider) {
				if d.Error == nil && b != nil && b.session.Provider == e.Name {
					d.Error = page.Say("error.fresh", p.Label)
				}
				continue
			}
			p.Address = root(r) + "login/" + url.PathEscape(e.Name) + "?form=" + d.Form
			d.Redirects = append(d.Redirects, p)
		}
	}
}

func label(e *idp.Entry) string {
	if e.DisplayName != "" {
		return e.DisplayName
	}
	return e.Name
}

func (s *Server) labelOf(provider string) string {
	if e := s.deps.directory.Entry(provider); e != nil {
		return label(e)
	}
	return provider
}

// passkeyLogin is the button of passkeys: of u, or, where he is nil, of whom the passkey names. It is left out where
// there can be none.
func (s *Server) passkeyLogin(r *http.Request, p formState, cookie *http.Cookie, u *iam.User) (*page.Passkey, error) {
	if s.deps.passkeys == nil {
		return nil, nil
	}
	options, challenge, err := s.deps.passkeys.BeginLogin(u)
	if err != nil {
		klog.V(2).InfoS("The login page has no button for passkeys", "reason", err.Error())
		return nil, nil
	}
	p.Challenge = challenge
	if cookie != nil { // the browser has no cookie yet: this one will be it
		r = r.Clone(r.Context())
		r.AddCookie(cookie)
	}
	sealed, _, err := s.sealForm(r, formPasskey, p)
	if err != nil {
		return nil, err
	}
	return &page.Passkey{Form: sealed, Step: "passkey", Root: root(r), Action: "login", Call: "get", Options: string(options)}, nil
}

// loginStep takes what was sent on one of the pages of a login.
func (s *Server) loginStep(req *restful.Request) (any, error) {
	f, err := s.readPostedForm(req)
	if err != nil {
		return nil, err
	}
	switch f["step"] {
	case "password":
		return s.passwordStep(req.Request, f)
	case "passkey":
		return s.passkeyStep(req.Request, f)
	case "factor":
		return s.factorStep(req.Request, f)
	case "password-new":
		return s.newPasswordStep(req.Request, f)
	case "totp-confirm":
		return s.enrolStep(req.Request, f)
	case "enrolled":
		return s.enrolledStep(req.Request, f)
	case "register":
		return s.registerStep(req.Request, f)
	}
	return nil, problem(http.StatusBadRequest, page.Say("error.stale"), nil)
}

// passwordStep takes a name and a password.
func (s *Server) passwordStep(r *http.Request, f form) (any, error) {
	p, err := s.openForm(r, formLogin, f["form"])
	if err != nil {
		return nil, err
	}
	if s.deps.authenticator == nil {
		return nil, problem(http.StatusServiceUnavailable, page.Say("error.later"), nil)
	}
	proof, err := s.deps.authenticator.Password(r.Context(), login.Attempt{Origin: s.originOf(r), Login: f["username"], Password: f["password"],
		Provider: f["provider"], Client: p.client()})
	if err != nil {
		return s.failedLogin(r, p, err, loginState{username: f["username"], provider: f["provider"]})
	}
	return s.advance(r, p, proof)
}

// failedLogin shows the login page again, with what went wrong.
func (s *Server) failedLogin(r *http.Request, p *formState, err error, shown loginState) (any, error) {
	var ok bool
	if shown.code, shown.say, ok = loginFault(err, s.labelOf(shown.provider)); !ok {
		return nil, err
	}
	klog.V(2).InfoS("Login refused", "provider", shown.provider, "client", p.client(), "reason", err.Error())
	return s.loginPage(r, *p, shown)
}

// passkeyStep takes what a passkey answered: as a login, or as the second factor of one.
func (s *Server) passkeyStep(r *http.Request, f form) (any, error) {
	p, err := s.openForm(r, formPasskey, f["form"])
	if err != nil {
		return nil, err
	}
	if s.deps.authenticator == nil || s.deps.passkeys == nil {
		return nil, problem(http.StatusBadRequest, page.Say("error.passkey"), nil)
	}
	challenge, response := p.Challenge, []byte(f["response"])
	if p.Result == nil {
		proof, err := s.deps.authenticator.PasskeyLogin(r.Context(), challenge, response, s.originOf(r))
		if err != nil {
			return s.failedPasskey(r, p, err)
		}
		return s.advance(r, p, proof)
	}
	proof, err := s.unpack(p.Result)
	if err != nil {
		return nil, err
	}
	if err := s.deps.authenticator.Passkey(r.Context(), proof, challenge, response, s.originOf(r)); err != nil {
		return s.failedPasskey(r, p, err)
	}
	return s.advance(r, p, proof)
}

// failedPasskey begins the login anew.
func (s *Server) failedPasskey(r *http.Request, p *formState, err error) (any, error) {
	if errors.Is(err, iam.ErrCredentials) {
		return s.loginPage(r, *p, loginState{code: http.StatusBadRequest, say: page.Say("error.passkey")})
	}
	return s.failedLogin(r, p, err, loginState{})
}
