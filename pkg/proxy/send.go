package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/request"
)

// RoundTrip sends a request that a handler makes itself, as the caller whom the request's context
// names, and returns kube-apiserver's answer, whose body is to be closed. It implements
// http.RoundTripper.
//
// The request goes to the path that the context's request.Info has, in the synthetic group of the
// context's authz.Decision; so both must be about this very request, and it is refused where its own
// path is another or the decision does not allow it. Its headers go along as those of a client's
// request do, without any that claims an identity; RemoteAddr, where it is set, is the caller's.
//
// An error is a metav1.Status that may go to the caller; what went wrong exactly is logged. An answer
// of any code is no error. Watches, streams and upgrades are for ServeHTTP.
func (k *Kube) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := k.checkOwn(r); err != nil {
		closeBody(r)
		return nil, err
	}
	out := r.Clone(r.Context())
	k.address(out, r, false)
	res, err := k.own.RoundTrip(out) //nolint:bodyclose // whoever called closes it
	if err != nil {
		return nil, failure(r, err)
	}
	res.Request = out
	if err := modifyResponse(res); err != nil {
		_ = res.Body.Close()
		return nil, failure(r, err)
	}
	return res, nil
}

func (k *Kube) checkOwn(r *http.Request) error {
	info, err := checkPassage(r)
	switch {
	case err != nil:
		return err
	case r.URL.Path != info.Path || r.URL.RawPath != "":
		return fmt.Errorf("send a request to kube-apiserver: %s was authorized, not %s", info.Path, r.URL.Path)
	case !isVerbOf(info, r.Method):
		return fmt.Errorf("send a request to kube-apiserver: %s was authorized for %s, not the method %s", info.Path, info.Verb, r.Method)
	case request.IsUpgrade(r.Header) || isLong(info, r.URL):
		return fmt.Errorf("send a request to kube-apiserver: %s may go on for long", info.Path)
	}
	return nil
}

// isVerbOf tells whether a request with the method can be what info says.
func isVerbOf(info *request.Info, method string) bool {
	switch info.Verb {
	case "get", "list":
		return method == http.MethodGet
	case "create":
		return method == http.MethodPost
	case "update":
		return method == http.MethodPut
	case "patch":
		return method == http.MethodPatch
	case "delete", "deletecollection":
		return method == http.MethodDelete
	}
	return false
}

// closeBody does what http.RoundTripper promises of requests that are not sent.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// failure is what the caller is told when there is no answer for him.
func failure(r *http.Request, err error) error {
	if ctxErr := context.Cause(r.Context()); ctxErr != nil && !errors.Is(ctxErr, context.DeadlineExceeded) {
		return fmt.Errorf("send a request to kube-apiserver: %w", ctxErr)
	}
	status := statusOf(err)
	if status.ErrStatus.Code >= http.StatusInternalServerError {
		klog.ErrorS(err, "sending a request to kube-apiserver failed", "method", r.Method, "path", r.URL.Path)
	}
	return status
}
