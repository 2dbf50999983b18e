package oauth

import (
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"

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
func (s *Server) askLogout(r *http.Request, b *browser, l *farewell) (any, error) {
	p := slip{Session: b.session.Name, Farewell: l}
	sealed, set, err := s.give(r, formLogout, p)
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
	f, err := s.posted(req)
	if err != nil {
		return nil, err
	}
	b, p, err := s.takeOwn(r, formLogout, f["form"])
	if err != nil {
		return nil, err
	}
	if f["answer"] != "yes" || p.Farewell == nil {
		return s.show(0, page.Notice{Title: page.Say("stayed.title"), Text: page.Say("stayed.text"),
			Link: &page.Link{To: "account", Text: page.Say("stayed.account")}}, nil), nil
	}
	return s.sayGoodbye(r, b, p.Farewell)
}

// sayGoodbye logs a browser out, and takes its cookies away.
func (s *Server) sayGoodbye(r *http.Request, b *browser, l *farewell) (any, error) {
	v, err := s.logoutBrowser(r, b, l, nil)
	if err != nil {
		return nil, err
	}
	return withCookies{[]*http.Cookie{s.expired(r, sessionCookie), s.expired(r, loginCookie)}, v}, nil
}

// upstreamSource is the origin of the page that logs the person of a browser out at his identity provider: the form of a logout
// may lead there.
func (s *Server) upstreamSource(r *http.Request, b *browser) []string {
	e := s.desk.directory.Entry(b.session.Provider)
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
