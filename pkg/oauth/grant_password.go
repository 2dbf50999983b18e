package oauth

import (
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/session"
)

// password is the grant of that name (RFC 6749, 4.3), which RFC 9700 forbids for all but the platform's
// own pages: a person's password is for trusted clients only.
func (s *Server) password(r *http.Request, c *Client, f form) (*tokens, error) {
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
	p, err := s.Entrance.Password(r.Context(), login.Attempt{
		Origin: s.originOf(r), Login: f["username"], Password: f["password"], Provider: f["provider"], Client: c.Name,
	})
	if err != nil {
		return nil, loginError(err)
	}
	if p.Pending && p.User == nil {
		return nil, refuse(invalidGrant, "Log in with a browser first: a second factor has to be set up.")
	}
	if p.Pending {
		return nil, s.askSecondFactor(c, p, scopes)
	}
	return s.openSession(r, c, p, scopes)
}

// openSession opens the session of a proof that is complete.
func (s *Server) openSession(r *http.Request, c *Client, p *iam.AuthnResult, scopes []string) (*tokens, error) {
	sess, refresh, err := s.Sessions.Open(r.Context(), session.Login{AuthnResult: *p, Origin: s.originOf(r), Client: c.Name, Scopes: scopes})
	if err != nil {
		return nil, err
	}
	return s.issue(c, &issued{session: sess, user: p.User, scopes: scopes, refresh: refresh})
}

// loginError is the answer to a login that failed. Unknown, wrong and disabled read the same, unless
// the password was right.
func loginError(err error) error {
	switch {
	case errors.Is(err, iam.ErrCredentials):
		return refuse(invalidGrant, "Invalid username or password.").because(err)
	case errors.Is(err, iam.ErrSuspended):
		return refuse(invalidGrant, "Account suspended.").because(err)
	case errors.Is(err, iam.ErrNotLinked):
		return refuse(invalidGrant, "No account is linked to this identity; ask the administrator.").because(err)
	case errors.Is(err, iam.ErrLimited):
		e := &Error{Code: http.StatusTooManyRequests, Name: invalidGrant, Description: "Rate limit exceeded.", cause: err}
		var wait *iam.ThrottledError
		if errors.As(err, &wait) {
			e.RetryAfter = (wait.After + time.Second - 1).Truncate(time.Second)
		}
		return e
	case errors.Is(err, iam.ErrUnknownProvider):
		return &Error{Code: http.StatusInternalServerError, Name: serverError, cause: err,
			Description: "The identity provider is not known."}
	}
	return err
}
