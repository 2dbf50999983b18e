package grant

import (
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// SecondFactorLife is how long a client may take to send the second factor.
	SecondFactorLife = 5 * time.Minute

	purposeMFA token.Purpose = "second factor"
)

// pendingLogin is a login that lacks its second factor. The client gets it sealed, so that nothing is stored.
type pendingLogin struct {
	User     string    `json:"u"`
	UID      string    `json:"i"`
	Client   string    `json:"c"`
	Scopes   []string  `json:"o,omitempty"`
	Provider string    `json:"p,omitempty"`
	Subject  string    `json:"s,omitempty"`
	Groups   []string  `json:"g,omitempty"`
	Hint     string    `json:"h,omitempty"`
	Refresh  string    `json:"r,omitempty"`
	Methods  []string  `json:"m,omitempty"`
	At       time.Time `json:"t"`
	// Credential is the user's credential: a login with another one is no longer valid.
	Credential string    `json:"k,omitempty"`
	Expires    time.Time `json:"e"`
}

// askSecondFactor returns the error response for a right password that needs a second factor too.
func (e *Endpoint) askSecondFactor(c *client.Client, p *iam.AuthnResult, scopes []string) error {
	p = p.Bounded()
	sealed, err := e.Sealer.Seal(purposeMFA, &pendingLogin{
		User: p.User.Name, UID: p.User.UID, Client: c.Name, Scopes: scopes, Provider: p.Provider, Subject: p.Subject, Groups: p.Groups,
		Hint: p.Hint, Refresh: p.Refresh, Methods: p.Methods, At: p.At, Credential: p.User.Credential(), Expires: e.Now().Add(SecondFactorLife),
	})
	if err != nil {
		return err
	}
	if len(sealed) > token.MaxSealed { // it would not be opened again
		return protocol.Refuse(protocol.InvalidGrant,
			"What the identity provider says of the user is too long for a login with a second factor; it has to give fewer groups.")
	}
	refusal := protocol.Refuse("mfa_required",
		"A second factor is needed: send its code as otp and the mfa_token as token, with grant_type=otp.")
	refusal.MFAToken = sealed
	return refusal
}

// otp is the grant of the second factor after the password grant (grant_type=otp, as the console sends it).
func (e *Endpoint) otp(r *http.Request, c *client.Client, f protocol.Form) (*Response, error) {
	if !c.Trusted {
		return nil, protocol.Refuse(protocol.UnsupportedGrant, "This client may not use the password grant.")
	}
	if f["otp"] == "" || f["token"] == "" {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The otp or the token is missing.")
	}
	var p pendingLogin
	if err := e.Sealer.Open(purposeMFA, f["token"], &p); err != nil {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The login is not valid; start again.").Because(err)
	}
	u, err := e.Sessions.Users.Lookup(p.User, p.UID)
	if err != nil {
		return nil, err
	}
	if p.Client != c.Name || !e.Now().Before(p.Expires) || u == nil || u.Credential() != p.Credential {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The login is not valid, or took too long; start again.")
	}
	result := &iam.AuthnResult{User: u, Provider: p.Provider, Subject: p.Subject, Groups: p.Groups, Hint: p.Hint, Refresh: p.Refresh,
		Methods: p.Methods, At: p.At, Pending: true}
	err = e.Authenticator.SecondFactor(r.Context(), result, f["otp"], e.OriginOf(r))
	if errors.Is(err, iam.ErrCredentials) {
		return nil, protocol.Refuse(protocol.InvalidGrant, "The code of the second factor is not right.").Because(err)
	}
	if err != nil {
		return nil, loginError(err)
	}
	if result.Pending {
		return nil, protocol.Failure(errors.New("the second factor was accepted, and the authentication result still lacks it"))
	}
	return e.openSession(r, c, result, p.Scopes)
}
