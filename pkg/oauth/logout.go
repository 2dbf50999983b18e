package oauth

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/token"
)

// logoutRequest is what a logout asks for, once it is known to be good.
type logoutRequest struct {
	// Client is the client that the person comes from; "" for none.
	Client string `json:"c,omitempty"`
	// To is where he is sent afterwards: a URL that the client has registered; "" for nowhere.
	To    string `json:"t,omitempty"`
	State []byte `json:"s,omitempty"`
}

const purposeLogout token.Purpose = "logout"

// logout ends a login: the session of the caller and that of the browser in which it was opened, with every access and refresh token of
// both, on every replica (OpenID Connect RP-Initiated Logout 1.0). What proves the session is the bearer token, which a foreign
// page can't send, or an ID token of ours as hint. A browser that proves neither is asked, so that no image on a
// page logs anybody out; who is not logged in at all is logged out already, which is no error.
func (s *Server) logout(req *restful.Request) (any, error) {
	r := req.Request
	f, err := logoutForm(r)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet && f["state"] != "" && len(f) == 1 {
		if l, ok := s.openLogoutState(f["state"]); ok {
			return s.redirectAfterLogout(r, l)
		}
	}
	b, err := s.loggedIn(r)
	if err != nil {
		return nil, err
	}
	p, err := s.provenLogin(r, f)
	if err != nil {
		return nil, err
	}
	if p == nil || b != nil && b.user.UID != p.subject { // the hint of somebody else is no proof of who sits here
		if b == nil {
			return s.signedOut(r)
		}
		return s.askLogout(r, b, s.logoutRequest(f["client_id"], f))
	}
	to := s.logoutRequest(p.client, f)
	if b != nil {
		return s.logoutBrowser(r, b, to, p.live)
	}
	if p.live == nil {
		return s.redirectAfterLogout(r, to)
	}
	upstream := ""
	if p.hinted { // a browser that lost its cookie; who sends a bearer token is a program, and goes nowhere
		upstream = s.upstreamLogout(r, p.live, to)
	}
	if err := s.end(r, p.live); err != nil {
		return nil, err
	}
	if upstream != "" {
		return redirect(upstream), nil
	}
	return s.redirectAfterLogout(r, to)
}

// logoutBrowser ends a browser's session, and says goodbye: at the identity provider first, where it has a page for that. It is
// what the page of askLogout goes on with. also is the session that proved the logout; nil for none.
func (s *Server) logoutBrowser(r *http.Request, b *browser, l *logoutRequest, also *session.Session) (any, error) {
	upstream := s.upstreamLogout(r, b.session, l) // the hint is gone with the session
	if also != nil {
		if err := s.end(r, also); err != nil {
			return nil, err
		}
	}
	if err := s.Sessions.End(r.Context(), b.session.Name, "logout"); err != nil {
		return nil, err
	}
	if upstream != "" {
		return redirect(upstream), nil
	}
	return s.redirectAfterLogout(r, l)
}

// end ends a session and its browser's; none, where it is nil.
func (s *Server) end(r *http.Request, sess *session.Session) error {
	if sess == nil {
		return nil
	}
	if err := s.Sessions.End(r.Context(), sess.Name, "logout"); err != nil || sess.Parent == "" {
		return err
	}
	return s.Sessions.End(r.Context(), sess.Parent, "logout")
}

// redirectAfterLogout sends the person to where he is to go.
func (s *Server) redirectAfterLogout(r *http.Request, l *logoutRequest) (any, error) {
	if l.To == "" {
		return s.signedOut(r)
	}
	return answerTo(l.To, "state", string(l.State)), nil
}

// upstreamLogout returns the page of the identity provider that logs the person out there; "" for none. A provider that can't be asked
// keeps nobody from logging out here.
func (s *Server) upstreamLogout(r *http.Request, sess *session.Session, l *logoutRequest) string {
	entry := s.deps.directory.Entry(sess.Provider)
	if sess.Provider == "" || entry == nil {
		return ""
	}
	provider, ok := entry.Provider.(idp.Logout)
	if !ok {
		return ""
	}
	to, err := s.logoutPage(r, provider, sess, l)
	if err == nil {
		return to
	}
	klog.InfoS("A person is logged out here, and not at the identity provider", "provider", sess.Provider, "user", sess.User, "reason", err)
	return ""
}

