package relay

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
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

// StatusClientClosed is the status in logs of a request whose client did not wait for the answer. No client gets it.
const StatusClientClosed = 499

// AnsweredEnd answers a request that failed because its right or its client is gone, and reports whether that is why.
func AnsweredEnd(w http.ResponseWriter, r *http.Request) bool {
	if request.IsUpgrade(r.Header) {
		w.Header()["Connection"] = ConnClose
	}
	if end := stream.Ended(r.Context()); end != nil {
		web.WriteError(w, r, end)
		return true
	}
	if r.Context().Err() != nil {
		w.WriteHeader(StatusClientClosed)
		return true
	}
	return false
}

// Told returns the error that says itself what a client is told, such as that of the reader of its body, nil for any other.
func Told(err error) *apierrors.StatusError {
	var own *apierrors.StatusError
	if errors.As(err, &own) {
		return own
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", tooLarge.Limit))
	}
	return nil
}

// BadGateway is a 502 with a message.
func BadGateway(message string) *apierrors.StatusError {
	return status.RetryAfter(1, status.Errorf(http.StatusBadGateway, "%s", message))
}

// Whole is the writer for ordinary requests. ReverseProxy flushes after each write where it does not know the length; an answer that
// comes in one piece is sent in as few pieces as the buffers allow.
type Whole struct{ http.ResponseWriter }

// Flush does nothing.
func (Whole) Flush() {}

// Because gives a Status a reason.
func Because(reason metav1.StatusReason, err *apierrors.StatusError) *apierrors.StatusError {
	err.ErrStatus.Reason = reason
	return err
}
