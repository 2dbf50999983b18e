package serviceaccount

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// badPerSecond and badAtOnce are how many tokens of one address kube-apiserver may refuse before further ones, which nobody
	// can tell from them without it, have to wait.
	badPerSecond = 5
	badAtOnce    = 20
	// sourcesKept bounds the addresses whose refusals are counted.
	sourcesKept = 4096
)

// sources count, for each address, the tokens that kube-apiserver refused.
type sources struct {
	mu         sync.Mutex
	young, old map[string]*rate.Limiter
}

func newSources() *sources { return &sources{young: map[string]*rate.Limiter{}} }

// exhausted tells whether an address has to wait.
func (s *sources) exhausted(source string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.young[source]
	if r == nil {
		r = s.old[source]
	}
	return r != nil && r.TokensAt(now) < 1
}

// failed counts a refusal.
func (s *sources) failed(source string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.young[source]
	if r == nil {
		if r = s.old[source]; r == nil {
			r = rate.NewLimiter(badPerSecond, badAtOnce)
		}
		if len(s.young) >= sourcesKept/2 {
			s.old, s.young = s.young, map[string]*rate.Limiter{}
		}
		s.young[source] = r
	}
	r.AllowN(now, 1)
}

// networkOf is what is counted as one source: an IPv4 address, or the 64 bits of an IPv6 address that one customer gets.
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
