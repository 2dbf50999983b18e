package web

import (
	"io"
	"net/http"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
)

// WithRequest returns r for another http.Request: the path parameters stay.
func WithRequest(r *restful.Request, in *http.Request) *restful.Request {
	out := restful.NewRequest(in)
	for name, value := range r.PathParameters() {
		out.PathParameters()[name] = value
	}
	return out
}

// SetBody replaces the body of a request.
func SetBody(r *http.Request, text string) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
}
