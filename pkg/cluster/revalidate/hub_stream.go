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
)

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
