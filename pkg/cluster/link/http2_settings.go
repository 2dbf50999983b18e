package link

import (
	"net/http"
	"time"
)

const (
	// silence is after what time without a frame the other end is asked whether it is there, and answerTimeout how long it has to answer.
	silence, answerTimeout = 5 * time.Second, 5 * time.Second
	// mostStreams bounds the requests of one link that run at once.
	mostStreams = 4000
	// The flow-control windows, in bytes: towards the hub, which reads answers, and towards the member. That of a connection is the sum of
	// those of its streams, so that slow readers hold nobody else, however many there are: an end holds what its streams have received, and
	// the hub admits fewer (pkg/cluster).
	toHub, toMember       = 256 << 10, 64 << 10
	toHubAll, toMemberAll = mostStreams * toHub, mostStreams * toMember
	// longestFrame is how long a frame may be. Each wakes who reads it, who then says that the window is open again: with the 16 KiB of
	// HTTP/2 that is several times for one page. A link keeps a buffer of this length.
	longestFrame = 64 << 10
	// mostHeader bounds the header of an answer, in bytes: a member is not trusted.
	mostHeader = 1 << 20
)

// http2 returns the settings of one end, whose windows for what it receives are given.
func http2(stream, all int) *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: mostStreams, StrictMaxConcurrentRequests: true,
		MaxReceiveBufferPerStream: stream, MaxReceiveBufferPerConnection: all, MaxReadFrameSize: longestFrame,
		SendPingTimeout: silence, PingTimeout: answerTimeout,
	}
}

func onlyHTTP2() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP2(true)
	return p
}
