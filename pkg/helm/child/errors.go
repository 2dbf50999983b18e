package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// refused gives an error a reason, unless it has one.
func refused(reason helm.Reason, err error) error {
	var e *helm.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &helm.Error{Reason: reason, Message: err.Error()}
}

// fault returns an error of a reason.
func fault(reason helm.Reason, format string, args ...any) error {
	return &helm.Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// explain returns an error with its reason.
func explain(err error) *helm.Error {
	var known *helm.Error
	if errors.As(err, &known) {
		return &helm.Error{Reason: known.Reason, Message: err.Error(), Transient: known.Transient}
	}
	e := &helm.Error{Reason: helm.ReasonFailed, Message: err.Error()}
	var network net.Error
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "because it is being terminated"):
		// The namespace is going: it may be there again later.
		e.Transient = true
	case helm.IsOverQuota(err):
		// It may be free again later, and no right would help.
		e.Transient = true
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		// A right that was given a moment ago counts a moment later.
		e.Reason, e.Transient = helm.ReasonForbidden, true
	case errors.Is(err, context.DeadlineExceeded):
		e.Reason, e.Transient = helm.ReasonTimeout, true
	case errors.As(err, &network):
		e.Reason, e.Transient = helm.ReasonUnreachable, true
	case apierrors.IsServerTimeout(err), apierrors.IsTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err),
		apierrors.IsInternalError(err), apierrors.IsConflict(err):
		e.Transient = true
	case strings.Contains(err.Error(), "failed calling webhook"):
		e.Transient = true
	}
	return e
}
