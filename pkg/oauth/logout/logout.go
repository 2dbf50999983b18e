// Package logout is the logout endpoint: it ends sessions here and at identity providers, and asks users for confirmation.
package logout

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
	"kapis.dev/ks-apiserver/pkg/oauth/tokeninfo"
	"kapis.dev/ks-apiserver/pkg/token"
)

const purposeLogout token.Purpose = "logout"

// Handler is the logout endpoint.
type Handler struct {
	Issuer    string
	Clients   *client.Registry
	Sessions  *session.Store
	Directory Directory
	Verifier  *token.Verifier
	Reader    *tokeninfo.Reader
	Sealer    token.Sealer
	Logins    *browser.Logins
	Forms     *formstate.Forms
	Book      *page.Book
}

// Directory has the identity providers.
type Directory interface {
	Entry(name string) *idp.Entry
}

// Serve ends the caller's session and that of the browser that it was opened in (OpenID Connect RP-Initiated Logout 1.0).
//
// The bearer token, which pages of other sites can't send, or an ID token as hint, proves which session is meant. Otherwise
// the user of the browser is asked, so that an image on a page can't log users out. It is no error if nobody is logged in.
func (h *Handler) Serve(req *restful.Request) (any, error) {
	r := req.Request
	f, err := readForm(r)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet && f["state"] != "" && len(f) == 1 {
		if l, ok := h.openState(f["state"]); ok {
			return h.redirect(r, l)
		}
	}
	b, err := h.Logins.Of(r)
	if err != nil {
		return nil, err
	}
	p, err := h.provenLogin(r, f)
	if err != nil {
		return nil, err
	}
	if p == nil || b != nil && b.User.UID != p.subject { // another user's hint does not prove who uses this browser
		if b == nil {
			return h.loggedOut(r)
		}
		return h.ask(r, b, h.Request(f["client_id"], f))
	}
	to := h.Request(p.client, f)
	if b != nil {
		return h.endBrowser(r, b, to, p.live)
	}
	if p.live == nil {
		return h.redirect(r, to)
	}
	upstream := ""
	if p.hinted { // a browser without its cookie; a bearer token comes from a program, which follows no redirect
		upstream = h.upstreamURL(r, p.live, to)
	}
	if err := h.end(r, p.live); err != nil {
		return nil, err
	}
	if upstream != "" {
		return protocol.Redirect(upstream), nil
	}
	return h.redirect(r, to)
}

// endBrowser ends a browser's session, and another one unless it is nil. It redirects to the identity provider's logout if it has one.
func (h *Handler) endBrowser(r *http.Request, b *browser.Login, l *formstate.LogoutRequest, also *session.Session) (any, error) {
	note(r, b.Session)
	upstream := h.upstreamURL(r, b.Session, l) // before the session ends, which has the hint
	if also != nil {
		if err := h.end(r, also); err != nil {
			return nil, err
		}
	}
	if err := h.Sessions.End(r.Context(), b.Session.Name, "logout"); err != nil {
		return nil, err
	}
	if upstream != "" {
		return protocol.Redirect(upstream), nil
	}
	return h.redirect(r, l)
}

// end ends a session and that of its browser; nil is no session.
func (h *Handler) end(r *http.Request, sess *session.Session) error {
	if sess == nil {
		return nil
	}
	note(r, sess)
	if err := h.Sessions.End(r.Context(), sess.Name, "logout"); err != nil || sess.Parent == "" {
		return err
	}
	return h.Sessions.End(r.Context(), sess.Parent, "logout")
}

// note says in the audit event of the request whose session ends.
func note(r *http.Request, sess *session.Session) {
	event := audit.From(r.Context())
	event.SetLogin(audit.VerbLogout, "", sess.Provider)
	event.SetClient(sess.Client)
	event.SetUser(sess.User, sess.UserUID)
}

// redirect answers with the redirect that a logout asks for, or else with the page that confirms it.
func (h *Handler) redirect(r *http.Request, l *formstate.LogoutRequest) (any, error) {
	if l.To == "" {
		return h.loggedOut(r)
	}
	return protocol.RedirectTo(l.To, "state", string(l.State)), nil
}

