package link

import (
	"net"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// networkShare is the part of the slots, one of so many, that one network can have.
const networkShare = 4

// HandshakeSlots bound what runs at once for those who have not proved yet who they are: anybody may begin it. A network
// (request.NetworkOf) has a part of them, so that it takes several to keep all others away.
type HandshakeSlots struct{ byNetwork *inflight.Limit[string] }

// NewHandshakeSlots returns so many slots.
func NewHandshakeSlots(most int) *HandshakeSlots {
	return &HandshakeSlots{inflight.New[string](most, most/networkShare)}
}

// Enter takes a slot for a request, and returns what gives it back, which counts once. The error is a Status of 429.
func (s *HandshakeSlots) Enter(r *http.Request) (leave func(), err error) {
	source := request.SourceFrom(r.Context())
	if source == "" {
		source, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	if leave, err = s.byNetwork.Enter(request.NetworkOf(source)); err != nil {
		return nil, status.RetryAfter(5, status.Errorf(http.StatusTooManyRequests, "too many others connect, or join, at once: try again"))
	}
	return leave, nil
}