func (s *Server) logoutPage(r *http.Request, provider idp.Logout, sess *session.Session, l *logoutRequest) (string, error) {
	name := sess.Name
	if sess.Parent != "" {
		name = sess.Parent // what the provider gave was given to the browser
	}
	_, hint, err := s.Sessions.Upstream(r.Context(), name)
	if err != nil {
		return "", err
	}
	state, err := s.seal(purposeLogout, l)
	if err != nil {
		return "", err
	}
	return provider.Logout(r.Context(), hint, strings.TrimSuffix(s.Issuer, "/")+"/oauth/logout", state)
}

// openLogoutState reads the state with which the identity provider sends the browser back.
func (s *Server) openLogoutState(state string) (*logoutRequest, bool) {
	l := &logoutRequest{}
	if s.open(purposeLogout, state, l) != nil {
		return nil, false
	}
	return l, l.To == "" || s.isPostLogoutRedirectURI(l.Client, l.To)
}

// provenLogin is what a logout proves: whose login is meant.
type provenLogin struct {
	subject, client string
	live            *session.Session // nil where it is over
	hinted          bool             // by an ID token
}

// provenLogin returns what the request proves; nil for nothing.
func (s *Server) provenLogin(r *http.Request, f form) (*provenLogin, error) {
	var p *provenLogin
	session := ""
	a, _, err := s.bearer(r, s.Verifier.Access)
	switch {
	case err == nil:
		p, session = &provenLogin{subject: a.Subject, client: a.Client}, a.Session
	case errors.Is(err, iam.ErrUnavailable):
		return nil, err
	default: // a hint that is not ours proves nothing
		if id, err := s.Verifier.Identity(f["id_token_hint"]); err == nil {
			p, session = &provenLogin{subject: id.Subject, client: id.Client, hinted: true}, id.Session
		}
	}
	if p == nil {
		return nil, nil
	}
	if f["client_id"] != "" && f["client_id"] != p.client {
		return nil, refuse(invalidRequest, "The client_id is not the one that the token was issued to.")
	}
	sess, _, err := s.Sessions.Find(r.Context(), session)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err == nil && sess.UserUID == p.subject {
		p.live = sess
	}
	return p, nil
}

// logoutRequest returns where to send the person: where he asks to go, if his client registered that very
// URL, else nowhere.
func (s *Server) logoutRequest(client string, f form) *logoutRequest {
	l := &logoutRequest{Client: client}
	if to := f["post_logout_redirect_uri"]; s.isPostLogoutRedirectURI(client, to) && len(f["state"]) <= maxState {
		l.To, l.State = to, []byte(f["state"])
	}
	return l
}

func (s *Server) isPostLogoutRedirectURI(client, to string) bool {
	c := s.Clients.Client(client)
	if c == nil || !slices.Contains(c.PostLogoutRedirectURIs, to) {
		return false
	}
	_, err := url.Parse(to)
	return err == nil
}

// logoutForm reads the parameters, from the query of a GET and the body of a POST.
func logoutForm(r *http.Request) (form, error) {
	if r.Method != http.MethodPost {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, refuse(invalidRequest, "The query is not well-formed.")
		}
		return once(values)
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return form{}, nil
	}
	if r.Header.Get("Content-Type") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxBody)
		return form{}, nil
	}
	return readForm(nil, r)
}

func success() any {
	return struct {
		Message string `json:"message"`
	}{"success"}
}

// redirect sends the browser on; after a POST it goes on with GET (RFC 9700, 4.12: never 307).
type redirect string

// Respond writes the redirection.
func (to redirect) Respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", string(to))
	w.Header().Set("Referrer-Policy", "no-referrer")
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	w.WriteHeader(http.StatusFound)
}
