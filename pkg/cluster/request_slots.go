package cluster

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/inflight"
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

// IsHubPath reports whether a member serves a path to its hub alone: no user's request for it is passed on.
func IsHubPath(path string) bool { return path == "/fleet" || strings.HasPrefix(path, "/fleet/") }

// inFlight is what runs at a member. A request that another replica has passed on is of no user here: that replica counts it as its user's.
type inFlight struct{ requests, streams, own *inflight.Limit[Caller] }

// Caller is whom a request to clusters counts for, among those that run at once.
type Caller struct{ uid, owner string }

// CallerOf returns whom requests of u count for: u alone, or the service accounts of a namespace together.
func CallerOf(u user.Info) Caller {
	name := u.GetName()
	if inflight.IsServiceAccount(name) {
		return Caller{owner: inflight.OwnerOf(name)}
	}
	return Caller{u.GetUID(), name}
}

func newInFlight() inFlight {
	return inFlight{
		requests: inflight.New[Caller](requestsAtMost, requestsAtMost/userShare),
		streams:  inflight.New[Caller](streamsAtMost, streamsAtMost/userShare),
		own:      inflight.New[Caller](ownAtMost, ownAtMost),
	}
}

func (f *inFlight) count() int { return f.requests.Running() + f.streams.Running() + f.own.Running() }

// enter counts a request, and returns what ends that. The error says that there is no room.
func (f *inFlight) enter(ctx context.Context) (leave func(), err error) {
	limit := f.requests
	switch {
	case ctx.Value(hubKey{}) != nil:
		return f.own.EnterWithoutOwner()
	case IsStream(ctx):
		limit = f.streams
	}
	u := request.UserFrom(ctx)
	if u == nil {
		return limit.EnterWithoutOwner()
	}
	return limit.Enter(CallerOf(u))
}
