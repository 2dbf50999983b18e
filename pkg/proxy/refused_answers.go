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

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// modifyResponse decides whether an answer may go to the client, and which of its headers. Its errors end in answerError.
func modifyResponse(res *http.Response) error { return relay.ModifyAnswer(res, checkRedirect) }

// checkCredentials refuses a 401 of kube-apiserver: the credentials that it does not take are this server's, and a client that is told so
// would throw its own away. A workload behind a proxy subresource may ask for credentials of its own.
func checkCredentials(res *http.Response) error {
	if res.StatusCode != http.StatusUnauthorized {
		return nil
	}
	if info := request.InfoFrom(res.Request.Context()); info.IsProxied() {
		return nil
	}
	return relay.BadGateway("kube-apiserver does not take this server's credentials: an administrator must renew them")
}

// checkRedirect lets one redirect pass, which kube-apiserver itself makes: to the same path with a slash at its end, before the pages of
// a service. Any other could send the client, and its credentials, to any address that the server at the other end chooses.
func checkRedirect(res *http.Response, upgrade bool) error {
	refused := &relay.RefusedAnswer{Reason: fmt.Sprintf("it answered with a redirect (%d)", res.StatusCode)}
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

// answerError answers if kube-apiserver could not, or if its answer must not be passed on. The error itself is only logged: errors name
// addresses.
func answerError(w http.ResponseWriter, r *http.Request, err error) {
	if relay.AnsweredEnd(w, r) {
		return
	}
	status := statusOf(err)
	if status.ErrStatus.Code >= http.StatusInternalServerError {
		klog.ErrorS(err, "passing a request to kube-apiserver failed", "method", r.Method, "path", r.URL.Path)
	}
	web.WriteError(w, r, status)
}

func statusOf(err error) *apierrors.StatusError {
	if told := relay.Told(err); told != nil {
		return told
	}
	var (
		refused *relay.RefusedAnswer
		op      *net.OpError
		netErr  net.Error
	)
	switch {
	case errors.As(err, &refused):
		return relay.BadGateway("kube-apiserver, or a server behind it, gave an answer that is not passed on: " + refused.Reason)
	case errors.As(err, &op) && op.Op == "dial":
		s := apierrors.NewServiceUnavailable("kube-apiserver can't be reached: try again shortly")
		s.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return s
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout(),
		strings.Contains(err.Error(), "timeout awaiting response headers"): // HTTP/2's has no type
		return apierrors.NewTimeoutError("kube-apiserver took too long to answer", 1)
	}
	return relay.BadGateway("kube-apiserver did not answer as it should: try again shortly")
}
