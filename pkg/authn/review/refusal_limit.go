package review

import (
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// BadAtOnce is how many tokens of one address the other server may refuse before further ones that only it can verify have to wait.
	BadAtOnce = 20
	// BadPerSecond is how many more it may refuse after each second.
	BadPerSecond = 5
	// MostSources bounds the addresses whose refusals are counted.
	MostSources = 4096
)

// Sources counts, for each address, the tokens that the other server refused. A token is counted before it is reviewed, and discounted
// unless it was refused: so of any number at once, no more are reviewed than may be refused.
type Sources struct {
	mu        sync.Mutex
	byNetwork *recent.Map[string, *bucket]
}

// bucket is how many more refusals an address may have now.
type bucket struct {
	left float64
	at   time.Time
}

// NewSources returns a Sources.
func NewSources() *Sources { return &Sources{byNetwork: recent.NewMap[string, *bucket](MostSources)} }

// Take counts a token of an address, unless it has to wait.
func (s *Sources) Take(source string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(source, now)
	b.left, b.at = min(BadAtOnce, b.left+BadPerSecond*now.Sub(b.at).Seconds()), now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// Back undoes Take.
func (s *Sources) Back(source string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(source, now).left++ // Take limits it to the maximum
}

// find returns the bucket of an address. The caller holds the lock.
func (s *Sources) find(source string, now time.Time) *bucket {
	b, ok := s.byNetwork.Use(source)
	if !ok {
		b = &bucket{left: BadAtOnce, at: now}
		s.byNetwork.Set(source, b)
	}
	return b
}

// Len returns how many addresses are counted.
func (s *Sources) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byNetwork.Len()
}
