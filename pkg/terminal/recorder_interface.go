package terminal

import (
	"context"
	"net/http"
)

// Subject is the session that a recording is of: whose it is, and what it is connected to.
type Subject struct {
	User, UID string
	// Source is the client's address, and AuditID the id of the request's events; "" if it is not known.
	Source, AuditID string
	// Node is that of a shell on a node. The pod of one is not known before it is made.
	Node, Namespace, Pod, Container string
}

// Recorder records sessions. recording.Recorder is one.
type Recorder interface {
	// Begin returns the recording of a session that is about to be opened. The error is a 503: it must not be opened.
	Begin(ctx context.Context, s Subject) (Recording, error)
}

// Recording is that of one session.
type Recording interface {
	// ID names it.
	ID() string
	// Over returns the request and the Executor to run the session with. The request's context ends, with an Ending as its cause, if the
	// session must not go on unrecorded.
	Over(r *http.Request, by Executor) (*http.Request, Executor)
	// End says how the session has ended; nil if it was never opened. in and out are its Bytes.
	End(e *Ending, in, out int64)
}
