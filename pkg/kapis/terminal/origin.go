package terminal

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// checkUpgrade refuses a request that is no WebSocket's. Consoles ask so first, to learn whether they may open a terminal and whether the
// address is known: the answer must not be 404.
func checkUpgrade(r *http.Request) error {
	if !request.IsUpgrade(r.Header) || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return status.BadRequestf("a terminal is a WebSocket: send the headers Connection: Upgrade and Upgrade: websocket (RFC 6455, 4.1)")
	}
	keys := r.Header.Values("Sec-Websocket-Key")
	if len(keys) != 1 || r.Header.Get("Sec-Websocket-Version") != "13" {
		return status.BadRequestf("a terminal is a WebSocket of the version 13: send it as Sec-WebSocket-Version, and one Sec-WebSocket-Key" +
			" (RFC 6455, 4.1)")
	}
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0])); err != nil || len(raw) != 16 {
		return status.BadRequestf("the header Sec-WebSocket-Key has to be 16 bytes in base64 (RFC 6455, 4.1)")
	}
	return nil
}

// checkOrigin refuses a WebSocket of a page that may not open terminals. Browsers say of each request whether it is the page's own
// site that it goes to (Sec-Fetch-Site, W3C Fetch Metadata), and a console passes that on with the credentials that it adds: so a
// foreign page can't open a terminal through it. Where origins are listed, no page of another origin can. (That a cookie alone
// authenticates pages of this server only is filter.Upgrade's.)
func checkOrigin(h http.Header, allowed []string) error {
	origin := h.Get("Origin")
	listed := slices.ContainsFunc(allowed, func(o string) bool { return strings.EqualFold(o, origin) })
	switch {
	case len(h["Origin"]) > 1:
		return status.Forbiddenf("the request names several origins")
	case listed:
		return nil
	case origin != "" && len(allowed) > 0:
		return status.Forbiddenf("pages of %.200q may not open terminals here: terminal.allowedOrigins names those that may", origin)
	case strings.EqualFold(h.Get("Sec-Fetch-Site"), "cross-site"):
		return status.Forbiddenf("a page of another site may not open terminals here: terminal.allowedOrigins names those that may")
	}
	return nil
}
