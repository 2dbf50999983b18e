package filter

import (
	"encoding/base64"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

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

const (
	// tokenProtocol begins the sub-protocol by which a browser's WebSocket, that can't have an Authorization header, sends a bearer
	// token, in base64url without padding, to Kubernetes (k8s.io/apiserver/pkg/authentication/request/websocket).
	tokenProtocol  = "base64url.bearer.authorization.k8s.io."
	headerProtocol = "Sec-Websocket-Protocol"
)

// takeProtocolToken turns the token among the sub-protocols of a WebSocket into an Authorization header, so that it is verified, stored and
// removed as any other, and leaves the other sub-protocols: one of them is needed, since a browser wants one in the answer.
func takeProtocolToken(h http.Header) error {
	var token string
	var others []string
	for _, line := range h[headerProtocol] {
		for protocol := range strings.SplitSeq(line, ",") {
			protocol = strings.TrimSpace(protocol)
			encoded, is := strings.CutPrefix(protocol, tokenProtocol)
			switch raw, err := base64.RawURLEncoding.DecodeString(encoded); {
			case !is:
				others = append(others, protocol)
			case token != "":
				return apierrors.NewBadRequest("there are several bearer tokens among the sub-protocols")
			case err != nil || len(raw) == 0:
				return apierrors.NewBadRequest("the bearer token among the sub-protocols is not base64url without padding (RFC 4648, 5)")
			default:
				token = string(raw)
			}
		}
	}
	switch {
	case token == "":
		return nil
	case len(h["Authorization"]) > 0:
		return apierrors.NewBadRequest("there is a bearer token among the sub-protocols besides the Authorization header: send one of them")
	case len(others) == 0:
		return apierrors.NewBadRequest("the bearer token is the only sub-protocol: name the one to speak too, such as v5.channel.k8s.io")
	}
	h[headerProtocol] = []string{strings.Join(others, ", ")}
	h["Authorization"] = []string{"Bearer " + token}
	return nil
}
