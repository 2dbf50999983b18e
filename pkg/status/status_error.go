// Package status makes the errors that are a metav1.Status (Kubernetes API conventions, "Response Status Kind"), where apimachinery's own
// constructors would say more, or something else, than what happened.
package status

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// reasons are the reasons that Kubernetes gives for the codes that are used here. It has none for 502.
var reasons = map[int]metav1.StatusReason{
	http.StatusBadRequest:            metav1.StatusReasonBadRequest,
	http.StatusForbidden:             metav1.StatusReasonForbidden,
	http.StatusNotFound:              metav1.StatusReasonNotFound,
	http.StatusMethodNotAllowed:      metav1.StatusReasonMethodNotAllowed,
	http.StatusNotAcceptable:         metav1.StatusReasonNotAcceptable,
	http.StatusRequestTimeout:        metav1.StatusReasonTimeout,
	http.StatusRequestEntityTooLarge: metav1.StatusReasonRequestEntityTooLarge,
	http.StatusUnsupportedMediaType:  metav1.StatusReasonUnsupportedMediaType,
	http.StatusUnprocessableEntity:   metav1.StatusReasonInvalid,
	http.StatusTooManyRequests:       metav1.StatusReasonTooManyRequests,
	http.StatusBadGateway:            "BadGateway",
	http.StatusServiceUnavailable:    metav1.StatusReasonServiceUnavailable,
	http.StatusGatewayTimeout:        metav1.StatusReasonTimeout,
}

// Errorf returns the error with a code, the code's reason and a message for the caller.
func Errorf(code int, format string, args ...any) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: reasons[code], Message: fmt.Sprintf(format, args...),
	}}
}

// BadRequestf returns a 400 with a message for the caller.
func BadRequestf(format string, args ...any) error {
	return Errorf(http.StatusBadRequest, format, args...)
}

// Forbiddenf returns a 403 with a message for the caller.
func Forbiddenf(format string, args ...any) error {
	return Errorf(http.StatusForbidden, format, args...)
}

// NoResource returns the 404 of a path that leads nowhere, and of one that was not authorized as what it is served as.
func NoResource() error { return Errorf(http.StatusNotFound, "there is no resource at this path") }

// About adds to err the kind that it is about, and the name of the object if there is one.
func About(gr schema.GroupResource, name string, err *apierrors.StatusError) *apierrors.StatusError {
	d := details(err)
	d.Group, d.Kind, d.Name = gr.Group, gr.Resource, name
	return err
}

// RetryAfter adds to err the seconds after which the client may try again.
func RetryAfter(seconds int32, err *apierrors.StatusError) *apierrors.StatusError {
	details(err).RetryAfterSeconds = seconds
	return err
}

func details(err *apierrors.StatusError) *metav1.StatusDetails {
	if err.ErrStatus.Details == nil {
		err.ErrStatus.Details = &metav1.StatusDetails{}
	}
	return err.ErrStatus.Details
}
