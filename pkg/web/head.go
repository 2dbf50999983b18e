package web

import (
	"context"
	"net/http"
)

type headKey struct{}

// AsHead returns a context that remembers that its request is a HEAD, for one that goes on as the GET
// that it stands for.
func AsHead(ctx context.Context) context.Context { return context.WithValue(ctx, headKey{}, true) }

// IsHead tells whether only the head of the answer is wanted. net/http sends no more in any case; an
// answer that has no end must not begin.
func IsHead(r *http.Request) bool {
	return r.Method == http.MethodHead || r.Context().Value(headKey{}) != nil
}
