package oauth

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/token"
)

// The parameters of an authorization request, in bytes at most. It travels sealed through the login page.
const (
	maxState = 4 << 10
	maxNonce = 512
	maxHint  = 320
)

// The values of prompt (OpenID Connect Core 1.0, 3.1.2.1).
const (
	promptNone    = "none"
	promptLogin   = "login"
	promptConsent = "consent"
	promptSelect  = "select_account"
)

func prompts() []string { return []string{promptNone, promptLogin, promptConsent, promptSelect} }

func responseTypes() []string { return []string{"code"} }

func responseModes() []string { return []string{"query"} }

func challengeMethods() []string {
	return []string{"S256"} // never plain: it protects from nobody who sees the request
}

// authorize is the authorization endpoint (RFC 6749, 3.1; OpenID Connect Core 1.0, 3.1.2). The client and the redirect URI
// are judged first: while one of them is wrong the person is told, and the browser is sent nowhere.
func (s *Server) authorize(req *restful.Request) (any, error) {
	r := req.Request
	values, err := authorizeValues(r)
	if err != nil {
		return nil, err
	}
	a, c, err := s.clientAndRedirectURI(values)
	if err != nil {
		return nil, err
	}
	if refusal := s.checkAuthorization(a, c, values); refusal != "" {
		return refusal, nil
	}
	b, err := s.loggedIn(r)
	if err != nil {
		return nil, err
	}
	if b == nil {
		if has(a.Prompt, promptNone) {
			return s.redirectError(a, loginRequired, "Nobody is logged in in this browser."), nil
		}
		return s.askLogin(r, a)
	}
	return s.decideAuthorization(r, b, a, true)
}

// authorizeValues reads the parameters, from the query of a GET and the body of a POST.
func authorizeValues(r *http.Request) (url.Values, error) {
	if r.Method == http.MethodPost {
		return readValues(nil, r)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(invalidRequest, "The query is not well-formed.")
	}
	return values, nil
}

// clientAndRedirectURI returns the client and where its answers go, both known to be good.
func (s *Server) clientAndRedirectURI(values url.Values) (*authorization, *Client, error) {
	for _, name := range []string{"client_id", "redirect_uri"} {
		if len(values[name]) > 1 {
			return nil, nil, refuse(invalidRequest, "The parameter "+name+" stands there more than once.")
		}
	}
	c := s.Clients.Client(values.Get("client_id"))
	if c == nil {
		return nil, nil, refuse(invalidClient, "The provided client_id is invalid or does not exist.")
	}
	uri, ok := c.redirectURI(values.Get("redirect_uri"))
	if !ok {
		return nil, nil, refuse(invalidRequest, "Redirect URI is not allowed.")
	}
	a := &authorization{Client: c.Name, RedirectURI: uri, RedirectGiven: values.Get("redirect_uri") != "", MaxAge: -1, At: s.Now()}
	if state := values["state"]; len(state) == 1 && len(state[0]) <= maxState {
		a.State = []byte(state[0])
	}
	return a, c, nil
}

// checkAuthorization returns the answer to a request that is not good; "" for one that is.
func (s *Server) checkAuthorization(a *authorization, c *Client, values url.Values) redirect {
	if e := s.readAuthorization(a, c, values); e != nil {
		return s.redirectError(a, e.Name, e.Description)
	}
	return ""
}

