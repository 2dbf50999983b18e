package link

import (
	"net"
	"net/http"
	"sync"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// networkShare is the part of the slots, one of so many, that one network can have.
const networkShare = 4

// HandshakeSlots bound what runs at once for those who have not proved yet who they are: anybody may begin it. A network
// (request.NetworkOf) has a part of them, so that it takes several to keep all others away.
type HandshakeSlots struct {
	most int

	mu    sync.Mutex
	taken int
	of    map[string]int
}

// NewHandshakeSlots returns so many slots.
func NewHandshakeSlots(most int) *HandshakeSlots {
	return &HandshakeSlots{most: most, of: map[string]int{}}
}

// Enter takes a slot for a request, and returns what gives it back, which counts once. The error is a Status of 429.
func (s *HandshakeSlots) Enter(r *http.Request) (leave func(), err error) {
	source := request.SourceFrom(r.Context())
	if source == "" {
		source, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	network := request.NetworkOf(source)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most || s.of[network] >= s.most/networkShare {
		return nil, status.RetryAfter(5, status.Errorf(http.StatusTooManyRequests, "too many others connect, or join, at once: try again"))
	}
	s.taken++
	s.of[network]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
		if s.of[network]--; s.of[network] == 0 {
			delete(s.of, network)
		}
	}), nil
}
