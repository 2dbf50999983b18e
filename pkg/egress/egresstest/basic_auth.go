// Package egresstest has what the tests of the packages share that make requests to external servers for users.
package egresstest

import (
	"net/http"
)

// BasicAuth passes requests with this account (RFC 7617) on to next, and challenges all others.
func BasicAuth(user, password string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
