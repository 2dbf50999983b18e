// Package account is the page on which users see and change how they log in: password, second factors, sessions and API keys.
package account

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// Handler is the account page. Features that are nil are not offered.
type Handler struct {
	Book      *page.Book
	Forms     *formstate.Forms
	Logins    *browser.Logins
	LoginPage *login.Page
	Sessions  *session.Store
	Keys      APIKeys
	Passwords *login.PasswordSetter
	Factors   *Factors
	Logout    Logout
	Now       func() time.Time
}

// Logout logs browsers out.
type Logout interface {
	EndLogin(r *http.Request, b *browser.Login, l *formstate.LogoutRequest) (any, error)
	// FormTargets returns the sources that a form that logs out may lead to.
	FormTargets(r *http.Request, b *browser.Login) []string
}

// Change is a change that users make on the account page.
type Change struct {
	do func(*http.Request, *browser.Login, protocol.Form) (any, error)
	// Sensitive changes need a recent login: those of credentials.
	Sensitive bool
	// Form is the form that it is sent with.
	Form formstate.Name
}

// Changes returns the changes by the name of their step.
func (h *Handler) Changes() map[string]Change {
	return map[string]Change{
		"logout":         {h.logOut, false, formstate.Account},
		"end":            {h.endSession, false, formstate.Account},
		"end-others":     {h.endOthers, false, formstate.Account},
		"key":            {h.createKey, true, formstate.Account},
		"key-revoke":     {h.revokeKey, false, formstate.Account},
		"password":       {h.askPassword, true, formstate.Account},
		"password-set":   {h.changePassword, true, formstate.Password},
		"totp":           {h.Factors.beginTOTP, true, formstate.Account},
		"totp-confirm":   {h.Factors.confirmTOTP, true, formstate.TOTP},
		"totp-remove":    {h.Factors.removeTOTP, true, formstate.Account},
		"recovery":       {h.Factors.newRecoveryCodes, true, formstate.Account},
		"passkey":        {h.Factors.beginPasskey, true, formstate.Account},
		"passkey-add":    {h.Factors.addPasskey, true, formstate.AddPasskey},
		"passkey-remove": {h.Factors.removePasskey, true, formstate.Account},
	}
}

// ServeStep answers POST /oauth/account: one change.
func (h *Handler) ServeStep(req *restful.Request) (any, error) {
	r := req.Request
	f, err := h.Forms.ReadPost(req)
	if err != nil {
		return nil, err
	}
	step, id, _ := strings.Cut(f["step"], ":")
	c, ok := h.Changes()[step]
	if !ok {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.stale"), nil)
	}
	b, p, err := h.Forms.OpenOwn(r, c.Form, f["form"])
	if err != nil {
		return nil, err
	}
	if c.Sensitive && !h.Logins.IsRecent(b) {
		return h.LoginPage.Show(r, formstate.State{Again: true}, login.PageState{})
	}
	f["id"], f["challenge"] = id, p.Challenge // values that were sent with these names are ignored
	v, err := c.do(r, b, f)
	if err == nil {
		return v, nil
	}
	if say := fault(err); say != nil {
		return h.show(r, b, http.StatusBadRequest, say)
	}
	return nil, err
}

// fault returns the message for an error that the user can correct; nil for others.
func fault(err error) page.Message {
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

// back redirects to the page, which shows what was done.
func back(r *http.Request, done string) (any, error) {
	return protocol.Redirect(page.Root(r) + "account?done=" + url.QueryEscape(done)), nil
}

// logOut ends the browser's session.
func (h *Handler) logOut(r *http.Request, b *browser.Login, _ protocol.Form) (any, error) {
	return h.Logout.EndLogin(r, b, &formstate.LogoutRequest{})
}

// APIKeys stores users' API keys.
type APIKeys interface {
	Create(ctx context.Context, u *iam.User, in apikey.Request) (*apikey.Key, string, error)
	List(*iam.User) []apikey.Key
	Revoke(ctx context.Context, u *iam.User, name string) error
}
