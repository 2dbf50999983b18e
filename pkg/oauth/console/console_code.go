// Package console hands logins at identity providers over to the platform's console, by one-time codes.
package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/grant"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/token"
)

// CodeLife is how long the console may take to redeem a code.
const CodeLife = time.Minute

const purpose token.Purpose = "handover"

// code is the content of the code, which is sealed: the name of a session that waits to be claimed.
type code struct {
	Session  string    `json:"i"`
	Client   string    `json:"c"`
	Provider string    `json:"p"`
	Expires  time.Time `json:"e"`
}

// Codes issues and redeems the codes.
type Codes struct {
	Clients  *client.Registry
	Sessions *session.Store
	Tokens   *grant.Issuer
	Sealer   token.Sealer
	// OriginOf returns where a request comes from.
	OriginOf func(*http.Request) iam.Origin
	Now      func() time.Time
}

// Begin checks a redirect URI, which the console has to have registered (S40), and returns the login to be completed.
func (s *Codes) Begin(provider, uri, state string) (*formstate.ConsoleLogin, error) {
	if c := s.Clients.ConsoleAt(provider, uri); c == nil || len(state) > protocol.MaxNonce {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.redirect"), nil)
	}
	return &formstate.ConsoleLogin{Provider: provider, Redirect: uri, State: state}, nil
}

// Send opens a session that waits for the console, and redirects the browser to the console with its code. The browser gets no session
// of its own, so that a logout at the console is complete.
func (s *Codes) Send(r *http.Request, in *formstate.ConsoleLogin, result *iam.AuthnResult) (any, error) {
	c := s.Clients.ConsoleAt(in.Provider, in.Redirect)
	if c == nil {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.redirect"), nil)
	}
	now := s.Now()
	v := code{Session: s.Sessions.NewName(), Client: c.Name, Provider: in.Provider, Expires: now.Add(CodeLife)}
	waiting := session.Login{AuthnResult: *result, Origin: s.OriginOf(r), Name: v.Session, Client: c.Name}
	if err := s.Sessions.Approve(r.Context(), waiting); err != nil {
		return nil, err
	}
	sealed, err := s.Sealer.Seal(purpose, v)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(in.Redirect)
	if err != nil {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.redirect"), err)
	}
	q := u.Query()
	if in.Ticket {
		q.Set("ticket", sealed)
	} else {
		q.Set("code", sealed)
	}
	if in.State != "" {
		q.Set("state", in.State)
	}
	u.RawQuery = q.Encode()
	return protocol.Redirect(u.String()), nil
}

// Redeem answers the console with tokens for a code. Every fault of a code has the same answer.
func (s *Codes) Redeem(req *restful.Request, sealed string) (any, error) {
	t, err := s.claim(req.Request.Context(), req.PathParameter("provider"), sealed)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		klog.V(2).InfoS("A code of a login at an identity provider is refused", "reason", err.Error())
		return plainRefusal("Unauthorized: the login at the identity provider is not valid, or no longer; log in again."), nil
	}
	return t, nil
}

// claim returns the tokens of the session that a code names.
func (s *Codes) claim(ctx context.Context, provider, sealed string) (*grant.Response, error) {
	var v code
	if err := s.Sealer.Open(purpose, sealed, &v); err != nil {
		return nil, err
	}
	c := s.Clients.Client(v.Client)
	if c == nil || !c.Trusted || c.IsDenied() || v.Provider != provider || !s.Now().Before(v.Expires) {
		return nil, errors.New("the code is another provider's, or too old, or its client is not trusted any more, or is given nothing")
	}
	event := audit.From(ctx)
	event.SetLogin(audit.VerbLogin, "provider", provider)
	event.SetClient(c.Name)
	sess, u, refresh, err := s.Sessions.ClaimOpened(ctx, v.Session, c.Name)
	if err != nil {
		return nil, err
	}
	event.SetUser(sess.User, sess.UserUID)
	return s.Tokens.Issue(c, &grant.Session{Session: sess, User: u, Scopes: sess.Scopes, Refresh: refresh})
}

// plainRefusal is a response with status 401 in plain text.
type plainRefusal string

// Respond writes the response.
func (p plainRefusal) Respond(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("WWW-Authenticate", "Bearer")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(p))
}