// readAuthorization reads what else the request says; what is wrong with it is told to the client.
func (s *Server) readAuthorization(a *authorization, c *Client, values url.Values) *Error {
	f, err := once(values)
	if err != nil {
		return refuse(invalidRequest, "A parameter stands there more than once.")
	}
	for _, e := range []*Error{unsupported(f), s.target(c, f), a.readProof(f, c.Secret == ""), a.readPrompt(f)} {
		if e != nil {
			return e
		}
	}
	if len(f["state"]) > maxState || len(f["nonce"]) > maxNonce || !utf8.ValidString(f["nonce"]) {
		return refuse(invalidRequest, "The state or the nonce is too long, or the nonce is no text.")
	}
	a.Nonce = f["nonce"]
	if hint := f["login_hint"]; len(hint) <= maxHint && utf8.ValidString(hint) {
		a.LoginHint = hint
	}
	if a.Scopes, err = grantScopes(c, f["scope"]); err != nil {
		return refuse(invalidScope, "None of the requested scopes can be granted, or the scope is not well-formed.")
	}
	if hint := f["id_token_hint"]; hint != "" {
		id, err := s.Verifier.Identity(hint)
		if err != nil {
			return refuse(invalidRequest, "The id_token_hint is not an ID token of this server.")
		}
		a.Subject = id.Subject
	}
	if c.GrantMethod == "deny" {
		return refuse(accessDenied, "This client is given nothing.")
	}
	return nil
}

// unsupported refuses what this server does not do. A request_uri is never fetched (OpenID Connect Core 1.0, 6.2).
func unsupported(f form) *Error {
	switch {
	case f["request"] != "":
		return refuse("request_not_supported", "The parameter request is not supported.")
	case f["request_uri"] != "":
		return refuse("request_uri_not_supported", "The parameter request_uri is not supported.")
	case f["registration"] != "":
		return refuse("registration_not_supported", "The parameter registration is not supported.")
	case f["response_type"] == "":
		return refuse(invalidRequest, "The response_type is missing.")
	case !slices.Contains(responseTypes(), f["response_type"]): // nothing but codes travels through browsers (RFC 9700, 2.1.2)
		return refuse("unsupported_response_type", "The response_type has to be code.")
	case f["response_mode"] != "" && !slices.Contains(responseModes(), f["response_mode"]):
		return refuse(invalidRequest, "The response_mode has to be query.")
	}
	return nil
}

// target refuses a request for tokens for another resource server than the one that the client's are for (RFC 8707, 2).
func (s *Server) target(c *Client, f form) *Error {
	switch resource := f["resource"]; {
	case resource == "", c.forAPI() && (resource == s.Issuer || resource == s.Tokens.Audience):
		return nil
	case c.forAPI():
		return refuse(invalidTarget, "Access tokens are for this server only: the resource has to be its issuer, or left out.")
	case resource == token.UserInfo(s.Issuer):
		return nil
	}
	return refuse(invalidTarget, "Access tokens of this client are for the userinfo endpoint only; the administrator lists api in its scopeRestrictions.")
}

// readProof reads the challenge (RFC 7636, 4.3), which clients without a secret have to send (RFC 9700, 2.1.1).
func (a *authorization) readProof(f form, public bool) *Error {
	challenge, method := f["code_challenge"], f["code_challenge_method"]
	if challenge == "" {
		if public || method != "" {
			return refuse(invalidRequest, "The code_challenge is missing.")
		}
		return nil
	}
	if !slices.Contains(challengeMethods(), method) {
		return refuse(invalidRequest, "The code_challenge_method has to be S256.")
	}
	if sum, err := base64.RawURLEncoding.Strict().DecodeString(challenge); err != nil || len(sum) != 32 || len(challenge) != 43 {
		return refuse(invalidRequest, "The code_challenge is not a SHA-256 in base64url.")
	}
	a.Challenge = challenge
	return nil
}

// readPrompt reads prompt and max_age. Values of prompt that are not known are passed over.
func (a *authorization) readPrompt(f form) *Error {
	for _, p := range strings.Fields(f["prompt"]) {
		if slices.Contains(prompts(), p) && !has(a.Prompt, p) {
			a.Prompt = append(a.Prompt, p)
		}
	}
	if has(a.Prompt, promptNone) && len(strings.Fields(f["prompt"])) > 1 {
		return refuse(invalidRequest, "The prompt none stands alone.")
	}
	if f["max_age"] == "" {
		return nil
	}
	n, err := strconv.ParseInt(f["max_age"], 10, 32)
	if err != nil || n < 0 {
		return refuse(invalidRequest, "The max_age is not a number of seconds.")
	}
	a.MaxAge = n
	return nil
}
