// Package grant is the token endpoint: the grants that clients exchange for tokens, one file each, and the tokens' issuer.
package grant

import (
	"context"
	"errors"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"github.com/prometheus/client_golang/prometheus"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/oauth/tokeninfo"
	"kapis.dev/ks-apiserver/pkg/token"
)

// Grant is a grant type and what it does.
type Grant struct {
	Name string
	Do   func(r *http.Request, c *client.Client, f protocol.Form) (*Response, error)
}

// Endpoint is the token endpoint (RFC 6749, 3.2).
type Endpoint struct {
	ClientAuth *client.Authenticator
	Clients    *client.Registry
	Issuer     *Issuer
	Sessions   *session.Store
	// Authenticator checks passwords and second factors for the password grant.
	Authenticator Authenticator
	// PasswordGrant lets trusted clients take users' passwords (RFC 9700, 2.4).
	PasswordGrant bool
	// Audiences are the member clusters that access tokens are exchanged for; nil for none.
	Audiences func() []string
	Verifier  *token.Verifier
	Reader    *tokeninfo.Reader
	// Device is the grant of devices.
	Device Grant
	Sealer token.Sealer
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time
	// Requests counts requests by grant and result.
	Requests *prometheus.CounterVec
}

// Authenticator checks passwords and the codes of second factors.
type Authenticator interface {
	Password(context.Context, iamlogin.Attempt) (*iam.AuthnResult, error)
	SecondFactor(ctx context.Context, p *iam.AuthnResult, code string, o iam.Origin) error
}

// Grants returns the grants that are enabled. The discovery document lists their names.
func (e *Endpoint) Grants() []Grant {
	all := []Grant{
		{"authorization_code", e.authorizationCode},
		{"refresh_token", e.refresh},
		{"client_credentials", e.clientCredentials},
		e.Device,
	}
	if e.Audiences != nil {
		all = append(all, Grant{TokenExchange, e.exchange})
	}
	if e.PasswordGrant {
		all = append(all, Grant{"password", e.password}, Grant{"otp", e.otp})
	}
	return all
}

// leastLife is the least time that a session must have left for a refresh. The console refreshes at each call when expires_in is
// less, and would do so until the session ends.
const leastLife = 600 * time.Second

// Serve answers a token request.
func (e *Endpoint) Serve(req *restful.Request) (any, error) {
	return e.serve(req.Request, func() (protocol.Form, error) { return protocol.ReadForm(req.Request) })
}

// ServeProviderLogin answers the password grant of clients of release 3.4, whose path names the identity provider.
func (e *Endpoint) ServeProviderLogin(req *restful.Request) (any, error) {
	return e.serve(req.Request, func() (protocol.Form, error) {
		f, err := protocol.ReadForm(req.Request)
		if err != nil {
			return nil, err
		}
		for name, value := range map[string]string{"grant_type": "password", "provider": req.PathParameter("provider")} {
			if said := f[name]; said != "" && said != value {
				return nil, protocol.Refuse(protocol.InvalidRequest, "The parameter "+name+" says something else than the path.")
			}
			f[name] = value
		}
		return f, nil
	})
}

// serve answers a token request with the parameters that read returns.
func (e *Endpoint) serve(r *http.Request, read func() (protocol.Form, error)) (any, error) {
	name := "none"
	t, err := func() (*Response, error) {
		f, err := read()
		if err != nil {
			return nil, err
		}
		c, err := e.ClientAuth.Authenticate(r, f)
		if err != nil {
			return nil, err
		}
		event := audit.From(r.Context())
		event.SetClient(c.Name)
		if c.IsDenied() { // also one that has sessions of before
			return nil, protocol.Refuse(protocol.UnauthorizedClient, "This client is given nothing.")
		}
		if f["grant_type"] == "" {
			return nil, protocol.Refuse(protocol.InvalidRequest, "The grant_type is missing.")
		}
		for _, g := range e.Grants() {
			if g.Name == f["grant_type"] {
				name = g.Name
				event.SetLogin(describe(name))
				if refusal := e.Issuer.CheckResource(c, f); refusal != nil {
					return nil, refusal
				}
				return g.Do(r, c, f)
			}
		}
		return nil, protocol.Refuse(protocol.UnsupportedGrant, "The grant_type is not one that this server supports.")
	}()
	e.Requests.WithLabelValues(name, outcome(err)).Inc()
	if err != nil {
		return nil, err
	}
	return t, nil
}

// CheckResource refuses a resource other than the one that the client's access tokens are for (RFC 8707, 2).
func (i *Issuer) CheckResource(c *client.Client, f protocol.Form) *protocol.Error {
	switch resource := f["resource"]; {
	case resource == "", c.ForAPI() && (resource == i.URL || resource == i.Tokens.Audience):
		return nil
	case c.ForAPI():
		return protocol.Refuse(protocol.InvalidTarget,
			"Access tokens are for this server only: the resource has to be its issuer, or left out.")
	case resource == token.UserInfo(i.URL):
		return nil
	}
	return protocol.Refuse(protocol.InvalidTarget,
		"Access tokens of this client are for the userinfo endpoint only; the administrator lists api in its scopeRestrictions.")
}

// describe returns what the audit says of a grant: its verb and its method, and no provider.
func describe(grant string) (verb, method, provider string) {
	switch grant {
	case "refresh_token":
		return audit.VerbRefresh, "", ""
	case "authorization_code":
		return audit.VerbLogin, "code", ""
	case "client_credentials":
		return audit.VerbLogin, "client", ""
	case TokenExchange:
		return audit.VerbLogin, "exchange", ""
	case "password":
		return audit.VerbLogin, "password", ""
	case "otp":
		return audit.VerbLogin, "second-factor", ""
	}
	return audit.VerbLogin, "device", ""
}

// outcome returns the value of the label result.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	var e *protocol.Error
	if !errors.As(err, &e) {
		e = protocol.Failure(err)
	}
	if e.Code == http.StatusTooManyRequests {
		return "limited"
	}
	return e.Name
}
