package cluster

import (
	"context"
	"net/http"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

// way is how a request is sent to a member: over a link of this replica, or through another replica.
type way func(*http.Request) (*http.Response, error)

// turn returns the link whose turn it is, of those that can take a request: a link that the member is ending, or is full, can't. The lock
// is held, and there is a link.
func (s *links) turn() *link.Link {
	for range s.all {
		s.next++
		if l := s.all[s.next%len(s.all)]; l.Available() > 0 {
			return l
		}
	}
	s.next++
	return s.all[s.next%len(s.all)]
}

// way chooses how a request is sent. The lock is held.
func (s *links) way(uid string, r *http.Request, elsewhere *Elsewhere) way {
	if elsewhere != nil {
		return func(r *http.Request) (*http.Response, error) {
			s.members.counts.forwarded.Add(1)
			return elsewhere.Send(uid, r)
		}
	}
	if len(s.all) == 0 {
		return nil
	}
	l := s.turn()
	if r.Header.Get("Upgrade") != "" {
		return l.Upgrading().RoundTrip
	}
	return l.RoundTrip
}

// enter admits a request, and returns how it is sent and the function that ends it. Its errors are ErrUnlinked, ErrSpared and ErrBusy.
func (m *Member) enter(r *http.Request, elsewhere *Elsewhere) (send way, leave func(), err error) {
	s := m.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if send = s.way(m.UID, r, elsewhere); send == nil {
		return nil, nil, ErrUnlinked
	}
	leave, err = s.inFlight.enter(r.Context())
	if err != nil {
		return nil, nil, ErrBusy
	}
	if !s.breaker.enter(s.members.Now()) {
		leave()
		return nil, nil, ErrSpared
	}
	return send, leave, nil
}

// RoundTrip sends a request to the member: over a link to this replica, or through another replica (see byOther). The request counts as
// running until the body of its answer is closed.
func (m *Member) RoundTrip(r *http.Request) (*http.Response, error) {
	elsewhere, _ := m.byOther()
	return m.roundTrip(r, elsewhere)
}

// RoundTripHere is RoundTrip by links to this replica alone.
func (m *Member) RoundTripHere(r *http.Request) (*http.Response, error) { return m.roundTrip(r, nil) }

func (m *Member) roundTrip(r *http.Request, elsewhere *Elsewhere) (*http.Response, error) {
	s := m.state
	send, leave, err := m.enter(r, elsewhere)
	if err != nil {
		s.members.counts.refused(m.Name)
		return nil, err
	}
	begun := time.Now()
	resp, err := send(r)
	s.count(r, err)
	s.members.counts.count(m.Name, begun, err)
	if err != nil {
		leave()
		return nil, err
	}
	resp.Body = leaving(resp.Body, leave)
	return resp, nil
}

// count reports the end of a request to the circuit breaker. A failure that the caller may have caused, by cancelling it or by a body that
// can't be read, does not count.
func (s *links) count(r *http.Request, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.breaker.succeeded()
	case r.Context().Err() == nil && (r.Body == nil || r.Body == http.NoBody):
		s.breaker.failed(s.members.Now())
	}
}

type streamKey struct{}

// AsStream returns a context whose request counts as a stream, which may last, and not as a request.
func AsStream(ctx context.Context) context.Context { return context.WithValue(ctx, streamKey{}, true) }

// IsStream reports whether the request of a context counts as a stream.
func IsStream(ctx context.Context) bool { return ctx.Value(streamKey{}) != nil }
