// Package audit defines the events that are recorded of requests, and their sinks.
package audit

import (
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Event is what is recorded of one request: the Event of Kubernetes at level Metadata (who, what, when, from where, with which answer;
// never a body, never a header, never a query), and fields that only this server knows.
type Event struct {
	auditv1.Event
	// Workspace is the one that the request named; empty if it named none.
	Workspace string `json:"workspace,omitempty"`
	// Cluster is the one that the request named; empty if it named none.
	Cluster string `json:"cluster,omitempty"`
}

// Sink receives events. Record is called while the request is served, by many requests at once, so it must not block: a sink that can't
// keep up drops events, and counts them. The event belongs to the sink from then on.
type Sink interface {
	Record(*Event)
}

// SinkFunc is a Sink made of a function.
type SinkFunc func(*Event)

// Record calls f.
func (f SinkFunc) Record(e *Event) { f(e) }

// None records nothing. With this sink, no event is even made.
type None struct{}

// Record drops e.
func (None) Record(*Event) {}
