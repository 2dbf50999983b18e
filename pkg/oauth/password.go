package oauth

import (
	"context"
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// ErrUnknownProvider says that no provider has the name that a login gives.
var ErrUnknownProvider = errors.New("there is no such identity provider")

// Providers check the passwords of users whom others vouch for, such as a directory.
type Providers interface {
	// Password returns the User of who has that name and password at a provider. Its errors are
	// ErrUnknownProvider, those of iam.Passwords, and others for a provider that can't tell.
	Password(ctx context.Context, provider, username, password string) (*iam.User, error)
}

// password is the grant of that name (RFC 6749, 4.3), which RFC 9700 forbids for all but the platform's
// own pages: a person's password is for trusted clients only.
func (s *Server) password(ctx context.Context, c *Client, f form) (*tokens, error) {
	if !c.Trusted {
		return nil, refuse(unsupportedGrant, "This client may not use the password grant.")
	}
	if f["username"] == "" || f["password"] == "" {
		return nil, refuse(invalidRequest, "The username or the password is missing.")
	}
	scopes, err := grantScopes(c, f["scope"])
	if err != nil {
		return nil, err
	}
	u, err := s.whose(ctx, f)
	if err != nil {
		return nil, loginError(err)
	}
	sess, refresh, err := s.Sessions.Open(ctx, iam.Login{Proof: iam.Proof{User: u, Provider: f["provider"]}, Client: c.Name, Scopes: scopes})
	if err != nil {
		return nil, err
	}
	return s.issue(c, sess, u, scopes, refresh)
}

func (s *Server) whose(ctx context.Context, f form) (*iam.User, error) {
	switch {
	case f["provider"] == "":
		return s.Passwords.Authenticate(ctx, f["username"], f["password"])
	case s.Providers == nil:
		return nil, ErrUnknownProvider
	}
	return s.Providers.Password(ctx, f["provider"], f["username"], f["password"])
}

// loginError is the answer to a login that failed. Unknown, wrong and disabled read the same, unless
// the password was right.
func loginError(err error) error {
	switch {
	case errors.Is(err, iam.ErrCredentials):
		return refuse(invalidGrant, "Invalid username or password.").because(err)
	case errors.Is(err, iam.ErrSuspended):
		return refuse(invalidGrant, "Account suspended.").because(err)
	case errors.Is(err, iam.ErrLimited):
		return &Error{Code: http.StatusTooManyRequests, Name: invalidGrant, Description: "Rate limit exceeded.", cause: err}
	case errors.Is(err, ErrUnknownProvider):
		return &Error{Code: http.StatusInternalServerError, Name: serverError, cause: err,
			Description: "The identity provider is not known."}
	}
	return err
}
