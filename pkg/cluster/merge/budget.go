package merge

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/status"
)

// Budget bounds the bytes of clusters' answers that all lists hold together, and those that one request holds: however many clusters are
// asked, and however much each of them sends.
type Budget struct {
	all, one int64
	used     atomic.Int64
}

// NewBudget returns a Budget of so many bytes for all requests, and for one.
func NewBudget(all, one int64) *Budget { return &Budget{all: all, one: one} }

// Share returns what one request holds of the budget: nothing yet.
func (b *Budget) Share() *Share { return &Share{of: b} }

// Share is what one request holds of a Budget. Nil has no bound.
type Share struct {
	of *Budget

	mu    sync.Mutex
	bytes int64
}

// largePart is the part of what one request may hold that a cluster sends before it counts as large, and leftPart that of the budget which
// is left to others then: a cluster that sends as much as it can, to everybody, is missing, and takes no room from clusters that do not.
const largePart, leftPart = 8, 4

// add counts n more bytes of a cluster that has sent so many for this list. The error is an *outcome where that cluster has sent too much,
// and a Status for the whole list where all together have.
func (s *Share) add(sent, n int64) error {
	if s == nil {
		return nil
	}
	one, all := s.of.one, s.of.all
	isLarge := sent > one/largePart
	if isLarge {
		one, all = one-one/leftPart, all-all/leftPart
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch over := s.bytes+n > one; {
	case over && isLarge:
		return faulty()
	case over:
		return status.Errorf(http.StatusRequestEntityTooLarge, "what the clusters answer has more than %d bytes: ask for a shorter page with"+
			" limit, for parts of objects with fields, for fewer facets, or for fewer clusters with clusters", s.of.one)
	}
	if s.of.used.Add(n) > all {
		s.of.used.Add(-n)
		if isLarge {
			return &outcome{reason: NotReady}
		}
		return apierrors.NewTooManyRequests("lists over all clusters of others hold as much as this server has room for: try again", 1)
	}
	s.bytes += n
	return nil
}

// give returns some of the bytes.
func (s *Share) give(n int64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes -= n
	s.of.used.Add(-n)
}

// Release returns all bytes: nobody holds the answers of the request any more.
func (s *Share) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of.used.Add(-s.bytes)
	s.bytes = 0
}

// counting returns what counts the bytes that are read of a source's answers.
func (l *list) counting(source int) Grow { return func(n int) error { return l.grow(source, n) } }

func (l *list) grow(source, n int) error {
	l.mu.Lock()
	l.sent[source] += int64(n)
	sent := l.sent[source]
	l.mu.Unlock()
	err := l.share.add(sent, int64(n))
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[source] -= int64(n) // it is not counted
	if o := (*outcome)(nil); l.over == nil && !errors.As(err, &o) {
		l.over = err
	}
	return err
}

// again returns what a page that is made again has held.
func (l *list) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, n := range l.sent {
		l.share.give(n)
		l.sent[i] = 0
	}
}

// exceeded returns why the list holds more than it may, nil where it does not.
func (l *list) exceeded() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}
