package helm

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Error says why an operation failed. A Result may come with it: see Result.RolledBack.
type Error struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Transient says that the same operation may succeed later. Others fail again until something is changed.
	Transient bool `json:"transient,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// IsOverQuota reports whether kube-apiserver has refused an object because of a quota of its namespace, or of the workspace. It answers
// with a 403, as where a right is missing.
func IsOverQuota(err error) bool {
	return apierrors.IsForbidden(err) && (strings.Contains(err.Error(), "exceeded quota") || strings.Contains(err.Error(), "failed quota"))
}

// Reason is the kind of an error.
type Reason string

const (
	// ReasonInvalid is a request, a chart, values or a manifest that is not valid. Nothing was changed.
	ReasonInvalid Reason = "Invalid"
	// ReasonRender is a template that fails. Nothing was changed.
	ReasonRender Reason = "RenderFailed"
	// ReasonTooLarge is a release whose record does not fit into a Secret. Nothing was changed.
	ReasonTooLarge Reason = "TooLarge"
	// ReasonCRD is a CustomResourceDefinition whose upgrade would break existing objects. Nothing was changed.
	ReasonCRD Reason = "CRDRefused"
	// ReasonForbidden is a right that the impersonated user does not have.
	ReasonForbidden Reason = "Forbidden"
	// ReasonNotFound is a release or a revision that is not there, for Rollback and Status.
	ReasonNotFound Reason = "NotFound"
	// ReasonUnreachable is a cluster that can't be reached.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonFailed is an object that was refused, or a hook that failed.
	ReasonFailed Reason = "Failed"
	// ReasonTimeout is an operation that took too long, and was killed.
	ReasonTimeout Reason = "Timeout"
	// ReasonMemory is an operation that took too much memory, and was killed.
	ReasonMemory Reason = "OutOfMemory"
	// ReasonInterrupted is an operation whose process ended before it was done.
	ReasonInterrupted Reason = "Interrupted"
)
