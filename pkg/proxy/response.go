package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

var (
	nosniff   = []string{"nosniff"}
	connClose = []string{"close"}

	errUpgradeBody = apierrors.NewBadRequest("a request to upgrade the connection may not have a body")
)

// refusedAnswer is an answer that is not passed to the client, with the reason for the log.
type refusedAnswer struct{ reason string }

func (e *refusedAnswer) Error() string { return e.reason }

// modifyResponse decides whether an answer may go to the client, and which of its headers. Its errors end in answerError.
func modifyResponse(res *http.Response) error {
	h := res.Header
	upgrade := res.Request.Header.Get("Upgrade") != ""
	switch code := res.StatusCode; {
	case code == http.StatusSwitchingProtocols:
		if !upgrade {
			return &refusedAnswer{"it switched protocols, which nobody asked for"}
		}
		return watchTunnel(res)
	case code >= 300 && code < 400 && code != http.StatusNotModified:
		if err := checkRedirect(res, upgrade); err != nil {
			return err
		}
	case upgrade && code < 400:
		// The client would take this for the beginning of the other protocol, or the next request for a part of it.
		return &refusedAnswer{fmt.Sprintf("it answered a request to upgrade with %d", code)}
	}
	if upgrade {
		h["Connection"] = connClose
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
	h["X-Content-Type-Options"] = nosniff
	watchBody(res)
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

// checkRedirect lets one redirect pass, which kube-apiserver itself makes: to the same path with a slash at its end, before the pages of
// a service. Any other could send the client, and its credentials, to any address that the server at the other end chooses.
func checkRedirect(res *http.Response, upgrade bool) error {
	refused := &refusedAnswer{fmt.Sprintf("it answered with a redirect (%d)", res.StatusCode)}
	req := res.Request
	location, err := url.Parse(res.Header.Get("Location"))
	if err != nil || upgrade || req.Method != http.MethodGet && req.Method != http.MethodHead {
		return refused
	}
	sameHost := location.Host == "" && location.Scheme == "" || location.Host == req.URL.Host && location.Scheme == req.URL.Scheme
	if !sameHost || location.User != nil || location.Opaque != "" || location.Path != req.URL.Path+"/" ||
		location.RawQuery != req.URL.RawQuery {
		return refused
	}
	info := request.InfoFrom(req.Context())
	to := url.URL{Path: info.Path + "/", RawQuery: location.RawQuery}
	if info.Cluster != "" {
		to.Path = "/clusters/" + info.Cluster + to.Path
	}
	res.Header["Location"] = []string{to.String()}
	return nil
}

// statusClientClosed is the status in logs of a request whose client did not wait for the answer. No client gets it.
const statusClientClosed = 499

// answeredEnd answers a request that failed because its right or its client is gone, and reports whether that is why.
func answeredEnd(w http.ResponseWriter, r *http.Request) bool {
	if request.IsUpgrade(r.Header) {
		w.Header()["Connection"] = connClose
	}
	if end := stream.Ended(r.Context()); end != nil {
		web.WriteError(w, r, end)
		return true
	}
	if r.Context().Err() != nil {
		w.WriteHeader(statusClientClosed)
		return true
	}
	return false
}

// answerError answers if kube-apiserver could not, or if its answer must not be passed on. The error itself is only logged: errors name
// addresses.
func answerError(w http.ResponseWriter, r *http.Request, err error) {
	if answeredEnd(w, r) {
		return
	}
	status := statusOf(err)
	if status.ErrStatus.Code >= http.StatusInternalServerError {
		klog.ErrorS(err, "passing a request to kube-apiserver failed", "method", r.Method, "path", r.URL.Path)
	}
	web.WriteError(w, r, status)
}

func statusOf(err error) *apierrors.StatusError {
	var (
		tooLarge *http.MaxBytesError
		refused  *refusedAnswer
		op       *net.OpError
		netErr   net.Error
		own      *apierrors.StatusError
	)
	switch {
	case errors.As(err, &own): // of the client's body, by its reader
		return own
	case errors.As(err, &tooLarge):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", tooLarge.Limit))
	case errors.As(err, &refused):
		return badGateway("kube-apiserver, or a server behind it, gave an answer that is not passed on: " + refused.reason)
	case errors.As(err, &op) && op.Op == "dial":
		s := apierrors.NewServiceUnavailable("kube-apiserver can't be reached: try again shortly")
		s.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return s
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout(),
		strings.Contains(err.Error(), "timeout awaiting response headers"): // HTTP/2's has no type
		return apierrors.NewTimeoutError("kube-apiserver took too long to answer", 1)
	}
	return badGateway("kube-apiserver did not answer as it should: try again shortly")
}

func badGateway(message string) *apierrors.StatusError {
	return status.RetryAfter(1, status.Errorf(http.StatusBadGateway, "%s", message))
}

// whole is the writer for ordinary requests. ReverseProxy flushes after each write where it does not know the length; an answer that
// comes in one piece is sent in as few pieces as the buffers allow.
type whole struct{ http.ResponseWriter }

// Flush does nothing.
func (whole) Flush() {}
