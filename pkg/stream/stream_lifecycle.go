package stream

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// Stream is one long request, from its beginning to the return of its handler.
type Stream struct {
	guard  *Guard
	leave  func()
	ctx    context.Context
	cancel context.CancelCauseFunc
	rc     *http.ResponseController

	mu       sync.Mutex
	timer    *time.Timer // of the next check
	parting  *time.Timer // closes conn, after one side has closed
	undrain  func() bool
	conn     io.Closer // the client's, once the connection is upgraded
	deadline bool      // for the end of the answer was set
	stopped  bool
}

type streamKey struct{}

// From returns the stream of a request, or nil if no Guard watches over it.
func From(ctx context.Context) *Stream {
	s, _ := ctx.Value(streamKey{}).(*Stream)
	return s
}

// Context ends with the stream.
func (s *Stream) Context() context.Context { return s.ctx }

// end ends the stream: for the handler at once; for the client with a clean end of the answer, for which it has a little time, or by
// closing the upgraded connection.
func (s *Stream) end(why *endedError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.cancel(why)
	if s.conn != nil {
		_ = s.conn.Close()
		return
	}
	// A client that reads nothing must not hold the stream open by that.
	s.deadline = s.rc.SetWriteDeadline(time.Now().Add(s.guard.options.CloseTimeout)) == nil
}

// Stop releases everything that the stream holds. Nothing of it touches the client's connection afterwards, which may already serve the
// next request.
func (s *Stream) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	s.undrain()
	for _, t := range []*time.Timer{s.timer, s.parting} {
		if t != nil {
			t.Stop()
		}
	}
	if s.deadline && s.conn == nil {
		_ = s.rc.SetWriteDeadline(time.Time{})
	}
	s.cancel(context.Canceled)
	s.leave()
}

// Attach records that the connection of the client was taken over, so that the stream can close it: nothing else wakes a goroutine that
// waits for a silent client.
func (s *Stream) Attach(conn io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
	if s.ctx.Err() != nil { // it ended while the connection was being taken over
		_ = conn.Close()
	}
}

// Part records that one side of an upgraded connection has closed. The other may still have data to send, but neither WebSocket nor SPDY
// goes on for long with one side: the connection is closed soon.
func (s *Stream) Part() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.parting != nil {
		return
	}
	s.parting = time.AfterFunc(s.guard.options.CloseTimeout, func() { s.end(&endedError{err: io.EOF}) })
}
