package relay

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/stream"
	"kapis.dev/ks-apiserver/pkg/web"
)

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

// Because gives a Status a reason.
func Because(reason metav1.StatusReason, err *apierrors.StatusError) *apierrors.StatusError {
	err.ErrStatus.Reason = reason
	return err
}
