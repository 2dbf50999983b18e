package device

import (
	"errors"
	"net/http"
	"time"

	restful "github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/formstate"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
	"kapis.dev/ks-apiserver/pkg/oauth/protocol"
)

// maxTyped is the longest text that is taken for a user code, in bytes.
const maxTyped = 64

// Page is the page on which users approve devices.
type Page struct {
	Devices   *Handler
	Logins    *browser.Logins
	LoginPage LoginPage
	Forms     *formstate.Forms
	Book      *page.Book
	Now       func() time.Time
}

// LoginPage asks the user to log in, and resumes the authorization request then.
type LoginPage interface {
	Ask(r *http.Request, a *protocol.AuthorizationRequest) (any, error)
}

// Serve answers GET /oauth/device: the form for the code. A code in the URL is only filled in (RFC 8628, 3.3.1 and 5.4).
func (p *Page) Serve(req *restful.Request) (any, error) {
	r := req.Request
	code := r.URL.Query().Get("user_code")
	if len(code) > maxTyped {
		code = ""
	}
	b, err := p.Logins.Of(r)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return p.LoginPage.Ask(r, &protocol.AuthorizationRequest{UserCode: code, MaxAge: -1, At: p.Now()})
	}
	return p.show(r, b, code, 0, nil)
}

// show answers with the form for the code.
func (p *Page) show(r *http.Request, b *browser.Login, code string, status int, say page.Message) (any, error) {
	sealed, set, err := p.Forms.Seal(r, formstate.Device, formstate.State{Session: b.Session.Name})
	if err != nil {
		return nil, err
	}
	d := page.Device{User: b.User.Name, Code: code}
	d.Form, d.Error = sealed, say
	return p.Book.Show(status, d, nil, set), nil
}

// ServeStep answers POST /oauth/device: the code, and then the answer.
func (p *Page) ServeStep(req *restful.Request) (any, error) {
	f, err := p.Forms.ReadPost(req)
	if err != nil {
		return nil, err
	}
	switch f["step"] {
	case "find":
		return p.find(req.Request, f)
	case "answer":
		return p.answer(req.Request, f)
	}
	return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.stale"), nil)
}

// find takes the code, and asks whether the device may log in.
func (p *Page) find(r *http.Request, f protocol.Form) (any, error) {
	b, _, err := p.Forms.OpenOwn(r, formstate.Device, f["form"])
	if err != nil {
		return nil, err
	}
	typed := f["user_code"]
	if len(typed) > maxTyped {
		typed = ""
	}
	code, c, scopes, err := p.Devices.TryUserCode(b, typed)
	if err != nil {
		return p.badCode(r, b, typed, err)
	}
	sealed, set, err := p.Forms.Seal(r, formstate.DeviceAnswer, formstate.State{Session: b.Session.Name, UserCode: code})
	if err != nil {
		return nil, err
	}
	d := page.DeviceConfirm{Client: c.Name, User: b.User.Name, Code: display(code), Scopes: page.ScopeWords(scopes)}
	d.Form = sealed
	return p.Book.Show(0, d, nil, set), nil
}

// badCode answers with the form again and says what is wrong with the code.
func (p *Page) badCode(r *http.Request, b *browser.Login, typed string, err error) (any, error) {
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code >= http.StatusInternalServerError {
		return nil, err
	}
	if e.Code == http.StatusTooManyRequests {
		return p.show(r, b, typed, e.Code, page.Say("error.limited"))
	}
	return p.show(r, b, typed, e.Code, page.Say("error.device"))
}

// answer approves or denies a device.
func (p *Page) answer(r *http.Request, f protocol.Form) (any, error) {
	b, state, err := p.Forms.OpenOwn(r, formstate.DeviceAnswer, f["form"])
	if err != nil {
		return nil, err
	}
	_, c, _, err := p.Devices.lookUp(state.UserCode)
	if err != nil {
		return nil, protocol.Problem(http.StatusBadRequest, page.Say("error.device"), err)
	}
	d := page.Notice{}
	switch f["answer"] {
	case "allow":
		err = p.Devices.Approve(r, b, state.UserCode)
		d.Title, d.Text = page.Say("device.allowed.title"), page.Say("device.allowed.text", c.Name)
	case "deny":
		err = p.Devices.Deny(r.Context(), b, state.UserCode)
		d.Title, d.Text = page.Say("device.denied.title"), page.Say("device.denied.text", c.Name)
	default:
		err = protocol.Problem(http.StatusBadRequest, page.Say("error.stale"), nil)
	}
	var e *protocol.Error
	if errors.As(err, &e) && e.Say == nil && e.Code < http.StatusInternalServerError {
		err = protocol.Problem(http.StatusConflict, page.Say("error.device.used"), err)
	}
	if err != nil {
		return nil, err
	}
	return p.Book.Show(0, d, nil), nil
}
