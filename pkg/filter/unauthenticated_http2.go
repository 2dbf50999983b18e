package filter

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

const (
	// strangerWriteTimeout is how long an unauthenticated client may take to receive an answer by HTTP/2.
	strangerWriteTimeout = time.Minute
	// strangerRequests is how many requests without a login an HTTP/2 connection serves: some twenty login pages with their style, script
	// and icon. It must not be one. A browser that learns by the first answer of a new connection that this is to end fails the requests
	// that wait for it, and so shows a page without its style.
	strangerRequests = 100
)

type strangerCountKey struct{}

// CountStrangers is a http.Server's ConnContext, by which Authentication counts a connection's requests without a login.
func CountStrangers(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, strangerCountKey{}, new(atomic.Int64))
}

// LimitHTTP2 ends the HTTP/2 connection of an unauthenticated client after strangerRequests, or after this answer where nothing counts
// them, so that streams can't be opened and reset in floods without a login. It also ends the stream of an answer that is not received,
// because a client that opens no window would hold a goroutine for each of its streams, and the connection with them. A link of the hub is
// everybody's: whom it is ended for is one of its users.
func LimitHTTP2(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 2 || link.FromHub(r.Context()) {
		return
	}
	if n, ok := r.Context().Value(strangerCountKey{}).(*atomic.Int64); !ok || n.Add(1) >= strangerRequests {
		w.Header().Set("Connection", "close") // net/http sends GOAWAY
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(strangerWriteTimeout))
}
