package oauth

import (
	"net/http"
	"strings"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// signedOut answers that nobody is logged in here any more.
func (s *Server) signedOut(r *http.Request) (any, error) {
	if !wantsHTML(r) {
		return success(), nil
	}
	return s.show(0, page.Notice{Title: page.Say("out.title"), Text: page.Say("out.text"),
		Link: &page.Link{To: "login", Text: page.Say("out.again")}}, nil), nil
}

// askLogout answers with the page that asks the person of a browser whether to log out, which goes on with logoutBrowser.
func (s *Server) askLogout(r *http.Request, b *browser, l *logoutRequest) (any, error) {
	p := formState{Session: b.session.Name, Logout: l}
	sealed, set, err := s.sealForm(r, formLogout, p)
	if err != nil {
		return nil, err
	}
	d := page.Logout{Client: l.Client, User: b.user.Name}
	d.Form = sealed
	return s.show(0, d, append(p.targets(), s.upstreamSource(r, b)...), set), nil
}

// logoutConfirm takes what a person says to a logout.
func (s *Server) logoutConfirm(req *restful.Request) (any, error) {
	r := req.Request
	f, err := s.readPostedForm(req)
	if err != nil {
		return nil, err
	}
	b, p, err := s.openOwnForm(r, formLogout, f["form"])
	if err != nil {
		return nil, err
	}
	if f["answer"] != "yes" || p.Logout == nil {
		return s.show(0, page.Notice{Title: page.Say("stayed.title"), Text: page.Say("stayed.text"),
			Link: &page.Link{To: "account", Text: page.Say("stayed.account")}}, nil), nil
	}
	return s.logoutAndClearCookies(r, b, p.Logout)
}

// logoutAndClearCookies logs a browser out, and takes its cookies away.
func (s *Server) logoutAndClearCookies(r *http.Request, b *browser, l *logoutRequest) (any, error) {
	v, err := s.logoutBrowser(r, b, l, nil)
	if err != nil {
		return nil, err
	}
	return withCookies{[]*http.Cookie{s.expired(r, sessionCookie), s.expired(r, loginCookie)}, v}, nil
}

// upstreamSource is the origin of the page that logs the person of a browser out at his identity provider: the form of a logout
// may lead there.
func (s *Server) upstreamSource(r *http.Request, b *browser) []string {
	e := s.deps.directory.Entry(b.session.Provider)
	if b.session.Provider == "" || e == nil {
		return nil
	}
	p, ok := e.Provider.(idp.Logout)
	if !ok {
		return nil
	}
	to, err := p.Logout(r.Context(), "", strings.TrimSuffix(s.Issuer, "/")+"/oauth/logout", "")
	if err != nil || source(to) == "" {
		return nil
	}
	return []string{source(to)}
}
