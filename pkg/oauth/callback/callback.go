// Package callback logs users in at identity providers: it sends browsers there and takes them back.
package callback

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/console"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Handler sends browsers to identity providers and takes them back.
type Handler struct {
	Issuer    string
	Directory Directory
	// Authenticator finds the user of an identity; nil if logins are not possible.
	Authenticator Authenticator
	Logins        *browser.Logins
	LoginPage     *login.Page
	Steps         *login.Steps
	Console       *console.Codes
	Forms         *formstate.Forms
	Book          *page.Book
	Sealer        token.Sealer
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time
}

// Directory has the identity providers.
type Directory interface {
	Entry(name string) *idp.Entry
}

// Authenticator finds the user of an identity that a provider authenticated.
type Authenticator interface {
	Identity(ctx context.Context, provider string, id *idp.Identity, o iam.Origin) (*iam.AuthnResult, error)
}

// provider returns an enabled provider that browsers are redirected to.
func (h *Handler) provider(name string) (*idp.Entry, idp.Redirect, error) {
	e := h.Directory.Entry(name)
	if e != nil && !e.Disabled {
		if p, ok := e.Provider.(idp.Redirect); ok {
			return e, p, nil
		}
	}
	return nil, nil, protocol.Problem(http.StatusNotFound, page.Say("error.provider"), nil)
}

// callbackURL returns the redirect URI for a provider. Each provider has its own, against mix-up attacks (RFC 9700, 4.4).
func (h *Handler) callbackURL(provider string) string {
	return strings.TrimSuffix(h.Issuer, "/") + "/oauth/callback/" + url.PathEscape(provider)
}

// fault returns the error that reports a failure of a provider to the user.
func (h *Handler) fault(e *idp.Entry, err error) error {
	code, say, ok := login.Fault(err, login.Label(e))
	if !ok {
		return err
	}
	return protocol.Problem(code, say, err)
}

// Serve answers /oauth/callback/{provider}: the browser that returns, or, without a state, the console that redeems a code.
func (h *Handler) Serve(req *restful.Request) (any, error) {
	r := req.Request
	values, err := callbackValues(r)
	if err != nil {
		return nil, err
	}
	if values.Get("state") == "" && r.Method == http.MethodGet && !page.WantsHTML(r) {
		return h.Console.Redeem(req, cmp.Or(values.Get("code"), values.Get("ticket")))
	}
	if err := h.Logins.Cookies.RequireTLS(r); err != nil {
		return nil, err
	}
	name := req.PathParameter("provider")
	pending, err := h.open(r, name, values["state"])
	if err != nil {
		return nil, err
	}
	over := h.cookie(r, name, "") // the cookie is good once
	answer, err := h.finish(r, name, pending, values)
	return protocol.WithCookie(h.Book, over)(answer, err)
}

// finish continues the login with the identity that the provider authenticated.
func (h *Handler) finish(r *http.Request, name string, pending *pendingLogin, values url.Values) (any, error) {
	e, provider, err := h.provider(name)
	if err != nil {
		return nil, err
	}
	event := audit.From(r.Context())
	event.SetLogin(audit.VerbLogin, "provider", name)
	event.SetUser("", "") // until the provider has said who
	state := &formstate.State{Request: pending.Request, Console: pending.Console, Again: pending.Fresh && pending.Request == nil}
	shown := login.PageState{Provider: name}
	id, err := provider.Finish(r.Context(), idp.Callback{Values: values, Callback: h.callbackURL(name), Nonce: pending.Nonce,
		Verifier: pending.Verifier, Again: pending.Again})
	if err == nil && pending.Fresh {
		err = pending.verifyFresh(id)
	}
	if err != nil {
		if pending.Console != nil {
			return nil, h.fault(e, err)
		}
		return h.LoginPage.Failed(r, state, err, shown)
	}
	if h.Authenticator == nil {
		return nil, iam.ErrUnavailable
	}
	result, err := h.Authenticator.Identity(r.Context(), name, id, h.OriginOf(r))
	if err != nil {
		if pending.Console != nil {
			return nil, h.fault(e, err)
		}
		return h.LoginPage.Failed(r, state, err, shown)
	}
	return h.Steps.Advance(r, state, result)
}

// callbackValues returns the parameters that the provider sent, which may be repeated.
func callbackValues(r *http.Request) (url.Values, error) {
	if r.Method != http.MethodPost {
		return r.URL.Query(), nil
	}
	return protocol.ReadValues(r)
}
