package oauth

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// problem is an error that a person reads, in his words.
func problem(code int, say page.Message, cause error) *Error {
	e := &Error{Code: code, Name: invalidRequest, say: say, cause: cause,
		Description: "The request can't be answered; open the page in a browser to read why."}
	switch {
	case code >= http.StatusInternalServerError:
		e.Name, e.RetryAfter = unavailable, iam.RetryAfter
	case code == http.StatusTooManyRequests:
		e.RetryAfter = iam.RetryAfter
	}
	return e
}

// asPage returns an error that is written as a page.
func (s *Server) asPage(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = failure(err)
	}
	shown := *e
	shown.html = &htmlResponse{book: s.deps.book, code: e.Code, data: page.Notice{
		Title: page.Say("error.title"), Text: e.words(), Detail: e.detail(), Failed: true,
		Link: &page.Link{To: "login", Text: page.Say("restart")},
	}}
	return &shown
}

func (e *Error) words() page.Message {
	switch {
	case e.say != nil:
		return e.say
	case e.Code == http.StatusTooManyRequests:
		return page.Say("error.limited")
	case e.Code == http.StatusServiceUnavailable:
		return page.Say("error.later")
	case e.Code >= http.StatusInternalServerError:
		return page.Say("error.server")
	}
	return page.Say("error.request")
}

// detail is for the developer of a client.
func (e *Error) detail() string {
	if e.say != nil {
		return ""
	}
	return e.Name + ": " + e.Description
}

// loginFault says what went wrong with a login. Unknown, wrong and disabled are one text and one code (S50), unless
// the password was right. It returns false for an error that is nobody's to read.
func loginFault(err error, provider string) (code int, say page.Message, ok bool) {
	switch {
	case errors.Is(err, iam.ErrCredentials), errors.Is(err, idp.ErrCredentials):
		return http.StatusBadRequest, page.Say("error.wrong"), true
	case errors.Is(err, iam.ErrLimited):
		return http.StatusTooManyRequests, page.Say("error.limited"), true
	case errors.Is(err, iam.ErrBusy):
		return http.StatusServiceUnavailable, page.Say("error.busy"), true
	case errors.Is(err, iam.ErrSuspended):
		return http.StatusForbidden, page.Say("error.suspended"), true
	case errors.Is(err, iam.ErrNotLinked):
		return http.StatusForbidden, page.Say("error.unlinked"), true
	case errors.Is(err, iam.ErrUnknownProvider):
		return http.StatusBadRequest, page.Say("error.provider"), true
	case errors.Is(err, idp.ErrUnavailable):
		return http.StatusServiceUnavailable, page.Say("error.upstream", provider), true
	case errors.Is(err, errNotFresh):
		return http.StatusForbidden, page.Say("error.fresh", provider), true
	case errors.Is(err, idp.ErrRefused), errors.Is(err, idp.ErrGone):
		return http.StatusBadRequest, page.Say("error.refused", provider), true
	case errors.Is(err, iam.ErrUnavailable):
		return http.StatusServiceUnavailable, page.Say("error.later"), true
	}
	return 0, nil, false
}
