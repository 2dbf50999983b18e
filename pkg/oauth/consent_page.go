package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// askConsent answers with the page that asks whether the client may have the scopes, which then goes on with a.
func (s *Server) askConsent(r *http.Request, b *browser, c *Client, a *authorization) (any, error) {
	p := formState{Request: a, Session: b.session.Name}
	sealed, set, err := s.sealForm(r, formConsent, p)
	if err != nil {
		return nil, err
	}
	d := page.Consent{Client: a.Client, User: b.user.Name, Scopes: scopeWords(c.toAsk(a.Scopes)), Target: hostOf(a.RedirectURI)}
	d.Form = sealed
	return s.show(0, d, p.targets(), set), nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return address
	}
	return u.Host
}

// scopeWords says what scopes mean.
func scopeWords(scopes []string) []page.Message {
	known := map[string]page.Message{
		"openid": page.Say("scope.openid"), "profile": page.Say("scope.profile"), "email": page.Say("scope.email"),
		"groups": page.Say("scope.groups"), "offline_access": page.Say("scope.offline_access"), "api": page.Say("scope.api"),
	}
	var out []page.Message
	for _, s := range scopes {
		if m, ok := known[s]; ok {
			out = append(out, m)
			continue
		}
		out = append(out, page.Say("scope.other", s))
	}
	return out
}

// openOwnForm opens a form state that was given to whoever is logged in now.
func (s *Server) openOwnForm(r *http.Request, name formName, sealed string) (*browser, *formState, error) {
	p, err := s.openForm(r, name, sealed)
	if err != nil {
		return nil, nil, err
	}
	b, err := s.loggedIn(r)
	if err != nil {
		return nil, nil, err
	}
	if b == nil || b.session.Name != p.Session {
		return nil, nil, stale(errors.New("another person is logged in than the page was made for, or nobody"))
	}
	return b, p, nil
}

// consent takes what a person says to a client's request.
func (s *Server) consent(req *restful.Request) (any, error) {
	r := req.Request
	f, err := s.readPostedForm(req)
	if err != nil {
		return nil, err
	}
	b, p, err := s.openOwnForm(r, formConsent, f["form"])
	if err != nil {
		return nil, err
	}
	a := p.Request
	switch f["answer"] {
	case "allow":
		c := s.Clients.Client(a.Client)
		if c == nil {
			return nil, refuse(invalidClient, "The client does not exist any more.")
		}
		if err := s.Sessions.Consent(r.Context(), b.session.Name, c.Name, c.toAsk(a.Scopes)); err != nil {
			return nil, err
		}
		a.Agreed = b.session.Name
		return s.resumeAuthorization(r, b, a)
	case "deny":
		return s.redirectError(a, accessDenied, "The person said no."), nil
	case "switch":
		if err := s.Sessions.End(r.Context(), b.session.Name, "other user"); err != nil {
			return nil, err
		}
		a.LoginHint = ""
		a.Prompt = slices.DeleteFunc(a.Prompt, func(p string) bool { return p == promptLogin })
		return s.withSession(s.expired(r, sessionCookie))(s.askLogin(r, a))
	}
	return nil, problem(http.StatusBadRequest, page.Say("error.stale"), nil)
}
