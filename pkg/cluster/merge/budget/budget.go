// Package budget bounds what lists over clusters hold of what these answer.
package budget

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/status"
)

var (
	// ErrLarge says that a cluster has sent more than one request may hold of it.
	ErrLarge = errors.New("the cluster has sent too much")
	// ErrFull says that there is no room now for a cluster that sends as much.
	ErrFull = errors.New("there is no room for what the cluster sends")
)

// Budget bounds the bytes of clusters' answers that all lists hold together, and those that one request holds: however many clusters are
// asked, and however much each of them sends.
type Budget struct {
	all, one int64
	used     atomic.Int64
}

// New returns a Budget of so many bytes for all requests, and for one.
func New(all, one int64) *Budget { return &Budget{all: all, one: one} }

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

// Add counts n more bytes of a cluster that has sent so many for this list. The error is ErrLarge or ErrFull where that cluster has sent
// too much, and a Status for the whole list where all together have.
func (s *Share) Add(sent, n int64) error {
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
		return ErrLarge
	case over:
		return status.Errorf(http.StatusRequestEntityTooLarge, "what the clusters answer has more than %d bytes: ask for a shorter page with"+
			" limit, for parts of objects with fields, for fewer facets, or for fewer clusters with clusters", s.of.one)
	}
	if s.of.used.Add(n) > all {
		s.of.used.Add(-n)
		if isLarge {
			return ErrFull
		}
		return apierrors.NewTooManyRequests("lists over all clusters of others hold as much as this server has room for: try again", 1)
	}
	s.bytes += n
	return nil
}

// Give returns some of the bytes.
func (s *Share) Give(n int64) {
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
