package oauth

import (
	"time"
)

// authorization is what a client asks a person for (RFC 6749, 4.1.1; OpenID Connect Core 1.0, 3.1.2.1), once the client and
// the redirect URI are known to be good. While the person logs in and consents it travels with him, sealed.
type authorization struct {
	Client      string `json:"c"`
	RedirectURI string `json:"r"`
	// RedirectGiven says that the request had a redirect_uri, so that the redemption of the code needs it as well.
	RedirectGiven bool `json:"g,omitempty"`
	// State may be of any bytes, which a string in JSON may not.
	State     []byte   `json:"s,omitempty"`
	Nonce     string   `json:"n,omitempty"`
	Challenge string   `json:"p,omitempty"` // S256 (RFC 7636)
	Scopes    []string `json:"o,omitempty"`
	Prompt    []string `json:"m,omitempty"` // the values of prompt
	// Agreed is the browser's session in which the person said yes to this very request; "" for none.
	Agreed string `json:"y,omitempty"`
	// MaxAge is max_age in seconds; below 0 where none was given.
	MaxAge    int64  `json:"a"`
	LoginHint string `json:"l,omitempty"`
	// Subject is the UID of the User who has to be the one; "" for anybody (id_token_hint).
	Subject string `json:"u,omitempty"`
	// UserCode is set for a device's request (RFC 8628) instead of a redirect URI.
	UserCode string `json:"d,omitempty"`
	// At is when the request came. A login with prompt=login counts if it is not older.
	At time.Time `json:"t"`
}
