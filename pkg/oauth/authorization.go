package oauth

import (
	"net/http"
	"time"
)

// authorization is what a client asks a person for (RFC 6749, 4.1.1; OpenID Connect Core 1.0, 3.1.2.1), once the client and
// the redirect URI are known to be good. While the person logs in and consents it travels with him, sealed.
type authorization struct {
	Client      string `json:"c"`
	RedirectURI string `json:"r"`
	// RedirectGiven says that the request had a redirect_uri, so that the redemption of the code needs it as well.
	RedirectGiven bool     `json:"g,omitempty"`
	State         string   `json:"s,omitempty"`
	Nonce         string   `json:"n,omitempty"`
	Challenge     string   `json:"p,omitempty"` // S256 (RFC 7636)
	Scopes        []string `json:"o,omitempty"`
	Prompt        []string `json:"m,omitempty"`
	// MaxAge is max_age in seconds; below 0 where none was given.
	MaxAge    int64  `json:"a"`
	LoginHint string `json:"l,omitempty"`
	// UserCode is set for a device's request (RFC 8628) instead of a redirect URI.
	UserCode string `json:"d,omitempty"`
	// At is when the request came. A login with prompt=login counts if it is not older.
	At time.Time `json:"t"`
}

// askLogin answers with the login page, which goes on with a once the person has logged in (proceed).
func (s *Server) askLogin(r *http.Request, a *authorization) (any, error) {
	return nil, refuse(loginRequired, "Log in first.")
}

// askConsent answers with the page that asks whether the client may have the scopes, which then goes on with a.
func (s *Server) askConsent(r *http.Request, b *browser, a *authorization) (any, error) {
	return nil, refuse("consent_required", "Consent is needed.")
}

// proceed answers an authorization request of a person who is logged in in this browser: with a code, or by asking for what is missing.
func (s *Server) proceed(r *http.Request, b *browser, a *authorization) (any, error) {
	return nil, refuse(loginRequired, "Log in first.")
}
