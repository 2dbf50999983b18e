package web

import (
	"context"
	"net/http"
)

type headKey struct{}

// AsHead returns a context that marks a request as a HEAD, for one that goes on as the corresponding GET.
func AsHead(ctx context.Context) context.Context { return context.WithValue(ctx, headKey{}, true) }

// IsHead reports whether only the head of the answer is wanted. net/http sends no more in any case; an endless answer must not begin.
func IsHead(r *http.Request) bool {
	return r.Method == http.MethodHead || r.Context().Value(headKey{}) != nil
}
