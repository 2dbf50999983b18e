// Package audit has what is recorded of a request, and where it goes.
package audit

import (
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Event is what is recorded of one request: the Event of Kubernetes at level Metadata (who, what,
// when, from where, with which answer; never a body, never a header, never a query), and what
// only this server knows of it.
type Event struct {
	auditv1.Event
	// Workspace is the one that the request named; empty where it named none.
	Workspace string `json:"workspace,omitempty"`
	// Cluster is the one that the request named; empty where it named none.
	Cluster string `json:"cluster,omitempty"`
}

// Sink takes events. Record is called on the path of the request, by many requests at once, and so
// it must not block: a sink that can't keep up drops, and counts what it dropped. The event belongs
// to the sink from then on.
type Sink interface {
	Record(*Event)
}

// SinkFunc is a Sink made of a function.
type SinkFunc func(*Event)

// Record calls f.
func (f SinkFunc) Record(e *Event) { f(e) }

// None records nothing. Where it is the sink, no event is made at all.
type None struct{}

// Record drops e.
func (None) Record(*Event) {}
