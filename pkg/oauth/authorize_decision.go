package oauth

import (
	"net/http"
	"net/url"
	"time"
)

// resumeAuthorization answers an authorization request of a person who is logged in in this browser: with a code, or by asking for what
// is missing. The pages call it once the person has logged in or has agreed.
func (s *Server) resumeAuthorization(r *http.Request, b *browser, a *authorization) (any, error) {
	return s.decideAuthorization(r, b, a, false)
}

// decideAuthorization is proceed. first says that the person was asked for nothing yet, so that what he did before does not count for a
// prompt.
func (s *Server) decideAuthorization(r *http.Request, b *browser, a *authorization, first bool) (any, error) {
	if a.UserCode != "" { // the page of devices asks on its own, always (RFC 8628, 5.4)
		return redirect(s.wellKnown + "/oauth/device?user_code=" + url.QueryEscape(a.UserCode)), nil
	}
	// What was good when the request came may not be so any more: the request may have waited on a page for long.
	c := s.Clients.Client(a.Client)
	if c == nil {
		return nil, refuse(invalidClient, "The client does not exist any more.")
	}
	if uri, ok := c.redirectURI(a.RedirectURI); !ok || uri != a.RedirectURI {
		return nil, refuse(invalidRequest, "Redirect URI is not allowed.")
	}
	silent := has(a.Prompt, promptNone)
	if !s.fresh(b, a, first) {
		if silent {
			return s.redirectError(a, loginRequired, "The person has to log in."), nil
		}
		return s.askLogin(r, a)
	}
	if a.Subject != "" && a.Subject != b.user.UID {
		if silent || !first {
			return s.redirectError(a, loginRequired, "Another person than that of the id_token_hint is logged in."), nil
		}
		return s.askLogin(r, a)
	}
	if s.needsConsent(c, b, a) {
		if silent {
			return s.redirectError(a, "consent_required", "The person has to agree."), nil
		}
		return s.askConsent(r, b, c, a)
	}
	sealed, err := s.newCode(b, a)
	if err != nil {
		return nil, err
	}
	return answerTo(a.RedirectURI, "code", sealed, "state", string(a.State), "iss", s.Issuer), nil
}

// fresh tells whether the login of the browser is as recent as the request wants it. Sessions are stored in whole seconds.
func (s *Server) fresh(b *browser, a *authorization, first bool) bool {
	at := b.session.Authenticated
	if !first && !at.Before(a.At.Truncate(time.Second)) {
		return true
	}
	if has(a.Prompt, promptLogin) || first && has(a.Prompt, promptSelect) {
		return false
	}
	return a.MaxAge < 0 || s.Now().Sub(at) <= time.Duration(a.MaxAge)*time.Second && a.MaxAge > 0
}

// needsConsent tells whether the person has to be asked. A client that anybody can pass for is not given anything behind
// the person's back, unless its registration says so: what he allowed the application before, another on his machine that takes its name
// has not been allowed (RFC 8252, 8.6).
func (s *Server) needsConsent(c *Client, b *browser, a *authorization) bool {
	switch {
	case a.Agreed == b.session.Name:
		return false
	case has(a.Prompt, promptConsent):
		return true
	case c.GrantMethod == "auto", c.GrantMethod == "" && c.Secret != "":
		return false
	case c.Secret == "" && onMachine(a.RedirectURI):
		return true
	}
	return !s.Sessions.Consented(b.session.Name, c.Name, c.toAsk(a.Scopes))
}

// redirectError is the answer of an error to the client (RFC 6749, 4.1.2.1; RFC 9207, 2).
func (s *Server) redirectError(a *authorization, name, description string) redirect {
	return answerTo(a.RedirectURI, "error", name, "error_description", description, "state", string(a.State), "iss", s.Issuer)
}
