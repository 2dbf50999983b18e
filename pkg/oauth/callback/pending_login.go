package callback

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// PendingLoginLife is how long a user may take at the provider.
	PendingLoginLife = 30 * time.Minute
	// maxCookie is the longest value that every browser stores (RFC 6265, 6.1).
	maxCookie = 3900
	// cookiePrefix begins the names of the cookies.
	cookiePrefix = "ks-idp-"
)

// pendingLogin is a login in progress at a provider. It is sealed in a cookie, which binds it to the browser that began it, so that
// the server stays stateless.
type pendingLogin struct {
	State    string                         `json:"s"`
	Nonce    string                         `json:"n"`
	Verifier string                         `json:"v"`
	At       time.Time                      `json:"t"`
	Request  *protocol.AuthorizationRequest `json:"a,omitempty"`
	Console  *formstate.ConsoleLogin        `json:"h,omitempty"`
	// Again says that the provider was asked to authenticate the user again, and Fresh that it has to prove that it did.
	Again bool `json:"f,omitempty"`
	Fresh bool `json:"m,omitempty"`
}

// purpose returns the purpose that a pending login is sealed for.
func purpose(provider string) token.Purpose { return token.Purpose("provider " + provider) }

// CookieName returns the name of the cookie for a provider.
func CookieName(provider string) string {
	sum := sha256.Sum256([]byte(provider))
	return cookiePrefix + hex.EncodeToString(sum[:8])
}

// cookie returns the cookie; for "" one that deletes it. It is SameSite=None over https, since a provider may send the browser back
// with a form, which is a cross-site request. The state protects that.
func (h *Handler) cookie(r *http.Request, provider, value string) *http.Cookie {
	c := h.Logins.Cookies.New(r, CookieName(provider), value)
	if c.Secure {
		c.SameSite = http.SameSiteNoneMode
	}
	c.MaxAge = int(PendingLoginLife / time.Second)
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// open returns the login that this browser has begun. A missing state, an old one, or that of another browser is refused (S41).
func (h *Handler) open(r *http.Request, provider string, state []string) (*pendingLogin, error) {
	bad := func(cause error) error {
		return protocol.Problem(http.StatusBadRequest, page.Say("error.state"), cause)
	}
	c, err := r.Cookie(h.Logins.Cookies.Name(r, CookieName(provider)))
	if err != nil || len(state) != 1 || state[0] == "" {
		return nil, bad(errors.New("the browser has begun no login at the provider, or the state is missing"))
	}
	var p pendingLogin
	if err := h.Sealer.Open(purpose(provider), c.Value, &p); err != nil {
		return nil, bad(err)
	}
	if subtle.ConstantTimeCompare([]byte(p.State), []byte(state[0])) != 1 || h.Now().Sub(p.At) > PendingLoginLife {
		return nil, bad(errors.New("the state is another one, or too old"))
	}
	return &p, nil
}

// freshLeeway is how far a provider's clock may lag.
const freshLeeway = 30 * time.Second

// verifyFresh returns an error unless the user has authenticated since the login at the provider began.
func (p *pendingLogin) verifyFresh(id *idp.Identity) error {
	if id.Authenticated.IsZero() || id.Authenticated.Before(p.At.Add(-freshLeeway)) {
		return login.ErrNotFresh
	}
	if id.Authenticated.Before(p.At) { // the clocks differ
		id.Authenticated = p.At
	}
	return nil
}
