package authorize

import (
	"net/http"
	"net/url"
	"slices"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// askConsent answers with the page that asks whether the client may have the scopes.
func (h *Handler) askConsent(r *http.Request, b *browser.Login, c *client.Client, a *protocol.AuthorizationRequest) (any, error) {
	p := formstate.State{Request: a, Session: b.Session.Name, ByToken: b.ByToken}
	sealed, set, err := h.Forms.Seal(r, formstate.Consent, p)
	if err != nil {
		return nil, err
	}
	d := page.Consent{Client: a.Client, User: b.User.Name, Scopes: page.ScopeWords(c.ConsentScopes(a.Scopes)), Target: hostOf(a.RedirectURI)}
	d.Form, d.Fixed = sealed, b.ByToken
	return h.Book.Show(0, d, p.Targets(), set), nil
}

// hostOf returns the host of a redirect URI, or the URI if it has none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return u.Host
}

// ServeConsent answers POST /oauth/consent: the user allows or denies the request, or logs in as another user.
func (h *Handler) ServeConsent(req *restful.Request) (any, error) {
	r := req.Request
	f, err := h.Forms.ReadAnswer(req)
	if err != nil {
		return nil, err
	}
	b, p, err := h.Forms.OpenOwn(r, formstate.Consent, f["form"])
	if err != nil {
		return nil, err
	}
	a := p.Request
	if b.ByToken && f["answer"] == "switch" { // the console's session is ended by the console
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.stale"), nil)
	}
	switch f["answer"] {
	case "allow":
		c := h.Clients.Client(a.Client)
		if c == nil {
			return nil, protocol.Refuse(protocol.InvalidClient, "The client does not exist any more.")
		}
		if err := h.Sessions.Consent(r.Context(), b.Session.Name, c.Name, c.ConsentScopes(a.Scopes)); err != nil {
			return nil, err
		}
		a.Agreed = b.Session.Name
		return h.Resume(r, b, a)
	case "deny":
		return h.RedirectError(a, protocol.AccessDenied, "The user denied the request."), nil
	case "switch":
		if err := h.Sessions.End(r.Context(), b.Session.Name, "other user"); err != nil {
			return nil, err
		}
		a.LoginHint = ""
		a.Prompt = slices.DeleteFunc(a.Prompt, func(p string) bool { return p == protocol.PromptLogin })
		return protocol.WithCookie(h.Book, h.Logins.Cookies.Expired(r, browser.SessionCookie))(h.LoginPage.Ask(r, a))
	}
	return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.stale"), nil)
}
