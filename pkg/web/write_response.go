// Package web adapts functions that return a value or an error to go-restful, and writes both.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// WriteJSON writes v with the status code.
func WriteJSON(w http.ResponseWriter, r *http.Request, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		WriteError(w, r, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	if r.Method != http.MethodHead {
		defer WriteDeadline(w, r, int64(len(body)))()
		_, _ = w.Write(body) // the client is gone
	}
}

// WriteError writes err as a metav1.Status (Kubernetes API conventions, "Response Status Kind"). An error without a status is logged and
// answered with 500 and no detail, because its text may have something that the caller must not see.
func WriteError(w http.ResponseWriter, r *http.Request, err error) {
	s := Status(err)
	if s.Code == http.StatusInternalServerError {
		klog.ErrorS(err, "request failed", "method", r.Method, "path", r.URL.Path)
	}
	h := w.Header()
	if s.Code == http.StatusUnauthorized && h.Get("WWW-Authenticate") == "" {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
	WriteJSON(w, r, int(s.Code), s)
}

// Status returns the Status that a client gets for err.
func Status(err error) *metav1.Status {
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &api):
		s := api.Status()
		s.Kind, s.APIVersion = "Status", "v1"
		if s.Code == 0 {
			s.Code = http.StatusInternalServerError
		}
		return &s
	case errors.Is(err, context.DeadlineExceeded):
		return kinded(apierrors.NewTimeoutError("the request took too long", 1))
	case errors.Is(err, context.Canceled):
		return kinded(apierrors.NewTimeoutError("the client closed the request", 0))
	}
	return kinded(apierrors.NewInternalError(errors.New("see the server's log")))
}

func kinded(err *apierrors.StatusError) *metav1.Status {
	s := err.ErrStatus
	s.Kind, s.APIVersion = "Status", "v1"
	return &s
}
