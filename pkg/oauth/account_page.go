package oauth

import (
	"net/http"
	"strings"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// maxRows bounds the lists of the account page; whatever has more of something is over its own bound anyway.
const maxRows = 100

// accountDone are what the page can say of a change that it was called after.
func accountDone(key string) page.Message {
	return map[string]page.Message{
		"password": page.Say("done.password"), "totp": page.Say("done.totp"), "passkey": page.Say("done.passkey"),
		"removed": page.Say("done.removed"), "ended": page.Say("done.ended"), "others": page.Say("done.others"),
		"revoked": page.Say("done.revoked"), "fresh": page.Say("done.fresh"),
	}[key]
}

// account is a person's own page: how he logs in, and where he is logged in.
func (s *Server) account(req *restful.Request) (any, error) {
	r := req.Request
	b, err := s.loggedIn(r)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return s.loginPage(r, formState{}, loginState{})
	}
	return s.accountPage(r, b, 0, nil)
}

func (s *Server) accountPage(r *http.Request, b *browser, code int, say page.Message) (any, error) {
	sealed, set, err := s.sealForm(r, formAccount, formState{Session: b.session.Name})
	if err != nil {
		return nil, err
	}
	d := page.Account{User: b.user.Name, Display: b.user.DisplayName, Email: b.user.Email, MayKeys: s.deps.keys != nil,
		MayFactor: s.deps.totp != nil, MayPasskey: s.deps.passkeys != nil, MayChangePassword: s.deps.password != nil && b.session.Provider == "", Days: keyDays()}
	d.Form, d.Error = sealed, say
	if d.Display == "" {
		d.Display = d.User
	}
	if r.Method == http.MethodGet {
		d.Done = accountDone(r.URL.Query().Get("done"))
	}
	s.listFactors(&d, b)
	s.listSessions(&d, b)
	return s.show(code, d, s.upstreamSource(r, b), set), nil
}

func (s *Server) listFactors(d *page.Account, b *browser) {
	e := s.deps.enrolled(b.user)
	d.TOTP, d.RecoveryLeft = e.TOTP, e.RecoveryLeft
	for _, k := range e.Passkeys {
		d.Passkeys = append(d.Passkeys, page.OwnPasskey{ID: k.ID, Name: k.Name, Created: k.Created, Used: k.Used})
	}
	if s.deps.keys == nil {
		return
	}
	for i, k := range s.deps.keys.List(b.user) {
		if i == maxRows {
			break
		}
		d.Keys = append(d.Keys, page.Key{Name: k.Name, Description: k.Description, ReadOnly: k.Scope == authz.ScopeRead, Expires: k.Expires, Used: k.Used})
	}
}

func (s *Server) listSessions(d *page.Account, b *browser) {
	for i, o := range s.Sessions.Of(b.user.UID) {
		own := o.Name == b.session.Name
		d.Others = d.Others || !own && o.Parent != b.session.Name
		if i < maxRows || own {
			d.Sessions = append(d.Sessions, page.Session{ID: o.Name, Client: o.Client, Device: deviceName(o.UserAgent), Source: o.Source,
				Created: o.Created, Used: o.Used, Current: own})
		}
	}
}

// deviceName makes a User-Agent short: the browser and the system, or the program's own name.
func deviceName(agent string) string {
	pick := func(pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			if strings.Contains(agent, pairs[i]) {
				return pairs[i+1]
			}
		}
		return ""
	}
	// The order matters: each of them claims to be those behind it too.
	browser := pick("Edg/", "Edge", "OPR/", "Opera", "Firefox/", "Firefox", "FxiOS/", "Firefox", "CriOS/", "Chrome", "Chrome/", "Chrome", "Safari/", "Safari")
	system := pick("Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "Windows", "Windows", "Mac OS X", "macOS", "CrOS", "ChromeOS", "Linux", "Linux")
	switch {
	case browser != "" && system != "":
		return browser + ", " + system
	case browser != "":
		return browser
	}
	name, _, _ := strings.Cut(agent, " ")
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "")
	}
	return name
}
