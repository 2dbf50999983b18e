package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/token"
)

// consoleCodeLife is how long the console may take to redeem what its browser brings.
const consoleCodeLife = time.Minute

const purposeConsoleCode token.Purpose = "handover"

// consoleLogin is a login at a provider on behalf of the platform's own console, which takes no part in OAuth: its page sends the
// browser to /oauth/login/{provider}, gets it back with a code of one use, and fetches the tokens with GET
// /oauth/callback/{provider}?code=... from its server.
type consoleLogin struct {
	Provider string `json:"p"`
	Redirect string `json:"r"`
	State    string `json:"s,omitempty"`
	// Ticket says that the code is called a ticket, as CAS does.
	Ticket bool `json:"t,omitempty"`
}

// consoleCode is what the code is made of: the name of a session that waits to be fetched.
type consoleCode struct {
	Session  string    `json:"i"`
	Client   string    `json:"c"`
	Provider string    `json:"p"`
	Expires  time.Time `json:"e"`
}

// beginConsoleLogin begins a login for the console. The browser is sent back to nowhere but what it registered (S40).
func (s *Server) beginConsoleLogin(provider, uri, state string) (*consoleLogin, error) {
	if c := s.consoleAt(provider, uri); c == nil || len(state) > maxNonce {
		return nil, problem(http.StatusBadRequest, page.Say("error.redirect"), nil)
	}
	return &consoleLogin{Provider: provider, Redirect: uri, State: state}, nil
}

// sendConsoleCode opens the console's session, which waits to be fetched, and sends the browser back with the code for it. There is
// no session of the browser: who logs out at the console is logged out.
func (s *Server) sendConsoleCode(r *http.Request, h *consoleLogin, p *iam.AuthnResult) (any, error) {
	c := s.consoleAt(h.Provider, h.Redirect)
	if c == nil {
		return nil, problem(http.StatusBadRequest, page.Say("error.redirect"), nil)
	}
	now := s.Now()
	v := consoleCode{Session: s.Sessions.NewName(), Client: c.Name, Provider: h.Provider, Expires: now.Add(consoleCodeLife)}
	if err := s.Sessions.Approve(r.Context(), session.Login{AuthnResult: *p, Origin: s.originOf(r), Name: v.Session, Client: c.Name}); err != nil {
		return nil, err
	}
	sealed, err := s.seal(purposeConsoleCode, v)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(h.Redirect)
	if err != nil {
		return nil, problem(http.StatusBadRequest, page.Say("error.redirect"), err)
	}
	q := u.Query()
	if h.Ticket {
		q.Set("ticket", sealed)
	} else {
		q.Set("code", sealed)
	}
	if h.State != "" {
		q.Set("state", h.State)
	}
	u.RawQuery = q.Encode()
	return redirect(u.String()), nil
}

// redeemConsoleCode gives the console the tokens. Everything that is wrong with the code is the same answer.
func (s *Server) redeemConsoleCode(req *restful.Request, sealed string) (any, error) {
	t, err := s.claimConsoleSession(req.Request.Context(), req.PathParameter("provider"), sealed)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err != nil {
		klog.V(2).InfoS("A code of a login at an identity provider is refused", "reason", err.Error())
		return plainRefusal("Unauthorized: the login at the identity provider is not valid, or no longer; log in again."), nil
	}
	return t, nil
}

func (s *Server) claimConsoleSession(ctx context.Context, provider, sealed string) (*tokens, error) {
	var v consoleCode
	if err := s.open(purposeConsoleCode, sealed, &v); err != nil {
		return nil, err
	}
	c := s.Clients.Client(v.Client)
	if c == nil || !c.Trusted || v.Provider != provider || !s.Now().Before(v.Expires) {
		return nil, errors.New("the code is another provider's, or too old, or its client is not trusted any more")
	}
	sess, u, refresh, err := s.Sessions.Claim(ctx, v.Session, c.Name)
	if err != nil {
		return nil, err
	}
	return s.issue(c, &issued{session: sess, user: u, scopes: sess.Scopes, refresh: refresh})
}

// plainRefusal is a refusal in plain text.
type plainRefusal string

// Respond writes the refusal.
func (p plainRefusal) Respond(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("WWW-Authenticate", "Bearer")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write([]byte(p))
}
