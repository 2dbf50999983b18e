package filter

import (
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// tokenCookie is the cookie in which the console stores the access token.
const tokenCookie = "token"

// Upgrade refuses requests for another protocol (WebSocket, SPDY) that must not be granted:
//
//   - with a body, a Transfer-Encoding or an Expect: 400. The bytes after the header would belong to
//     the body for one server, and to the new protocol for another.
//   - from a page of another site, with only a cookie: 403. Browsers send cookies with a WebSocket of any
//     site, so only the Origin shows which page opened it (RFC 6455, 10.2).
//
// Both close the connection.
func Upgrade(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !request.IsUpgrade(r.Header) {
			next.ServeHTTP(w, r)
			return
		}
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Expect") != "" {
			w.Header().Set("Connection", "close")
			web.WriteError(w, r, apierrors.NewBadRequest("a request to upgrade the connection may have neither a body nor an Expect header"))
			return
		}
		if crossSite(r) {
			w.Header().Set("Connection", "close")
			web.WriteError(w, r, apierrors.NewForbidden(schema.GroupResource{}, "", errCrossSite))
			return
		}
		next.ServeHTTP(w, r)
	})
}

const errCrossSite = constError("a cookie opens a WebSocket for pages of this server only: send an Authorization header instead")

type constError string

func (e constError) Error() string { return string(e) }

// crossSite reports whether the cookie is the only credential of r and its Origin is not this server. An Origin that is absent proves
// nothing, and counts as foreign.
func crossSite(r *http.Request) bool {
	if len(r.Header["Authorization"]) > 0 || !hasTokenCookie(r.Header["Cookie"]) {
		return false
	}
	origins := r.Header["Origin"]
	if len(origins) != 1 {
		return true
	}
	u, err := url.Parse(origins[0])
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}
