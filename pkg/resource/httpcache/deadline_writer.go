package httpcache

import (
	"io"
	"net/http"
	"time"
)

// writeTimeout is how long a client may take for half of maxWrite of a long answer before its connection is aborted.
const writeTimeout = 30 * time.Second

// deadlineWriter writes to a client in pieces, each with a deadline, so that a client that reads nothing does not keep its
// answer in memory forever.
type deadlineWriter struct {
	w           http.ResponseWriter
	control     *http.ResponseController
	timeout     time.Duration // for one write
	deadlineSet time.Time     // when the deadline was set
	ofStream    bool          // the deadline is that of a stream of HTTP/2, and ends with it
}

// maxWrite is how much is written at once without a copy: large writes need fewer system calls, and wake up the reader less
// often. A page of a hundred large objects is one write.
const maxWrite = 1 << 20

// newDeadlineWriter returns a writer for an answer to r of so many bytes, 0 where that is not known.
func newDeadlineWriter(w http.ResponseWriter, r *http.Request, bytes int64) io.Writer {
	ofStream := r.ProtoMajor >= 2
	if bytes > 0 && bytes < smallAnswer && !ofStream {
		return w
	}
	timeout := writeTimeout
	if bytes > maxWrite/2 {
		timeout *= 2
	}
	return &deadlineWriter{w: w, control: http.NewResponseController(w), timeout: timeout, ofStream: ofStream}
}

// Write writes a text to a client that has a bounded time to receive each part of it. Errors of the client's connection are ignored.
func Write(w http.ResponseWriter, r *http.Request, text []byte) {
	out := newDeadlineWriter(w, r, int64(len(text)))
	defer clearDeadline(out)
	_, _ = out.Write(text) // there is no one to report it to
}

// Write writes all of b.
func (p *deadlineWriter) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		p.extendDeadline()
		var m int
		m, err = p.w.Write(b[:min(len(b), maxWrite)])
		n, b = n+m, b[m:]
	}
	if err != nil {
		p.deadlineSet = time.Time{} // the connection is of no more use, and its deadline stays
	}
	return n, err
}

// extendDeadline moves the deadline. Connections without deadlines are written without.
func (p *deadlineWriter) extendDeadline() {
	if now := time.Now(); now.Sub(p.deadlineSet) > time.Second {
		p.deadlineSet = now
		_ = p.control.SetWriteDeadline(now.Add(p.timeout))
	}
}

// clearDeadline removes the deadline: the connection is used again. That of a stream stays, since net/http sends the end of the answer
// only after its handler has returned.
func clearDeadline(w io.Writer) {
	if p, ok := w.(*deadlineWriter); ok && !p.ofStream && !p.deadlineSet.IsZero() {
		_ = p.control.SetWriteDeadline(time.Time{})
	}
}
