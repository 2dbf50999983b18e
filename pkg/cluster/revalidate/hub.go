package revalidate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
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
	ctx, cancel := context.WithCancel(cluster.AsStream(h.Drain))
	s := &stream{now: h.Now, cancel: cancel, pause: apart, begun: make(chan struct{}), ended: make(chan struct{}),
		lines: make(chan []byte, mostLines), waiting: map[uint64]chan<- reply{}}
	h.streams.Set(m.UID, s)
	go func() {
		defer cancel()
		s.run(ctx, func(r *http.Request) (*http.Response, error) { return h.RoundTrip(m, r) })
	}()
	return s
}

// reply is what a member has said to an ask, and how often it had said before that something has changed.
type reply struct {
	same  bool
	epoch uint64
}

// stream is one stream.
type stream struct {
	now    func() time.Time
	cancel context.CancelFunc
	// begun is closed when it is known whether there is a stream, and ended when there is none any more.
	begun, ended chan struct{}
	lines        chan []byte
	// epoch is how often the member has said that something has changed; it is larger after the end.
	epoch atomic.Uint64

	mu      sync.Mutex
	over    time.Time     // when it ended, and
	pause   time.Duration // how long none is tried then
	last    uint64
	waiting map[uint64]chan<- reply
}

// isOver reports whether a stream has ended so long ago that another one may be tried.
func (s *stream) isOver(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.over.IsZero() && now.Sub(s.over) >= s.pause
}

// send sends an ask, which has a number.
func (s *stream) send(header json.RawMessage, all []Question) (n uint64, answer <-chan reply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over.IsZero() {
		return 0, nil, errEnded
	}
	line, err := json.Marshal(ask{N: s.last + 1, Header: header, Questions: all})
	if err != nil || len(line) >= maxAsk {
		return 0, nil, errors.Join(errBusy, err)
	}
	select {
	case s.lines <- append(line, '\n'):
	default:
		return 0, nil, errBusy
	}
	s.last++
	said := make(chan reply, 1)
	s.waiting[s.last] = said
	return s.last, said, nil
}

// forget forgets an ask whose answer nobody waits for any more: a member may never answer it.
func (s *stream) forget(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, n)
}

// run keeps the stream until it ends.
func (s *stream) run(ctx context.Context, send func(*http.Request) (*http.Response, error)) {
	defer s.end()
	body, to := io.Pipe()
	defer func() { _ = body.CloseWithError(errEnded) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://member"+Path, body)
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", contentType)
	resp, err := send(r)
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != contentType {
		s.mu.Lock()
		s.pause = aside // a member of an older release
		s.mu.Unlock()
		return
	}
	close(s.begun)
	go s.write(ctx, to)
	for lines := scanner(resp.Body, maxNews); lines.Scan(); {
		var n news
		if json.Unmarshal(lines.Bytes(), &n) != nil {
			return
		}
		s.read(n)
	}
}

// write sends lines, and ends the stream when there are none for long.
func (s *stream) write(ctx context.Context, to *io.PipeWriter) {
	defer s.cancel()
	defer func() { _ = to.Close() }()
	unused := time.NewTimer(idle)
	defer unused.Stop()
	for {
		select {
		case line := <-s.lines:
			if _, err := to.Write(line); err != nil {
				return
			}
			unused.Reset(idle)
		case <-unused.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// read takes what the member says, in the order in which it does.
func (s *stream) read(n news) {
	if n.N == 0 {
		s.epoch.Add(1)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer := s.waiting[n.N]; answer != nil {
		delete(s.waiting, n.N)
		answer <- reply{n.Same, s.epoch.Load()}
	}
}

// end ends all confirmations, and has everybody who waits ask without the stream.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch.Add(1)
	s.over = s.now()
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
	close(s.ended)
}
