package terminal

import (
	"net"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

// record begins the recording of a terminal, whose subject is completed by what is known of the request r.
func (h *V1alpha2) record(r *http.Request, s terminal.Subject) (terminal.Recording, error) {
	if h.Recorder == nil {
		return unrecorded{}, nil
	}
	ctx, event := r.Context(), audit.From(r.Context())
	u := request.UserFrom(ctx)
	s.User, s.UID, s.Source = u.GetName(), u.GetUID(), request.SourceFrom(ctx)
	if s.Source == "" {
		s.Source, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	if event != nil {
		s.AuditID = event.ID
	}
	rec, err := h.Recorder.Begin(ctx, s)
	if err == nil {
		event.Annotate(annotation+"recording", rec.ID())
	}
	return rec, err
}

// unrecorded is the recording of a terminal that is not recorded.
type unrecorded struct{}

func (unrecorded) ID() string { return "" }

func (unrecorded) Over(r *http.Request, by terminal.Executor) (*http.Request, terminal.Executor) {
	return r, by
}

func (unrecorded) End(*terminal.Ending, int64, int64) {}
