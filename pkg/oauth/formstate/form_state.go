// Package formstate seals the state of a login in progress into the forms of its pages, so that the server stores nothing.
package formstate

import (
	"slices"
	"time"

	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Enrolment is a new authenticator app whose first code is awaited.
type Enrolment struct {
	User   string `json:"n"`
	URI    string `json:"u"`
	Sealed string `json:"s"`
	Action string `json:"a"`
}

// ConsoleLogin is a login at a provider on behalf of the platform's console, which does not use OAuth for it: its page sends the
// browser to /oauth/login/{provider}, gets it back with a one-time code, and its server gets the tokens from
// /oauth/callback/{provider}?code=...
type ConsoleLogin struct {
	Provider string `json:"p"`
	Redirect string `json:"r"`
	State    string `json:"s,omitempty"`
	// Ticket says that the code is the parameter ticket, as in CAS.
	Ticket bool `json:"t,omitempty"`
}

const (
	// Life is how long a form can be sent.
	Life = time.Hour
	// ResultLife is how long an authentication result in a form state is valid.
	ResultLife = 10 * time.Minute
)

// State is the sealed login state in each form. It is bound to the browser's cookie, and so is the CSRF token against other sites
// (RFC 6749, 10.12) and other browsers (S38); the server stays stateless.
type State struct {
	// Binding is the hash of the binding cookie, Session the browser's session that the page was made for; "" for none.
	Binding []byte `json:"b"`
	Session string `json:"n,omitempty"`
	// ByToken says that the form is bound to Session instead of a cookie, and is sent with an access token of it: the console passes no
	// cookies on.
	ByToken bool      `json:"k,omitempty"`
	At      time.Time `json:"t"`
	// Request is the authorization request to resume; nil if no client sent the user.
	Request *protocol.AuthorizationRequest `json:"a,omitempty"`
	Console *ConsoleLogin                  `json:"h,omitempty"`
	Result  *AuthnResult                   `json:"p,omitempty"`
	// Challenge is the challenge of a passkey.
	Challenge string     `json:"c,omitempty"`
	Enrolment *Enrolment `json:"e,omitempty"`
	// Again says that the user logs in again for a change on the account page.
	Again bool `json:"f,omitempty"`
	// Logout is the logout that is to be confirmed.
	Logout *LogoutRequest `json:"w,omitempty"`
	// UserCode is the user code of the device to be confirmed.
	UserCode string `json:"d,omitempty"`
}

// ClientName returns the client that the user logs in to; "" for none.
func (p *State) ClientName() string {
	if p.Request == nil {
		return ""
	}
	return p.Request.Client
}

// MustBeFresh reports whether the user has to authenticate now: for a change on the account page, or because the client wants it.
func (p *State) MustBeFresh() bool {
	return p.Again || p.Request != nil && (slices.Contains(p.Request.Prompt, protocol.PromptLogin) || p.Request.MaxAge >= 0)
}

// Targets returns the sources that the browser may be redirected to after the form.
func (p *State) Targets() []string {
	var out []string
	if p.Request != nil && p.Request.RedirectURI != "" {
		out = append(out, page.Source(p.Request.RedirectURI))
	}
	if p.Console != nil {
		out = append(out, page.Source(p.Console.Redirect))
	}
	if p.Logout != nil && p.Logout.To != "" {
		out = append(out, page.Source(p.Logout.To))
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// Name is the name of a form. State that was sealed for one form is not valid for another.
type Name string

// The forms.
const (
	Login        Name = "login"
	Passkey      Name = "passkey"
	Factor       Name = "factor"
	Password     Name = "password"
	Register     Name = "register"
	Consent      Name = "consent"
	Device       Name = "device"
	DeviceAnswer Name = "device-answer"
	Logout       Name = "logout"
	Account      Name = "account"
	TOTP         Name = "totp"
	Enrolled     Name = "enrolled"
	AddPasskey   Name = "passkey-add"
)

// Purpose returns the purpose that the state of the form is sealed for.
func (n Name) Purpose() token.Purpose { return token.Purpose("form " + string(n)) }

// LogoutRequest is a verified logout request.
type LogoutRequest struct {
	// Client is the client that asks; "" for none.
	Client string `json:"c,omitempty"`
	// To is the registered URL to redirect to afterwards; "" for none.
	To    string `json:"t,omitempty"`
	State []byte `json:"s,omitempty"`
}
