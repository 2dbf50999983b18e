package logout

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// loggedOut answers that the user is logged out.
func (h *Handler) loggedOut(r *http.Request) (any, error) {
	if !page.WantsHTML(r) {
		return success(), nil
	}
	return h.Book.Show(0, page.Notice{Title: page.Say("out.title"), Text: page.Say("out.text"),
		Link: &page.Link{To: "login", Text: page.Say("out.again")}}, nil), nil
}

// ask answers with the page that asks the user of a browser whether to log out.
func (h *Handler) ask(r *http.Request, b *browser.Login, l *formstate.LogoutRequest) (any, error) {
	p := formstate.State{Session: b.Session.Name, Logout: l}
	sealed, set, err := h.Forms.Seal(r, formstate.Logout, p)
	if err != nil {
		return nil, err
	}
	d := page.Logout{Client: l.Client, User: b.User.Name}
	d.Form = sealed
	return h.Book.Show(0, d, append(p.Targets(), h.FormTargets(r, b)...), set), nil
}

// ServeConfirm answers POST /oauth/logout/confirm.
func (h *Handler) ServeConfirm(req *restful.Request) (any, error) {
	r := req.Request
	f, err := h.Forms.ReadPost(req)
	if err != nil {
		return nil, err
	}
	b, p, err := h.Forms.OpenOwn(r, formstate.Logout, f["form"])
	if err != nil {
		return nil, err
	}
	if f["answer"] != "yes" || p.Logout == nil {
		return h.Book.Show(0, page.Notice{Title: page.Say("stayed.title"), Text: page.Say("stayed.text"),
			Link: &page.Link{To: "account", Text: page.Say("stayed.account")}}, nil), nil
	}
	return h.EndLogin(r, b, p.Logout)
}

// EndLogin logs a browser out and deletes its cookies.
func (h *Handler) EndLogin(r *http.Request, b *browser.Login, l *formstate.LogoutRequest) (any, error) {
	v, err := h.endBrowser(r, b, l, nil)
	if err != nil {
		return nil, err
	}
	cookies := &h.Logins.Cookies
	gone := []*http.Cookie{cookies.Expired(r, browser.SessionCookie), cookies.Expired(r, browser.BindingCookie)}
	return page.WithCookies{Set: gone, Then: v}, nil
}

// FormTargets returns the source of the identity provider's logout, which a form that logs out may lead to.
func (h *Handler) FormTargets(r *http.Request, b *browser.Login) []string {
	e := h.Directory.Entry(b.Session.Provider)
	if b.Session.Provider == "" || e == nil {
		return nil
	}
	p, ok := e.Provider.(idp.Logout)
	if !ok {
		return nil
	}
	to, err := p.Logout(r.Context(), "", strings.TrimSuffix(h.Issuer, "/")+"/oauth/logout", "")
	if err != nil || page.Source(to) == "" {
		return nil
	}
	return []string{page.Source(to)}
}
