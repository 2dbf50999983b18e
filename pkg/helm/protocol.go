package helm

import (
	"time"
)

// Event tells how far an operation is.
type Event struct {
	// Phase is set where a phase begins.
	Phase Phase `json:"phase,omitempty"`
	// Message is a line of the operation's log. It has no content of values.
	Message string `json:"message,omitempty"`
}

// Phase is a part of an operation.
type Phase string

const (
	// PhaseRendering reads and renders the chart; nothing has been changed. It has a time limit of its own.
	PhaseRendering Phase = "rendering"
	// PhasePreviewing asks kube-apiserver what would change, by dry runs.
	PhasePreviewing Phase = "previewing"
	// PhaseCRDs applies the CustomResourceDefinitions of crds/.
	PhaseCRDs Phase = "crds"
	// PhaseApplying runs hooks, and applies or deletes objects.
	PhaseApplying Phase = "applying"
	// PhaseRollingBack applies a former revision, after a failed upgrade.
	PhaseRollingBack Phase = "rollingBack"
)

// Job is what a child reads: a request, and the bounds of the executor.
type Job struct {
	Request    Request       `json:"request"`
	Timeout    time.Duration `json:"timeout"`
	HistoryMax int           `json:"historyMax"`
}

// Line is one line that a child writes. The last one has Done.
type Line struct {
	Event
	Done   bool    `json:"done,omitempty"`
	Result *Result `json:"result,omitempty"`
	Error  *Error  `json:"error,omitempty"`
}
