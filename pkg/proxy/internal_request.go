package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/request"
)

// RoundTrip sends a request that a handler makes itself, as the caller in the request's context, and returns kube-apiserver's answer,
// whose body is to be closed. It implements http.RoundTripper.
//
// The request goes to the path in the context's request.Info, in the synthetic group of the context's authz.Decision. Both must be about
// this very request: it is refused if its own path is another or the decision does not allow it. Its headers are sent as those of a
// client's request are, without any that states an identity; RemoteAddr, if it is set, is the caller's.
//
// An error is a metav1.Status that may go to the caller; its cause is logged. An answer of any code is no error. Watches, streams and
// upgrades are for ServeHTTP.
func (k *Kube) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := k.checkOwn(r); err != nil {
		closeBody(r)
		return nil, err
	}
	out := r.Clone(r.Context())
	k.address(out, r, false)
	res, err := k.own.RoundTrip(out) //nolint:bodyclose // the caller closes it
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
	info, err := checkAuthorized(r)
	switch {
	case err != nil:
		return err
	case r.URL.Path != info.Path || r.URL.RawPath != "":
		return fmt.Errorf("send a request to kube-apiserver: %s was authorized, not %s", info.Path, r.URL.Path)
	case !isVerbOf(info, r.Method):
		return fmt.Errorf("send a request to kube-apiserver: %s was authorized for %s, not the method %s", info.Path, info.Verb, r.Method)
	case request.IsUpgrade(r.Header) || relay.IsLong(info, r.URL):
		return fmt.Errorf("send a request to kube-apiserver: %s may go on for long", info.Path)
	}
	return nil
}

// isVerbOf reports whether a request with the method can be the one that info describes.
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

// closeBody closes the body, as http.RoundTripper promises for requests that are not sent.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// failure returns the caller's error if kube-apiserver gave no answer.
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
