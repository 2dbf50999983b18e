package filter

import (
	"net/http"

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
//     site, so only the Origin shows which page opened it (RFC 6455, 10.2). The pages of ours count as this server's:
//     the console passes the browser's Origin on, with this server's Host.
//
// Both close the connection. A bearer token among the sub-protocols becomes an Authorization header.
func Upgrade(ours request.Origins) Filter {
	return func(next http.Handler) http.Handler { return upgrade(next, ours) }
}

func upgrade(next http.Handler, ours request.Origins) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !request.IsUpgrade(r.Header) {
			delete(r.Header, headerProtocol) // it means nothing here, and may have a token
			next.ServeHTTP(w, r)
			return
		}
		if r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Expect") != "" {
			w.Header().Set("Connection", "close")
			web.WriteError(w, r, apierrors.NewBadRequest("a request to upgrade the connection may have neither a body nor an Expect header"))
			return
		}
		if err := takeProtocolToken(r.Header); err != nil {
			w.Header().Set("Connection", "close")
			web.WriteError(w, r, err)
			return
		}
		if crossSite(r, ours) {
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

// crossSite reports whether the cookie is the only credential of r and its Origin is neither this server nor one of ours. An Origin that
// is absent proves nothing, and counts as foreign.
func crossSite(r *http.Request, ours request.Origins) bool {
	return len(r.Header["Authorization"]) == 0 && hasTokenCookie(r.Header["Cookie"]) && !ours.Match(r)
}
