// Package authorize is the authorization endpoint: it reads authorization requests, asks for consent, and issues codes.
package authorize

import (
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Handler is the authorization endpoint.
type Handler struct {
	Issuer string
	// Path is the path of the issuer's URL.
	Path string
	// Console is the address of the console that asks users to log in for clients; "" where the login page does.
	Console  string
	Clients  *client.Registry
	Sessions *session.Store
	// Tokens checks which resource access tokens are for.
	Tokens   *grant.Issuer
	Verifier *token.Verifier
	Sealer   token.Sealer
	// CodeLife is how long codes are good.
	CodeLife  time.Duration
	Logins    *browser.Logins
	LoginPage LoginPage
	Forms     *formstate.Forms
	Book      *page.Book
	Now       func() time.Time
}

// LoginPage asks the user to log in, and then resumes the authorization request.
type LoginPage interface {
	Ask(r *http.Request, a *protocol.AuthorizationRequest) (any, error)
}

// Serve answers an authorization request (RFC 6749, 3.1; OpenID Connect Core 1.0, 3.1.2). Unless the client and the redirect URI
// are valid, the user is told and the browser is not redirected.
func (h *Handler) Serve(req *restful.Request) (any, error) {
	r := req.Request
	a, _, refusal, err := h.Read(r)
	if err != nil {
		return nil, err
	}
	if refusal != "" {
		return refusal, nil
	}
	b, err := h.login(r)
	switch {
	case err != nil:
		return nil, err
	case b != nil:
		return h.decide(r, b, a, true)
	case slices.Contains(a.Prompt, protocol.PromptNone):
		return h.RedirectError(a, protocol.LoginRequired, "Nobody is logged in in this browser."), nil
	case h.Console != "": // it remembers the request, and sends the browser here again with its access token
		return protocol.Redirect(h.Console), nil
	}
	return h.LoginPage.Ask(r, a)
}

// login returns the login of a request: that of its access token, else that of its cookie; nil for none.
func (h *Handler) login(r *http.Request) (*browser.Login, error) {
	if b, err := h.Logins.OfToken(r); b != nil || err != nil {
		return b, err
	}
	return h.Logins.Of(r)
}

// Read reads an authorization request. If it returns a refusal, the client and the redirect URI are valid and the client gets the
// refusal; if it returns an error, they are not valid.
func (h *Handler) Read(r *http.Request) (a *protocol.AuthorizationRequest, c *client.Client, refusal protocol.Redirect, err error) {
	values, err := readValues(r)
	if err != nil {
		return nil, nil, "", err
	}
	if a, c, err = h.readClient(values); err != nil {
		return nil, nil, "", err
	}
	if e := h.readParameters(a, c, values); e != nil {
		refusal = h.RedirectError(a, e.Name, e.Description)
	}
	return a, c, refusal, nil
}

// readValues returns the parameters, which are in the query of a GET and in the body of a POST.
func readValues(r *http.Request) (url.Values, error) {
	if r.Method == http.MethodPost {
		return protocol.ReadValues(r)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The query is not well-formed.")
	}
	return values, nil
}

// readClient returns the client, and a request with its verified redirect URI.
func (h *Handler) readClient(values url.Values) (*protocol.AuthorizationRequest, *client.Client, error) {
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(values[name]) > 1 {
			return nil, nil, protocol.Refuse(protocol.InvalidRequest, "The parameter "+name+" is given more than once.")
		}
	}
	c := h.Clients.Client(values.Get("client_id"))
	if c == nil {
		return nil, nil, protocol.Refuse(protocol.InvalidClient, "The provided client_id is invalid or does not exist.")
	}
	uri, ok := c.RedirectURI(values.Get("redirect_uri"))
	if !ok {
		return nil, nil, protocol.Refuse(protocol.InvalidRequest, "Redirect URI is not allowed.")
	}
	a := &protocol.AuthorizationRequest{Client: c.Name, RedirectURI: uri, RedirectGiven: values.Get("redirect_uri") != "",
		MaxAge: -1, At: h.Now()}
	if state := values["state"]; len(state) == 1 && len(state[0]) <= protocol.MaxState {
		a.State = []byte(state[0])
	}
	return a, c, nil
}

// readParameters reads the other parameters, and returns the error for the client if they are not valid.
func (h *Handler) readParameters(a *protocol.AuthorizationRequest, c *client.Client, values url.Values) *protocol.Error {
	f, err := protocol.Once(values)
	if err != nil {
		return protocol.Refuse(protocol.InvalidRequest, "A parameter is given more than once.")
	}
	for _, e := range []*protocol.Error{checkSupported(f), h.Tokens.CheckResource(c, f), a.ReadChallenge(f, c.Secret == ""), a.ReadPrompt(f)} {
		if e != nil {
			return e
		}
	}
	if len(f["state"]) > protocol.MaxState || len(f["nonce"]) > protocol.MaxNonce || !utf8.ValidString(f["nonce"]) {
		return protocol.Refuse(protocol.InvalidRequest, "The state or the nonce is too long, or the nonce is no text.")
	}
	a.Nonce = f["nonce"]
	if hint := f["login_hint"]; len(hint) <= protocol.MaxLoginHint && utf8.ValidString(hint) {
		a.LoginHint = hint
	}
	if a.Scopes, err = client.GrantScopes(c, f["scope"]); err != nil {
		return protocol.Refuse(protocol.InvalidScope, "None of the requested scopes can be granted, or the scope is not well-formed.")
	}
	if hint := f["id_token_hint"]; hint != "" {
		id, err := h.Verifier.Identity(hint)
		if err != nil {
			return protocol.Refuse(protocol.InvalidRequest, "The id_token_hint is not an ID token of this server.")
		}
		a.Subject = id.Subject
	}
	if c.IsDenied() {
		return protocol.Refuse(protocol.AccessDenied, "This client is given nothing.")
	}
	return nil
}

// checkSupported refuses parameters that are not supported. A request_uri is never fetched (OpenID Connect Core 1.0, 6.2).
func checkSupported(f protocol.Form) *protocol.Error {
	switch {
	case f["request"] != "":
		return protocol.Refuse("request_not_supported", "The parameter request is not supported.")
	case f["request_uri"] != "":
		return protocol.Refuse("request_uri_not_supported", "The parameter request_uri is not supported.")
	case f["registration"] != "":
		return protocol.Refuse("registration_not_supported", "The parameter registration is not supported.")
	case f["response_type"] == "":
		return protocol.Refuse(protocol.InvalidRequest, "The response_type is missing.")
	case !slices.Contains(protocol.ResponseTypes(), f["response_type"]): // browsers get codes, never tokens (RFC 9700, 2.1.2)
		return protocol.Refuse("unsupported_response_type", "The response_type has to be code.")
	case f["response_mode"] != "" && !slices.Contains(protocol.ResponseModes(), f["response_mode"]):
		return protocol.Refuse(protocol.InvalidRequest, "The response_mode has to be query.")
	}
	return nil
}
