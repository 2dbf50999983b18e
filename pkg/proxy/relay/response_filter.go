package relay

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Values of headers, as a http.Header has them.
var (
	Nosniff   = []string{"nosniff"} // X-Content-Type-Options
	ConnClose = []string{"close"}   // Connection
)

// ErrUpgradeBody is the answer to a request to upgrade with a body.
var ErrUpgradeBody = apierrors.NewBadRequest("a request to upgrade the connection may not have a body")

// RefusedAnswer is an answer that is not passed to the client, with the reason for the log.
type RefusedAnswer struct{ Reason string }

// Error is for the log.
func (e *RefusedAnswer) Error() string { return e.Reason }

// ModifyAnswer decides whether the answer of another server may go to the client, and which of its headers. redirect decides about
// redirects. The errors are for the ErrorHandler.
func ModifyAnswer(res *http.Response, redirect func(res *http.Response, upgrade bool) error) error {
	h := res.Header
	upgrade := res.Request.Header.Get("Upgrade") != ""
	switch code := res.StatusCode; {
	case code == http.StatusSwitchingProtocols:
		if !upgrade {
			return &RefusedAnswer{Reason: "it switched protocols, which nobody asked for"}
		}
		return watchTunnel(res)
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		if err := redirect(res, upgrade); err != nil {
			return err
		}
	case upgrade && code < 400:
		// The client would take this for the beginning of the other protocol, or the next request for a part of it.
		return &RefusedAnswer{Reason: fmt.Sprintf("it answered a request to upgrade with %d", code)}
	}
	if upgrade {
		h["Connection"] = ConnClose
	}
	// Cookies, and headers about who may read answers, are for this server's own pages; a workload that a service leads to must not set
	// them for it. Nor may it name another address for this server.
	for k := range h {
		if speaksForOrigin(k) {
			delete(h, k)
		}
	}
	if res.Request.Header.Get("Audit-Id") != "" {
		delete(h, "Audit-Id") // it is the request's, and the filter that set it tells the client
	}
	h["X-Content-Type-Options"] = Nosniff
	WatchBody(res)
	return nil
}

// speaksForOrigin reports whether a browser applies a header of an answer to the whole server.
func speaksForOrigin(header string) bool {
	switch header {
	case "Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Clear-Site-Data", "Service-Worker-Allowed":
		return true
	}
	return strings.HasPrefix(header, "Access-Control-")
}

// Whole is the writer for ordinary requests, over a stream.ProgressWriter. ReverseProxy flushes after each write where it does not know the
// length; an answer that comes in one piece is sent in as few pieces as the buffers allow.
type Whole struct{ http.ResponseWriter }

// Flush does nothing.
func (Whole) Flush() {}
