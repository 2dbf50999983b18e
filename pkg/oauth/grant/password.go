package grant

import (
	"errors"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/iam"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// password is the grant of that name (RFC 6749, 4.3), for trusted clients only (RFC 9700, 2.4).
func (e *Endpoint) password(r *http.Request, c *client.Client, f protocol.Form) (*Response, error) {
	if !c.Trusted {
		return nil, protocol.Refuse(protocol.UnsupportedGrant, "This client may not use the password grant.")
	}
	if f["username"] == "" || f["password"] == "" {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The username or the password is missing.")
	}
	scopes, err := client.GrantScopes(c, f["scope"])
	if err != nil {
		return nil, err
	}
	p, err := e.Authenticator.Password(r.Context(), iamlogin.Attempt{
		Origin: e.OriginOf(r), Login: f["username"], Password: f["password"], Provider: f["provider"],
	})
	if err != nil {
		return nil, loginError(err)
	}
	if p.Pending && p.User == nil {
		return nil, protocol.Refuse(protocol.InvalidGrant, "Log in with a browser first: a second factor has to be set up.")
	}
	if p.Pending {
		return nil, e.askSecondFactor(c, p, scopes)
	}
	return e.openSession(r, c, p, scopes)
}

// openSession opens a session for a complete authentication result.
func (e *Endpoint) openSession(r *http.Request, c *client.Client, p *iam.AuthnResult, scopes []string) (*Response, error) {
	sess, refresh, err := e.Sessions.Open(r.Context(), session.Login{AuthnResult: *p, Origin: e.OriginOf(r), Client: c.Name, Scopes: scopes})
	if err != nil {
		return nil, err
	}
	return e.Issuer.Issue(c, &Session{Session: sess, User: p.User, Scopes: scopes, Refresh: refresh})
}

// loginError returns the error response for a failed login. Unknown, wrong and disabled are the same response, unless the password
// was right.
func loginError(err error) error {
	switch {
	case errors.Is(err, iam.ErrCredentials):
		return protocol.Refuse(protocol.InvalidGrant, "Invalid username or password.").Because(err)
	case errors.Is(err, iam.ErrSuspended):
		return protocol.Refuse(protocol.InvalidGrant, "Account suspended.").Because(err)
	case errors.Is(err, iam.ErrNotLinked):
		return protocol.Refuse(protocol.InvalidGrant, "No account is linked to this identity; ask the administrator.").Because(err)
	case errors.Is(err, iam.ErrLimited):
		e := &protocol.Error{Code: http.StatusTooManyRequests, Name: protocol.InvalidGrant, Description: "Rate limit exceeded.", Cause: err}
		var wait *iam.ThrottledError
		if errors.As(err, &wait) {
			e.RetryAfter = (wait.After + time.Second - 1).Truncate(time.Second)
		}
		return e
	case errors.Is(err, iam.ErrUnknownProvider):
		return &protocol.Error{Code: http.StatusInternalServerError, Name: protocol.ServerError, Cause: err,
			Description: "The identity provider is not known."}
	}
	return err
}
