package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// accountChange is what a person does on his page.
type accountChange struct {
	do func(*http.Request, *browser, form) (any, error)
	// sensitive changes how he logs in, or makes what opens his account: it needs a login of the last minutes.
	sensitive bool
	// form is the form that it comes with.
	form formName
}

func (s *Server) changes() map[string]accountChange {
	return map[string]accountChange{
		"logout":         {s.signOut, false, formAccount},
		"end":            {s.endSession, false, formAccount},
		"end-others":     {s.endOthers, false, formAccount},
		"key":            {s.createKey, true, formAccount},
		"key-revoke":     {s.revokeKey, false, formAccount},
		"password":       {s.askPassword, true, formAccount},
		"password-set":   {s.changePassword, true, formPassword},
		"totp":           {s.beginTOTP, true, formAccount},
		"totp-confirm":   {s.confirmTOTP, true, formTotp},
		"totp-remove":    {s.removeTOTP, true, formAccount},
		"recovery":       {s.newRecovery, true, formAccount},
		"passkey":        {s.beginPasskey, true, formAccount},
		"passkey-add":    {s.addPasskey, true, formAdd},
		"passkey-remove": {s.removePasskey, true, formAccount},
	}
}

// accountStep makes a change on a person's own page.
func (s *Server) accountStep(req *restful.Request) (any, error) {
	r := req.Request
	f, err := s.readPostedForm(req)
	if err != nil {
		return nil, err
	}
	step, id, _ := strings.Cut(f["step"], ":")
	c, ok := s.changes()[step]
	if !ok {
		return nil, problem(http.StatusBadRequest, page.Say("error.stale"), nil)
	}
	b, p, err := s.openOwnForm(r, c.form, f["form"])
	if err != nil {
		return nil, err
	}
	if c.sensitive && !s.recent(b) {
		return s.loginPage(r, formState{Again: true}, loginState{})
	}
	f["id"], f["challenge"] = id, p.Challenge // what came under these names is nobody's
	v, err := c.do(r, b, f)
	if err == nil {
		return v, nil
	}
	if say := accountFault(err); say != nil {
		return s.accountPage(r, b, http.StatusBadRequest, say)
	}
	return nil, err
}

// accountFault is what a person can mend.
func accountFault(err error) page.Message {
	switch {
	case errors.Is(err, iam.ErrOver):
		return page.Say("error.gone")
	case errors.Is(err, iam.ErrCredentials):
		return page.Say("error.passkey")
	case errors.Is(err, iam.ErrTooMany):
		return page.Say("error.many")
	case errors.Is(err, iam.ErrExpiry):
		return page.Say("error.expiry")
	case errors.Is(err, iam.ErrScope):
		return page.Say("error.stale")
	}
	return nil
}

// back goes to the page again, which says what was done.
func back(r *http.Request, done string) (any, error) {
	return redirect(root(r) + "account?done=" + url.QueryEscape(done)), nil
}

// signOut ends the browser's session, and what was opened in it.
func (s *Server) signOut(r *http.Request, b *browser, _ form) (any, error) {
	return s.logoutAndClearCookies(r, b, &logoutRequest{})
}

// endSession ends one session; only one of the person's own.
func (s *Server) endSession(r *http.Request, b *browser, f form) (any, error) {
	own := slices.ContainsFunc(s.Sessions.Of(b.user.UID), func(o *session.Session) bool { return o.Name == f["id"] })
	if !own {
		return nil, iam.ErrOver
	}
	if err := s.Sessions.End(r.Context(), f["id"], "ended by the user"); err != nil {
		return nil, err
	}
	return back(r, "ended")
}

func (s *Server) endOthers(r *http.Request, b *browser, _ form) (any, error) {
	if err := s.Sessions.EndAll(r.Context(), b.user.UID, b.session.Name, "ended by the user"); err != nil {
		return nil, err
	}
	return back(r, "others")
}

// keyDays are the lives of API keys to choose from.
func keyDays() []int { return []int{30, 90, 180, 365} }

// maxDescription is the length of what a key is for, in characters.
const maxDescription = 128

func (s *Server) createKey(r *http.Request, b *browser, f form) (any, error) {
	if err := offered(s.deps.keys != nil); err != nil {
		return nil, err
	}
	what := strings.TrimSpace(f["description"])
	days, err := strconv.Atoi(f["days"])
	if err != nil || !slices.Contains(keyDays(), days) || what == "" || utf8.RuneCountInString(what) > maxDescription || !utf8.ValidString(what) {
		return s.accountPage(r, b, http.StatusBadRequest, page.Say("error.description"))
	}
	_, secret, err := s.deps.keys.Create(r.Context(), b.user, apikey.Request{Description: what, Scope: f["scope"], Expires: s.Now().AddDate(0, 0, days).Truncate(time.Second)})
	if err != nil {
		return nil, err
	}
	return s.show(0, page.Secret{Title: page.Say("secret.key"), Text: page.Say("secret.key.text"), Values: []string{secret}, Action: "account"}, nil), nil
}

func (s *Server) revokeKey(r *http.Request, b *browser, f form) (any, error) {
	if err := offered(s.deps.keys != nil); err != nil {
		return nil, err
	}
	if err := s.deps.keys.Revoke(r.Context(), b.user, f["id"]); err != nil {
		return nil, err
	}
	return back(r, "revoked")
}

func (s *Server) askPassword(r *http.Request, b *browser, _ form) (any, error) {
	return s.passwordPage(r, b, 0, nil)
}

func (s *Server) passwordPage(r *http.Request, b *browser, code int, say page.Message) (any, error) {
	if s.deps.password == nil || b.session.Provider != "" {
		return nil, problem(http.StatusBadRequest, page.Say("error.confidential"), nil)
	}
	sealed, set, err := s.sealForm(r, formPassword, formState{Session: b.session.Name})
	if err != nil {
		return nil, err
	}
	d := page.Password{User: b.user.Name, Action: "account", Step: "password-set"}
	d.Form, d.Error = sealed, say
	return s.show(code, d, nil, set), nil
}

// changePassword sets a new password. That ends all sessions of the old one, this browser's too, which gets a new one.
func (s *Server) changePassword(r *http.Request, b *browser, f form) (any, error) {
	if s.deps.password == nil || b.session.Provider != "" {
		return nil, problem(http.StatusBadRequest, page.Say("error.confidential"), nil)
	}
	if f["current"] == "" {
		return s.passwordPage(r, b, http.StatusBadRequest, page.Say("error.wrong"))
	}
	u, code, say, err := s.setPassword(r, b.user, f["current"], f)
	switch {
	case err != nil:
		return nil, err
	case say != nil:
		return s.passwordPage(r, b, code, say)
	}
	_, set, err := s.openBrowserSession(r, &iam.AuthnResult{User: u, Methods: b.session.Methods, At: b.session.Authenticated})
	if err != nil {
		return nil, err
	}
	v, err := back(r, "password")
	return s.withSession(set)(v, err)
}
