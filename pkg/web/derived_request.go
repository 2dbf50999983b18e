package web

import (
	"context"
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

type headKey struct{}

// AsHead returns a context that marks a request as a HEAD, for one that goes on as the corresponding GET.
func AsHead(ctx context.Context) context.Context { return context.WithValue(ctx, headKey{}, true) }

// IsHead reports whether only the head of the answer is wanted. net/http sends no more in any case; an endless answer must not begin.
func IsHead(r *http.Request) bool {
	return r.Method == http.MethodHead || r.Context().Value(headKey{}) != nil
}
