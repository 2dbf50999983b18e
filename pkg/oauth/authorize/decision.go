package authorize

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// Resume continues an authorization request after the user has logged in or consented: with a code, or with the next question.
func (h *Handler) Resume(r *http.Request, b *browser.Login, a *protocol.AuthorizationRequest) (any, error) {
	return h.decide(r, b, a, false)
}

// decide answers the authorization request of a user who is logged in. first says that the user was asked nothing for this request
// yet, so that an earlier login or consent does not satisfy prompt.
func (h *Handler) decide(r *http.Request, b *browser.Login, a *protocol.AuthorizationRequest, first bool) (any, error) {
	if a.UserCode != "" { // the device page asks for confirmation itself (RFC 8628, 5.4)
		return protocol.Redirect(h.Path + "/oauth/device?user_code=" + url.QueryEscape(a.UserCode)), nil
	}
	// The client may have changed while the request waited on a page.
	c := h.Clients.Client(a.Client)
	if c == nil {
		return nil, protocol.Refuse(protocol.InvalidClient, "The client does not exist any more.")
	}
	if uri, ok := c.RedirectURI(a.RedirectURI); !ok || uri != a.RedirectURI {
		return nil, protocol.Refuse(protocol.InvalidRequest, "Redirect URI is not allowed.")
	}
	if b.ByToken {
		// What an access token opens ends with its session, so that a stolen one opens nothing that lasts.
		a.Scopes = slices.DeleteFunc(slices.Clone(a.Scopes), func(scope string) bool { return scope == client.ScopeOffline })
	}
	silent := slices.Contains(a.Prompt, protocol.PromptNone)
	if !h.isFresh(b, a, first) {
		if silent {
			return h.RedirectError(a, protocol.LoginRequired, "The user has to log in."), nil
		}
		return h.askAgain(r, b, a)
	}
	if a.Subject != "" && a.Subject != b.User.UID {
		if silent || !first {
			return h.RedirectError(a, protocol.LoginRequired, "Another user than that of the id_token_hint is logged in."), nil
		}
		return h.askAgain(r, b, a)
	}
	if h.needsConsent(c, b, a) {
		if silent {
			return h.RedirectError(a, "consent_required", "The user has to consent."), nil
		}
		return h.askConsent(r, b, c, a)
	}
	sealed, err := h.newCode(b, a)
	if err != nil {
		return nil, err
	}
	return protocol.RedirectTo(a.RedirectURI, "code", sealed, "state", string(a.State), "iss", h.Issuer), nil
}

// askAgain asks a user who is logged in to log in again. The console can't be asked for that: its session stays as it is, and the client
// is told (OpenID Connect Core 1.0, 3.1.2.1 and 3.1.2.6).
func (h *Handler) askAgain(r *http.Request, b *browser.Login, a *protocol.AuthorizationRequest) (any, error) {
	switch {
	case !b.ByToken || h.Console == "":
		return h.LoginPage.Ask(r, a)
	case slices.Contains(a.Prompt, protocol.PromptSelectAccount):
		return h.RedirectError(a, "account_selection_required", "The user has to log out of the console, and in as the other user."), nil
	}
	return h.RedirectError(a, protocol.LoginRequired, "The user has to log out of the console, and in again."), nil
}

// consoleLoginFor is how long a login at the console counts as one for the request: the console sends the browser here after the login, but
// does not say that the request caused it.
const consoleLoginFor = time.Minute

// isFresh reports whether the login is as recent as the request wants. Sessions are stored in whole seconds.
func (h *Handler) isFresh(b *browser.Login, a *protocol.AuthorizationRequest, first bool) bool {
	at := b.Session.Authenticated
	if b.ByToken && h.Console != "" && a.MaxAge <= 0 && h.Now().Sub(at) <= consoleLoginFor {
		return true
	}
	if !first && !at.Before(a.At.Truncate(time.Second)) {
		return true
	}
	if slices.Contains(a.Prompt, protocol.PromptLogin) || first && slices.Contains(a.Prompt, protocol.PromptSelectAccount) {
		return false
	}
	return a.MaxAge < 0 || h.Now().Sub(at) <= time.Duration(a.MaxAge)*time.Second && a.MaxAge > 0
}

// needsConsent reports whether the user has to be asked. Public clients on the user's machine are asked about each time, unless their
// registration says otherwise: another application may pass for one that the user consented to (RFC 8252, 8.6).
func (h *Handler) needsConsent(c *client.Client, b *browser.Login, a *protocol.AuthorizationRequest) bool {
	switch {
	case a.Agreed == b.Session.Name:
		return false
	case slices.Contains(a.Prompt, protocol.PromptConsent):
		return true
	case c.GrantMethod == "auto", c.GrantMethod == "" && c.Secret != "":
		return false
	case c.Secret == "" && client.OnMachine(a.RedirectURI):
		return true
	}
	return !h.Sessions.Consented(b.Session.Name, c.Name, c.ConsentScopes(a.Scopes))
}

// RedirectError returns the redirect that sends an error to the client (RFC 6749, 4.1.2.1; RFC 9207, 2).
func (h *Handler) RedirectError(a *protocol.AuthorizationRequest, name, description string) protocol.Redirect {
	return protocol.RedirectTo(a.RedirectURI, "error", name, "error_description", description, "state", string(a.State), "iss", h.Issuer)
}

// newCode returns a code for the user of a browser.
func (h *Handler) newCode(b *browser.Login, a *protocol.AuthorizationRequest) (string, error) {
	now := h.Now()
	return h.Sealer.Seal(grant.PurposeCode, &grant.Code{
		Session: h.Sessions.NewName(), Client: a.Client, RedirectURI: a.RedirectURI, Given: a.RedirectGiven,
		Challenge: a.Challenge, Nonce: a.Nonce,
		Scopes: a.Scopes, Browser: b.Session.Name, Subject: b.User.UID,
		At: b.Session.Authenticated, Methods: b.Session.Methods, Expires: now.Add(h.CodeLife),
	})
}
