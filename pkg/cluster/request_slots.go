package cluster

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	// requestsAtMost and streamsAtMost bound the requests and the streams of users that run at one member at once, so that one that hangs
	// leaves room for the others. One user has a quarter of each at most.
	requestsAtMost, streamsAtMost = 256, 1000
	userShare                     = 4
	// ownAtMost bounds what this server asks for itself. It has room of its own: users must not keep a member from being told what they
	// have lost.
	ownAtMost = 64
)

type hubKey struct{}

// AsHub returns a context whose requests are this server's own, and no user's.
func AsHub(ctx context.Context) context.Context { return context.WithValue(ctx, hubKey{}, true) }

// inFlight is what runs at a member.
type inFlight struct{ requests, streams, own slots }

// slots are what runs of one kind. A request that another replica has passed on is of no user here: that replica counts it as its user's.
type slots struct {
	running int
	of      map[string]int // by the UID of the user
}

func (f *inFlight) count() int { return f.requests.running + f.streams.running + f.own.running }

// enter counts a request, and returns what ends that; nil where there is no room.
func (f *inFlight) enter(ctx context.Context) (leave func()) {
	u := request.UserFrom(ctx)
	switch {
	case ctx.Value(hubKey{}) != nil:
		return f.own.enter(ownAtMost, nil)
	case IsStream(ctx):
		return f.streams.enter(streamsAtMost, u)
	}
	return f.requests.enter(requestsAtMost, u)
}

func (s *slots) enter(most int, u user.Info) (leave func()) {
	if s.running >= most {
		return nil
	}
	if u == nil {
		s.running++
		return func() { s.running-- }
	}
	uid := u.GetUID()
	if s.of[uid] >= most/userShare {
		return nil
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.running++
	s.of[uid]++
	return func() {
		s.running--
		if s.of[uid]--; s.of[uid] == 0 {
			delete(s.of, uid)
		}
	}
}
