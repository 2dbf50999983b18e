package terminal

import (
	"net/http"
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/status"
)

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
