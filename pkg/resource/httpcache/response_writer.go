package httpcache

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// smallAnswer is how long an answer is that always passes and needs no deadline: the buffers of a
// connection take it.
const smallAnswer = 64 << 10

// largeAnswer is how long an answer is that may not use the last quarter of what is in flight, which is
// left to those that ask for less.
const largeAnswer = 4 << 20

// inFlight bounds the bytes of answers that are being written (U8).
type inFlight struct {
	max, maxOne int64
	bytes       atomic.Int64
}

// Reservation is the part of one answer.
type Reservation struct {
	limit *inFlight
	bytes int64
}

// Add counts more bytes of an answer. The error is a 413 where the answer is too long, and a 429 where too
// many bytes are under way to others.
func (f *Reservation) Add(n int64) error {
	before := f.bytes
	total := before + n
	if total > f.limit.maxOne {
		return tooLong(f.limit.maxOne)
	}
	if total < smallAnswer {
		f.bytes = total
		return nil
	}
	if before < smallAnswer {
		n = total // it was not counted yet
	}
	most := f.limit.max
	if total > largeAnswer {
		most -= most / 4
	}
	if f.limit.bytes.Add(n) > most {
		f.limit.bytes.Add(-n)
		return apierrors.NewTooManyRequests("long answers to others are under way: ask again, or for pages with limit and page", 1)
	}
	f.bytes = total
	return nil
}

// Release lets go of all.
func (f *Reservation) Release() {
	if f.bytes >= smallAnswer {
		f.limit.bytes.Add(-f.bytes)
	}
	f.bytes = 0
}

func tooLong(most int64) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge, Reason: metav1.StatusReasonRequestEntityTooLarge,
		Message: fmt.Sprintf("the answer is longer than the %d bytes that one may have: ask for pages with limit and page, or for parts with fields", most),
	}}
}

// writeTimeout is how long a client may take nothing of a long answer before it is given up.
const writeTimeout = 30 * time.Second

// deadlineWriter writes to a client in pieces, each with a deadline, so that one who reads nothing does not hold
// his answer for ever.
type deadlineWriter struct {
	w           http.ResponseWriter
	control     *http.ResponseController
	deadlineSet time.Time // when the deadline was set
}

// newDeadlineWriter returns how to write an answer of so many bytes, 0 where that is not known.
func newDeadlineWriter(w http.ResponseWriter, bytes int64) io.Writer {
	if bytes > 0 && bytes < smallAnswer {
		return w
	}
	return &deadlineWriter{w: w, control: http.NewResponseController(w)}
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

// extendDeadline moves the deadline. A connection that can't have one is trusted.
func (p *deadlineWriter) extendDeadline() {
	if now := time.Now(); now.Sub(p.deadlineSet) > time.Second {
		p.deadlineSet = now
		_ = p.control.SetWriteDeadline(now.Add(writeTimeout))
	}
}

// clearDeadline ends the deadline: the connection is used again.
func clearDeadline(w io.Writer) {
	if p, ok := w.(*deadlineWriter); ok && !p.deadlineSet.IsZero() {
		_ = p.control.SetWriteDeadline(time.Time{})
	}
}

// maxWrite is how much of what needs no copy is written at once, and has to be taken within writeTimeout: fewer system
// calls, and fewer times that they wake up who reads.
const maxWrite = 512 << 10

// ChunkSize is how much is copied and written at once: enough that a system call costs little, and so little that the
// bytes are still near when they are copied.
const ChunkSize = 64 << 10

// ChunkWriter collects small texts into large writes.
type ChunkWriter struct {
	to  io.Writer
	buf []byte
	err error
}

var buffers = sync.Pool{New: func() any { return &ChunkWriter{buf: make([]byte, 0, ChunkSize)} }}

func newChunkWriter(w io.Writer) *ChunkWriter {
	p := buffers.Get().(*ChunkWriter)
	p.to, p.buf, p.err = w, p.buf[:0], nil
	return p
}

func (p *ChunkWriter) free() {
	p.to = nil
	buffers.Put(p)
}

func (p *ChunkWriter) WriteText(s string) {
	for len(s) > 0 && p.err == nil {
		n := copy(p.buf[len(p.buf):cap(p.buf)], s)
		p.buf, s = p.buf[:len(p.buf)+n], s[n:]
		if len(p.buf) == cap(p.buf) {
			p.flush()
		}
	}
}

func (p *ChunkWriter) WriteBytes(b []byte) {
	for len(b) > 0 && p.err == nil {
		n := copy(p.buf[len(p.buf):cap(p.buf)], b)
		p.buf, b = p.buf[:len(p.buf)+n], b[n:]
		if len(p.buf) == cap(p.buf) {
			p.flush()
		}
	}
}

func (p *ChunkWriter) flush() {
	if p.err == nil && len(p.buf) > 0 {
		_, p.err = p.to.Write(p.buf)
	}
	p.buf = p.buf[:0]
}
