package account

import (
	"net/http"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// askPassword asks for a new password.
func (h *Handler) askPassword(r *http.Request, b *browser.Login, _ protocol.Form) (any, error) {
	return h.passwordPage(r, b, 0, nil)
}

// passwordPage answers with the form for a new password. Passwords of identity providers can't be changed here.
func (h *Handler) passwordPage(r *http.Request, b *browser.Login, code int, say page.Message) (any, error) {
	if h.Passwords == nil || b.Session.Provider != "" {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.confidential"), nil)
	}
	sealed, set, err := h.Forms.Seal(r, formstate.Password, formstate.State{Session: b.Session.Name})
	if err != nil {
		return nil, err
	}
	d := page.Password{User: b.User.Name, Action: "account", Step: "password-set"}
	d.Form, d.Error = sealed, say
	return h.Book.Show(code, d, nil, set), nil
}

// changePassword sets a new password. That ends all sessions that the old one opened; this browser gets a new one.
func (h *Handler) changePassword(r *http.Request, b *browser.Login, f protocol.Form) (any, error) {
	if h.Passwords == nil || b.Session.Provider != "" {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.confidential"), nil)
	}
	if f["current"] == "" {
		return h.passwordPage(r, b, http.StatusBadRequest, page.Say("error.wrong"))
	}
	u, code, say, err := h.Passwords.Set(r, b.User, f["current"], f)
	switch {
	case err != nil:
		return nil, err
	case say != nil:
		return h.passwordPage(r, b, code, say)
	}
	_, set, err := h.Logins.Admit(r, &iam.AuthnResult{User: u, Methods: b.Session.Methods, At: b.Session.Authenticated})
	if err != nil {
		return nil, err
	}
	v, err := back(r, "password")
	return protocol.WithCookie(h.Book, set)(v, err)
}
