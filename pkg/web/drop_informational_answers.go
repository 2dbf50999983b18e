package web

import (
	"context"
	"net/http"
	"net/http/httptrace"
)

// FinalAnswers is the transport of every proxy: it passes no informational answers (103, 102) on. net/http then drops them, and bounds
// what comes of them. Where httputil.ReverseProxy gets them, a client that reads nothing stops, over HTTP/2, whoever else is answered by
// the same connection; and their headers are not those that ModifyResponse has seen.
//
// It announces no trailers of a request either. Their values arrive after ReverseProxy has made its copy, and never reach it, but a name
// that is none, which net/http takes from a client, would fail the request before it is sent, as if its target could not be reached.
type FinalAnswers struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t FinalAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.WithContext(untraced{r.Context()})
	r.Trailer = nil
	return t.RoundTripper.RoundTrip(r)
}

// untraced is a context without a trace, by which ReverseProxy gets informational answers.
type untraced struct{ context.Context }

// Value implements context.Context.
func (c untraced) Value(key any) any {
	v := c.Context.Value(key)
	if _, is := v.(*httptrace.ClientTrace); is {
		return nil
	}
	return v
}
