package callback

import (
	"net/http"
	"net/url"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// ServeLogin answers GET /oauth/login/{provider}: a redirect to the provider.
func (h *Handler) ServeLogin(req *restful.Request) (any, error) {
	r := req.Request
	if err := h.Logins.Cookies.RequireTLS(r); err != nil {
		return nil, err
	}
	e, provider, err := h.provider(req.PathParameter("provider"))
	if err != nil {
		return nil, err
	}
	// State, nonce and verifier have 256 bits each (S43).
	pending := pendingLogin{State: browser.RandomSecret(), Nonce: browser.RandomSecret(), Verifier: browser.RandomSecret(), At: h.Now()}
	begin := idp.Begin{Callback: h.callbackURL(e.Name), State: pending.State, Nonce: pending.Nonce, Verifier: pending.Verifier}
	switch q := r.URL.Query(); {
	case q.Get("form") != "":
		state, err := h.Forms.Open(r, formstate.Login, q.Get("form"))
		if err != nil {
			return nil, err
		}
		if pending.Request = state.Request; pending.Request != nil {
			begin.LoginHint = pending.Request.LoginHint
		}
		if pending.Fresh = state.MustBeFresh(); pending.Fresh && !login.ProvesFreshLogin(provider) {
			return nil, h.fault(e, login.ErrNotFresh)
		}
	case q.Get("redirect_uri") != "":
		if pending.Console, err = h.Console.Begin(e.Name, q.Get("redirect_uri"), q.Get("state")); err != nil {
			return nil, err
		}
		pending.Console.Ticket = q.Has("ticket")
	}
	b, err := h.Logins.Of(r)
	if err != nil {
		return nil, err
	}
	begin.Again = pending.Fresh || b != nil // a user who is logged in has to authenticate again, not just have a session there
	pending.Again = begin.Again
	sealed, err := h.Sealer.Seal(purpose(e.Name), pending)
	if err != nil {
		return nil, err
	}
	if len(sealed) > maxCookie {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.long"), nil)
	}
	to, err := provider.Begin(r.Context(), begin)
	if err != nil {
		return nil, h.fault(e, err)
	}
	return page.WithCookies{Set: []*http.Cookie{h.cookie(r, e.Name, sealed)}, Then: protocol.Redirect(to)}, nil
}

// ServeCASLogin answers GET /oauth/login/{provider}/login, with which the console begins a login as at a CAS server (CAS Protocol
// 3.0, 2.1): the parameter service is the redirect URI, which gets a ticket.
func (h *Handler) ServeCASLogin(req *restful.Request) (any, error) {
	q := req.Request.URL.Query()
	again := req.Request.Clone(req.Request.Context())
	again.URL.RawQuery = url.Values{"redirect_uri": {q.Get("service")}, "ticket": {"1"}}.Encode()
	in := *req
	in.Request = again
	return h.ServeLogin(&in)
}
