package oauth

import (
	"errors"
	"net/http"

	"github.com/emicklei/go-restful/v3"

	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// maxTyped is as much of a user code as is taken, in bytes.
const maxTyped = 64

// devicePage asks for the code that a device shows. An address that has the code already fills it in, and no more
// (RFC 8628, 3.3.1 and 5.4).
func (s *Server) devicePage(req *restful.Request) (any, error) {
	r := req.Request
	code := r.URL.Query().Get("user_code")
	if len(code) > maxTyped {
		code = ""
	}
	b, err := s.loggedIn(r)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return s.askLogin(r, &authorization{UserCode: code, MaxAge: -1, At: s.Now()})
	}
	return s.deviceForm(r, b, code, 0, nil)
}

func (s *Server) deviceForm(r *http.Request, b *browser, code string, status int, say page.Message) (any, error) {
	sealed, set, err := s.sealForm(r, formDevice, formState{Session: b.session.Name})
	if err != nil {
		return nil, err
	}
	d := page.Device{User: b.user.Name, Code: code}
	d.Form, d.Error = sealed, say
	return s.show(status, d, nil, set), nil
}

// deviceStep takes the code, and then the answer.
func (s *Server) deviceStep(req *restful.Request) (any, error) {
	f, err := s.readPostedForm(req)
	if err != nil {
		return nil, err
	}
	switch f["step"] {
	case "find":
		return s.findDevice(req.Request, f)
	case "answer":
		return s.answerDevice(req.Request, f)
	}
	return nil, problem(http.StatusBadRequest, page.Say("error.stale"), nil)
}

func (s *Server) findDevice(r *http.Request, f form) (any, error) {
	b, _, err := s.openOwnForm(r, formDevice, f["form"])
	if err != nil {
		return nil, err
	}
	typed := f["user_code"]
	if len(typed) > maxTyped {
		typed = ""
	}
	code, c, scopes, err := s.tryUserCode(b, typed)
	if err != nil {
		return s.badCode(r, b, typed, err)
	}
	sealed, set, err := s.sealForm(r, formAnswer, formState{Session: b.session.Name, UserCode: code})
	if err != nil {
		return nil, err
	}
	d := page.DeviceConfirm{Client: c.Name, User: b.user.Name, Code: display(code), Scopes: scopeWords(scopes)}
	d.Form = sealed
	return s.show(0, d, nil, set), nil
}

// badCode shows the form again, with what is wrong with the code.
func (s *Server) badCode(r *http.Request, b *browser, typed string, err error) (any, error) {
	var e *Error
	if !errors.As(err, &e) || e.Code >= http.StatusInternalServerError {
		return nil, err
	}
	if e.Code == http.StatusTooManyRequests {
		return s.deviceForm(r, b, typed, e.Code, page.Say("error.limited"))
	}
	return s.deviceForm(r, b, typed, e.Code, page.Say("error.device"))
}

func (s *Server) answerDevice(r *http.Request, f form) (any, error) {
	b, p, err := s.openOwnForm(r, formAnswer, f["form"])
	if err != nil {
		return nil, err
	}
	_, c, _, err := s.deviceRequest(p.UserCode)
	if err != nil {
		return nil, problem(http.StatusBadRequest, page.Say("error.device"), err)
	}
	d := page.Notice{}
	switch f["answer"] {
	case "allow":
		err = s.approveDevice(r, b, p.UserCode)
		d.Title, d.Text = page.Say("device.allowed.title"), page.Say("device.allowed.text", c.Name)
	case "deny":
		err = s.denyDevice(r.Context(), b, p.UserCode)
		d.Title, d.Text = page.Say("device.denied.title"), page.Say("device.denied.text", c.Name)
	default:
		err = problem(http.StatusBadRequest, page.Say("error.stale"), nil)
	}
	var e *Error
	if errors.As(err, &e) && e.say == nil && e.Code < http.StatusInternalServerError {
		err = problem(http.StatusConflict, page.Say("error.device.used"), err)
	}
	if err != nil {
		return nil, err
	}
	return s.show(0, d, nil), nil
}
