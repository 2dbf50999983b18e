package wire

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Done is the answer to a write that has no other.
type Done struct {
	Message string `json:"message"`
}

// Success returns the answer to a write that has no other.
func Success() Done { return Done{"success"} }

// Private is an answer that no cache may store.
type Private struct{ Value any }

// Respond implements web.Responder.
func (p Private) Respond(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	web.WriteJSON(w, r, http.StatusOK, p.Value)
}

// list is the form of lists whose items are not objects of a kind.
type list[T any] struct {
	Items      []T `json:"items"`
	TotalItems int `json:"totalItems"`
}

// ListOf returns the answer that lists items.
func ListOf[T any](items []T) Private { return Private{list[T]{items, len(items)}} }

// Failure returns an error of package iam as a Status with its code.
func Failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, iam.ErrPolicy), errors.Is(err, iam.ErrExpiry), errors.Is(err, iam.ErrScope), errors.Is(err, iam.ErrTooMany):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, iam.ErrCredentials):
		return apierrors.NewBadRequest("incorrect old password")
	case errors.Is(err, iam.ErrLimited):
		return StatusError(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many failed attempts: try again later", 60)
	case errors.Is(err, iam.ErrBusy):
		return StatusError(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many logins at once",
			int32(iam.RetryAfter/time.Second))
	case errors.Is(err, iam.ErrSuspended):
		return Forbidden("the account is suspended")
	case errors.Is(err, iam.ErrNotLinked), errors.Is(err, iam.ErrUnknownProvider):
		return Forbidden("no user can be made for this identity")
	case errors.Is(err, iam.ErrUnavailable), errors.Is(err, idp.ErrUnavailable):
		return StatusError(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			"this can't be done at the moment: try again", int32(iam.RetryAfter/time.Second))
	}
	return err
}

// Forbidden returns a 403 with a message for the caller.
func Forbidden(message string) error {
	return StatusError(http.StatusForbidden, metav1.StatusReasonForbidden, message, 0)
}

// StatusError returns a Status error; retry is the seconds after which the client may try again, 0 for none.
func StatusError(code int32, reason metav1.StatusReason, message string, retry int32) error {
	s := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}
	if retry > 0 {
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: retry}
	}
	return &apierrors.StatusError{ErrStatus: s}
}
