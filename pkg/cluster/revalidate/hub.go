package revalidate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// idle is how long a stream stays that nothing is asked in.
	idle = time.Minute
	// apart is how long a member is asked without a stream after one has ended, and aside how long one is that has none.
	apart, aside = 5 * time.Second, time.Minute
	// mostStreams bounds the members with a stream, and mostLines the lines that wait to be sent in one.
	mostStreams, mostLines = 4096, 64
)

// Hub keeps the streams to members.
type Hub struct {
	// RoundTrip sends a request to a member.
	RoundTrip func(*cluster.Member, *http.Request) (*http.Response, error)
	// Drain ends all streams when it is done.
	Drain context.Context
	Now   func() time.Time

	mu      sync.Mutex
	streams *recent.Map[string, *stream]
}

// NewHub returns a Hub whose streams go the way of all requests to members.
func NewHub(drain context.Context, now func() time.Time) *Hub {
	return &Hub{RoundTrip: (*cluster.Member).RoundTrip, Drain: drain, Now: now}
}

// Confirmation says that a member would answer as before. The zero Confirmation says nothing.
type Confirmation struct {
	of    *stream
	epoch uint64
	until time.Time
}

// Holds reports whether the confirmation counts.
func (c Confirmation) Holds(now time.Time) bool {
	return c.of != nil && now.Before(c.until) && c.of.epoch.Load() == c.epoch
}

// Confirm asks a member whether it would answer all questions as before, if they are asked with a header, which is JSON. The error says
// that the member said neither, so that only its answers tell.
func (h *Hub) Confirm(ctx context.Context, m *cluster.Member, header json.RawMessage, all []Question) (
	c Confirmation, same bool, err error) {
	s := h.stream(m)
	select {
	case <-s.begun:
	case <-ctx.Done():
		return Confirmation{}, false, h.silent(ctx, s)
	}
	asked := h.Now()
	n, answer, err := s.send(header, all)
	if err != nil {
		return Confirmation{}, false, err
	}
	defer s.forget(n)
	select {
	case a := <-answer:
		if !a.same {
			return Confirmation{}, false, nil
		}
		return Confirmation{of: s, epoch: a.epoch, until: asked.Add(Term)}, true, nil
	case <-s.ended:
		return Confirmation{}, false, errEnded
	case <-ctx.Done():
		return Confirmation{}, false, h.silent(ctx, s)
	}
}

var (
	errEnded = errors.New("there is no stream")
	errBusy  = errors.New("more is asked in the stream than goes through it")
)

// silent ends a stream in which a member did not answer in its time.
func (*Hub) silent(ctx context.Context, s *stream) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.cancel()
	}
	return ctx.Err()
}

// stream returns the stream to a member, which may have ended.
func (h *Hub) stream(m *cluster.Member) *stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.streams == nil {
		h.streams = recent.NewMap[string, *stream](mostStreams)
	}
	if s, found := h.streams.Use(m.UID); found && !s.isOver(h.Now()) {
		return s
	}
	ctx, cancel := context.WithCancel(cluster.AsHub(cluster.AsStream(h.Drain)))
	s := &stream{now: h.Now, cancel: cancel, pause: apart, begun: make(chan struct{}), ended: make(chan struct{}),
		lines: make(chan []byte, mostLines), waiting: map[uint64]chan<- reply{}}
	h.streams.Set(m.UID, s)
	go func() {
		defer cancel()
		s.run(ctx, func(r *http.Request) (*http.Response, error) { return h.RoundTrip(m, r) })
	}()
	return s
}