// upstreamURL returns the URL of the identity provider's logout; "" for none. Its failure does not prevent the logout here.
func (h *Handler) upstreamURL(r *http.Request, sess *session.Session, l *formstate.LogoutRequest) string {
	entry := h.Directory.Entry(sess.Provider)
	if sess.Provider == "" || entry == nil {
		return ""
	}
	provider, ok := entry.Provider.(idp.Logout)
	if !ok {
		return ""
	}
	to, err := h.RequestUpstreamURL(r, provider, sess, l)
	if err == nil {
		return to
	}
	klog.InfoS("A person is logged out here, and not at the identity provider", "provider", sess.Provider, "user", sess.User, "reason", err)
	return ""
}

// RequestUpstreamURL asks the provider for the URL of its logout.
func (h *Handler) RequestUpstreamURL(r *http.Request, provider idp.Logout, sess *session.Session, l *formstate.LogoutRequest) (string,
	error) {
	name := sess.Name
	if sess.Parent != "" {
		name = sess.Parent // the browser's session has the provider's hint
	}
	_, hint, err := h.Sessions.Upstream(r.Context(), name)
	if err != nil {
		return "", err
	}
	state, err := h.Sealer.Seal(purposeLogout, l)
	if err != nil {
		return "", err
	}
	return provider.Logout(r.Context(), hint, strings.TrimSuffix(h.Issuer, "/")+"/oauth/logout", state)
}

// openState opens the state with which the identity provider sends the browser back.
func (h *Handler) openState(state string) (*formstate.LogoutRequest, bool) {
	l := &formstate.LogoutRequest{}
	if h.Sealer.Open(purposeLogout, state, l) != nil {
		return nil, false
	}
	return l, l.To == "" || h.mayRedirectTo(l.Client, l.To)
}

// provenLogin is the login that a logout request refers to and proves.
type provenLogin struct {
	subject, client string
	live            *session.Session // nil if it has ended
	hinted          bool             // by an ID token
}

// provenLogin returns the login that the request refers to and proves; nil for none.
func (h *Handler) provenLogin(r *http.Request, f protocol.Form) (*provenLogin, error) {
	var p *provenLogin
	session := ""
	a, _, err := h.Reader.FromHeader(r, h.Verifier.Access)
	switch {
	case err == nil:
		p, session = &provenLogin{subject: a.Subject, client: a.Client}, a.Session
	case errors.Is(err, iam.ErrUnavailable):
		return nil, err
	default: // an invalid hint proves nothing
		if id, err := h.Verifier.Identity(f["id_token_hint"]); err == nil {
			p, session = &provenLogin{subject: id.Subject, client: id.Client, hinted: true}, id.Session
		}
	}
	if p == nil {
		return nil, nil
	}
	if f["client_id"] != "" && f["client_id"] != p.client {
		return nil, protocol.Refuse(protocol.InvalidRequest, "The client_id is not the one that the token was issued to.")
	}
	sess, _, err := h.Sessions.Find(r.Context(), session)
	if errors.Is(err, iam.ErrUnavailable) {
		return nil, err
	}
	if err == nil && sess.UserUID == p.subject {
		p.live = sess
	}
	return p, nil
}

// Request returns the logout request of a client; without a redirect unless the client registered its URL.
func (h *Handler) Request(client string, f protocol.Form) *formstate.LogoutRequest {
	l := &formstate.LogoutRequest{Client: client}
	if to := f["post_logout_redirect_uri"]; h.mayRedirectTo(client, to) && len(f["state"]) <= protocol.MaxState {
		l.To, l.State = to, []byte(f["state"])
	}
	return l
}

// mayRedirectTo reports whether a client registered a URL for after a logout.
func (h *Handler) mayRedirectTo(client, to string) bool {
	c := h.Clients.Client(client)
	if c == nil || !slices.Contains(c.PostLogoutRedirectURIs, to) {
		return false
	}
	_, err := url.Parse(to)
	return err == nil
}

// readForm returns the parameters, which are in the query of a GET and in the body of a POST.
func readForm(r *http.Request) (protocol.Form, error) {
	if r.Method != http.MethodPost {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, protocol.Refuse(protocol.InvalidRequest, "The query is not well-formed.")
		}
		return protocol.Once(values)
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return protocol.Form{}, nil
	}
	if r.Header.Get("Content-Type") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, protocol.MaxBody)
		return protocol.Form{}, nil
	}
	return protocol.ReadForm(r)
}

// success returns the answer to programs.
func success() any {
	return struct {
		Message string `json:"message"`
	}{"success"}
}
