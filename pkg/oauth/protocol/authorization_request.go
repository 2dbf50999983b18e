package protocol

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AuthorizationRequest is a request of the authorization endpoint (RFC 6749, 4.1.1; OpenID Connect Core 1.0, 3.1.2.1) with a
// verified client and redirect URI. During login and consent it is part of the sealed form state.
type AuthorizationRequest struct {
	Client      string `json:"c"`
	RedirectURI string `json:"r"`
	// RedirectGiven says that the request had a redirect_uri: then the token request needs it too.
	RedirectGiven bool `json:"g,omitempty"`
	// State is bytes, since a JSON string can't hold all of them.
	State     []byte   `json:"s,omitempty"`
	Nonce     string   `json:"n,omitempty"`
	Challenge string   `json:"p,omitempty"` // S256 (RFC 7636)
	Scopes    []string `json:"o,omitempty"`
	Prompt    []string `json:"m,omitempty"` // the values of prompt
	// Agreed is the browser's session in which the user consented to this request; "" for none.
	Agreed string `json:"y,omitempty"`
	// MaxAge is max_age in seconds; below 0 if it was not given.
	MaxAge    int64  `json:"a"`
	LoginHint string `json:"l,omitempty"`
	// Subject is the UID of the user who has to log in (id_token_hint); "" for any.
	Subject string `json:"u,omitempty"`
	// UserCode is that of a device (RFC 8628), which has no redirect URI.
	UserCode string `json:"d,omitempty"`
	// At is when the request arrived: prompt=login needs a login that is not older.
	At time.Time `json:"t"`
}

// The longest parameters, in bytes. They are part of the sealed form state.
const (
	MaxState     = 4 << 10
	MaxNonce     = 512
	MaxLoginHint = 320
)

// The values of prompt (OpenID Connect Core 1.0, 3.1.2.1).
const (
	PromptNone          = "none"
	PromptLogin         = "login"
	PromptConsent       = "consent"
	PromptSelectAccount = "select_account"
)

// Prompts returns the values of prompt that are supported.
func Prompts() []string { return []string{PromptNone, PromptLogin, PromptConsent, PromptSelectAccount} }

// ResponseTypes returns the values of response_type that are supported.
func ResponseTypes() []string { return []string{"code"} }

// ResponseModes returns the values of response_mode that are supported.
func ResponseModes() []string { return []string{"query"} }

// ChallengeMethods returns the values of code_challenge_method that are supported.
func ChallengeMethods() []string {
	return []string{"S256"} // not plain: it does not protect against attackers who see the request
}

// ReadChallenge reads the PKCE challenge (RFC 7636, 4.3), which public clients have to send (RFC 9700, 2.1.1).
func (a *AuthorizationRequest) ReadChallenge(f Form, public bool) *Error {
	challenge, method := f["code_challenge"], f["code_challenge_method"]
	if challenge == "" {
		if public || method != "" {
			return Refuse(InvalidRequest, "The code_challenge is missing.")
		}
		return nil
	}
	if !slices.Contains(ChallengeMethods(), method) {
		return Refuse(InvalidRequest, "The code_challenge_method has to be S256.")
	}
	if sum, err := base64.RawURLEncoding.Strict().DecodeString(challenge); err != nil || len(sum) != 32 || len(challenge) != 43 {
		return Refuse(InvalidRequest, "The code_challenge is not a SHA-256 in base64url.")
	}
	a.Challenge = challenge
	return nil
}

// ReadPrompt reads prompt and max_age, and ignores unknown values of prompt.
func (a *AuthorizationRequest) ReadPrompt(f Form) *Error {
	for _, p := range strings.Fields(f["prompt"]) {
		if slices.Contains(Prompts(), p) && !slices.Contains(a.Prompt, p) {
			a.Prompt = append(a.Prompt, p)
		}
	}
	if slices.Contains(a.Prompt, PromptNone) && len(strings.Fields(f["prompt"])) > 1 {
		return Refuse(InvalidRequest, "The prompt none stands alone.")
	}
	if f["max_age"] == "" {
		return nil
	}
	n, err := strconv.ParseInt(f["max_age"], 10, 32)
	if err != nil || n < 0 {
		return Refuse(InvalidRequest, "The max_age is not a number of seconds.")
	}
	a.MaxAge = n
	return nil
}
