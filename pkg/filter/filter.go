// Package filter has the filters that a request passes through.
package filter

import (
	"net/http"
)

// Filter is one step: it lets a request go on to next, perhaps with more in its context, or answers it and stops.
type Filter func(next http.Handler) http.Handler

// Chain puts filters before h, in the order in which a request passes them.
func Chain(h http.Handler, filters ...Filter) http.Handler {
	for i := len(filters) - 1; i >= 0; i-- {
		h = filters[i](h)
	}
	return h
}
