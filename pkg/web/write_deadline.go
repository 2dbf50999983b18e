package web

import (
	"net/http"
	"time"
)

const (
	// answerTime is how long a client may take to receive an answer, and again for each further MiB of it.
	answerTime = time.Minute
	// endTime is how long a client of HTTP/2 may take to receive what is left of an answer when its handler has returned.
	endTime = 30 * time.Second
	// buffered is what the buffers of a connection hold of an answer by HTTP/1.1.
	buffered = 64 << 10
)

// WriteDeadline bounds how long the client of r may take to receive an answer of so many bytes: net/http has no bound of its own. The caller
// calls remove once all is written, since the connection is used again; the deadline of a stream of HTTP/2 stays.
func WriteDeadline(w http.ResponseWriter, r *http.Request, bytes int64) (remove func()) {
	ofStream := r.ProtoMajor >= 2 // its client decides how much of it is taken, however short it is
	if !ofStream && bytes < buffered {
		return func() {}
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(answerTime * time.Duration(1+bytes>>20)))
	return func() {
		if !ofStream {
			_ = control.SetWriteDeadline(time.Time{})
		}
	}
}

// EndStreams bounds how long a client of HTTP/2 may take to receive the end of an answer. net/http sends what is in its buffers only when
// the handler has returned, and waits for the client's window then.
func EndStreams(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		if r.ProtoMajor >= 2 {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(endTime))
		}
	})
}
