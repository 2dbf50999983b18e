package oauth

import (
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	// mfaLife is how long a person may look for his second factor.
	mfaLife = 5 * time.Minute

	purposeMFA token.Purpose = "second factor"
)

// pendingProof is a proof that lacks its second factor. It travels through the client, sealed: nothing is stored.
type pendingProof struct {
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
	// Credential has a change of the password end it.
	Credential string    `json:"k,omitempty"`
	Expires    time.Time `json:"e"`
}

// askSecondFactor is the answer of the password grant to a password that is right and not enough.
func (s *Server) askSecondFactor(c *Client, p *iam.AuthnResult, scopes []string) error {
	sealed, err := s.seal(purposeMFA, &pendingProof{
		User: p.User.Name, UID: p.User.UID, Client: c.Name, Scopes: scopes, Provider: p.Provider, Subject: p.Subject, Groups: p.Groups,
		Hint: p.Hint, Refresh: p.Refresh, Methods: p.Methods, At: p.At, Credential: p.User.Credential(), Expires: s.Now().Add(mfaLife),
	})
	if err != nil {
		return err
	}
	e := refuse("mfa_required", "A second factor is needed: send its code as otp and the mfa_token as token, with grant_type=otp.")
	e.MFAToken = sealed
	return e
}

// secondFactor is the grant that completes a login by password (grant_type=otp, as the console sends it).
func (s *Server) secondFactor(r *http.Request, c *Client, f form) (*tokens, error) {
	if !c.Trusted {
		return nil, refuse(unsupportedGrant, "This client may not use the password grant.")
	}
	if f["otp"] == "" || f["token"] == "" {
		return nil, refuse(invalidRequest, "The otp or the token is missing.")
	}
	var p pendingProof
	if err := s.open(purposeMFA, f["token"], &p); err != nil {
		return nil, refuse(invalidGrant, "The login is not valid; start again.").because(err)
	}
	u := s.Sessions.Users.ByName(p.User)
	if p.Client != c.Name || !s.Now().Before(p.Expires) || u == nil || u.UID != p.UID || u.Credential() != p.Credential {
		return nil, refuse(invalidGrant, "The login is not valid, or took too long; start again.")
	}
	proof := &iam.AuthnResult{User: u, Provider: p.Provider, Subject: p.Subject, Groups: p.Groups, Hint: p.Hint, Refresh: p.Refresh,
		Methods: p.Methods, At: p.At, Pending: true}
	err := s.Entrance.SecondFactor(r.Context(), proof, f["otp"], s.originOf(r))
	if errors.Is(err, iam.ErrCredentials) {
		return nil, refuse(invalidGrant, "The code of the second factor is not right.").because(err)
	}
	if err != nil {
		return nil, loginError(err)
	}
	if proof.Pending {
		return nil, failure(errors.New("the second factor was accepted, and the proof still lacks it"))
	}
	return s.openSession(r, c, proof, p.Scopes)
}
