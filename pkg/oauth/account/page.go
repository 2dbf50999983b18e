package account

import (
	"net/http"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/login"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// maxRows bounds the lists of the page.
const maxRows = 100

// accountDone returns the message that the page shows after a change.
func accountDone(key string) page.Message {
	return map[string]page.Message{
		"password": page.Say("done.password"), "totp": page.Say("done.totp"), "passkey": page.Say("done.passkey"),
		"removed": page.Say("done.removed"), "ended": page.Say("done.ended"), "others": page.Say("done.others"),
		"revoked": page.Say("done.revoked"), "fresh": page.Say("done.fresh"),
	}[key]
}

// Serve answers GET /oauth/account.
func (h *Handler) Serve(req *restful.Request) (any, error) {
	r := req.Request
	b, err := h.Logins.Of(r)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return h.LoginPage.Show(r, formstate.State{}, login.PageState{})
	}
	return h.show(r, b, 0, nil)
}

// show answers with the account page.
func (h *Handler) show(r *http.Request, b *browser.Login, code int, say page.Message) (any, error) {
	sealed, set, err := h.Forms.Seal(r, formstate.Account, formstate.State{Session: b.Session.Name})
	if err != nil {
		return nil, err
	}
	d := page.Account{User: b.User.Name, Display: b.User.DisplayName, Email: b.User.Email, MayKeys: h.Keys != nil,
		MayFactor: h.Factors.TOTP != nil, MayPasskey: h.Factors.Passkeys != nil, Days: keyDays(),
		MayChangePassword: h.Passwords != nil && b.Session.Provider == ""}
	d.Form, d.Error = sealed, say
	if d.Display == "" {
		d.Display = d.User
	}
	if r.Method == http.MethodGet {
		d.Done = accountDone(r.URL.Query().Get("done"))
	}
	h.listFactors(&d, b)
	h.listSessions(&d, b)
	return h.Book.Show(code, d, h.Logout.FormTargets(r, b), set), nil
}

// listFactors adds second factors and API keys to the page.
func (h *Handler) listFactors(d *page.Account, b *browser.Login) {
	e := h.Factors.Enrolled(b.User)
	d.TOTP, d.RecoveryLeft = e.TOTP, e.RecoveryLeft
	for _, k := range e.Passkeys {
		d.Passkeys = append(d.Passkeys, page.OwnPasskey{ID: k.ID, Name: k.Name, Created: k.Created, Used: k.Used})
	}
	if h.Keys == nil {
		return
	}
	for i, k := range h.Keys.List(b.User) {
		if i == maxRows {
			break
		}
		d.Keys = append(d.Keys, page.Key{Name: k.Name, Description: k.Description, ReadOnly: k.Scope == authz.ScopeRead,
			Expires: k.Expires, Used: k.Used})
	}
}

// listSessions adds the sessions to the page.
func (h *Handler) listSessions(d *page.Account, b *browser.Login) {
	for i, o := range h.Sessions.Of(b.User.UID) {
		own := o.Name == b.Session.Name
		d.Others = d.Others || !own && o.Parent != b.Session.Name
		if i < maxRows || own {
			d.Sessions = append(d.Sessions, page.Session{ID: o.Name, Client: o.Client, Device: deviceName(o.UserAgent), Source: o.Source,
				Created: o.Created, Used: o.Used, Current: own})
		}
	}
}
