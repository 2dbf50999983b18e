package serviceaccount

import (
	"net/netip"
	"sync"
	"time"

	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// badPerSecond and badAtOnce are how many tokens of one address kube-apiserver may refuse before further ones that only it can verify
	// have to wait.
	badPerSecond = 5
	badAtOnce    = 20
	// sourcesKept bounds the addresses whose refusals are counted.
	sourcesKept = 4096
)

// sources counts, for each address, the tokens that kube-apiserver refused. A token is counted before it is reviewed, and discounted
// unless it was refused: so of any number at once, no more are reviewed than may be refused.
type sources struct {
	mu        sync.Mutex
	byNetwork *recent.Map[string, *bucket]
}

// bucket is how many more refusals an address may have now.
type bucket struct {
	left float64
	at   time.Time
}

func newSources() *sources { return &sources{byNetwork: recent.NewMap[string, *bucket](sourcesKept)} }

// take counts a token of an address, unless it has to wait.
func (s *sources) take(source string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(source, now)
	b.left, b.at = min(badAtOnce, b.left+badPerSecond*now.Sub(b.at).Seconds()), now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// back undoes take.
func (s *sources) back(source string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(source, now).left++ // take limits it to the maximum
}

// find returns the bucket of an address. The caller holds the lock.
func (s *sources) find(source string, now time.Time) *bucket {
	b, ok := s.byNetwork.Use(source)
	if !ok {
		b = &bucket{left: badAtOnce, at: now}
		s.byNetwork.Set(source, b)
	}
	return b
}

// networkOf returns what is counted as one source: an IPv4 address, or the 64-bit prefix of an IPv6 address that one customer gets.
func networkOf(source string) string {
	a, err := netip.ParseAddr(source)
	if err != nil {
		return ""
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}
