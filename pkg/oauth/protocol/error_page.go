package protocol

import (
	"errors"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/oauth/page"
)

// Problem returns an error that a page explains to the user with a message of the table of words.
func Problem(code int, say page.Message, cause error) *Error {
	e := &Error{Code: code, Name: InvalidRequest, Say: say, Cause: cause,
		Description: "The request can't be answered; open the page in a browser to read why."}
	switch {
	case code >= http.StatusInternalServerError:
		e.Name, e.RetryAfter = Unavailable, iam.RetryAfter
	case code == http.StatusTooManyRequests:
		e.RetryAfter = iam.RetryAfter
	}
	return e
}

// AsPage returns an error that is written as a page.
func AsPage(book *page.Book, err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = Failure(err)
	}
	shown := *e
	shown.html = &page.Response{Book: book, Code: e.Code, Data: page.Notice{
		Title: page.Say("error.title"), Text: e.words(), Detail: e.detail(), Failed: true,
		Link: &page.Link{To: "login", Text: page.Say("restart")},
	}}
	return &shown
}

// words returns the message of the page.
func (e *Error) words() page.Message {
	switch {
	case e.Say != nil:
		return e.Say
	case e.Code == http.StatusTooManyRequests:
		return page.Say("error.limited")
	case e.Code == http.StatusServiceUnavailable:
		return page.Say("error.later")
	case e.Code >= http.StatusInternalServerError:
		return page.Say("error.server")
	}
	return page.Say("error.request")
}

// detail returns the error name and description, for the developer of a client.
func (e *Error) detail() string {
	if e.Say != nil {
		return ""
	}
	return e.Name + ": " + e.Description
}

// WithCookie returns a function that adds a cookie to a handler's result; an error becomes a page that sets it too.
func WithCookie(book *page.Book, set *http.Cookie) func(any, error) (any, error) {
	return func(v any, err error) (any, error) {
		if err != nil {
			v = errorResponse{AsPage(book, err)}
		}
		return page.WithCookies{Set: []*http.Cookie{set}, Then: v}, nil
	}
}

// errorResponse writes an error where a value is expected.
type errorResponse struct{ e *Error }

// Respond writes the error.
func (a errorResponse) Respond(w http.ResponseWriter, r *http.Request) { a.e.Write(w, r) }
