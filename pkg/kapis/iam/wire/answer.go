package wire

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/idp"
	"kapis.dev/ks-apiserver/pkg/status"
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
		return status.RetryAfter(60, status.Errorf(http.StatusTooManyRequests, "too many failed attempts: try again later"))
	case errors.Is(err, iam.ErrBusy):
		return status.RetryAfter(int32(iam.RetryAfter/time.Second), status.Errorf(http.StatusTooManyRequests, "too many logins at once"))
	case errors.Is(err, iam.ErrSuspended):
		return status.Forbiddenf("the account is suspended")
	case errors.Is(err, iam.ErrNotLinked), errors.Is(err, iam.ErrUnknownProvider):
		return status.Forbiddenf("no user can be made for this identity")
	case errors.Is(err, iam.ErrUnavailable), errors.Is(err, idp.ErrUnavailable):
		return status.RetryAfter(int32(iam.RetryAfter/time.Second), status.Errorf(http.StatusServiceUnavailable,
			"this can't be done at the moment: try again"))
	}
	return err
}
