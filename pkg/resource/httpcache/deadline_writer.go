package httpcache

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// writeTimeout is how long a client may read nothing of a long answer before its connection is aborted.
const writeTimeout = 30 * time.Second

// deadlineWriter writes to a client in pieces, each with a deadline, so that a client that reads nothing does not keep its
// answer in memory forever.
type deadlineWriter struct {
	w           http.ResponseWriter
	control     *http.ResponseController
	deadlineSet time.Time // when the deadline was set
}

// newDeadlineWriter returns a writer for an answer of so many bytes, 0 where that is not known.
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

// extendDeadline moves the deadline. Connections without deadlines are written without.
func (p *deadlineWriter) extendDeadline() {
	if now := time.Now(); now.Sub(p.deadlineSet) > time.Second {
		p.deadlineSet = now
		_ = p.control.SetWriteDeadline(now.Add(writeTimeout))
	}
}

// clearDeadline removes the deadline: the connection is used again.
func clearDeadline(w io.Writer) {
	if p, ok := w.(*deadlineWriter); ok && !p.deadlineSet.IsZero() {
		_ = p.control.SetWriteDeadline(time.Time{})
	}
}

// maxWrite is how much is written at once without a copy, and must be read within writeTimeout: large writes need fewer
// system calls, and wake up the reader less often.
const maxWrite = 512 << 10

// ChunkSize is how much is copied and written at once: enough to make a system call cheap, and little enough that the bytes
// are still in the processor's cache when they are copied.
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

// WriteText writes a text.
func (p *ChunkWriter) WriteText(s string) {
	for len(s) > 0 && p.err == nil {
		n := copy(p.buf[len(p.buf):cap(p.buf)], s)
		p.buf, s = p.buf[:len(p.buf)+n], s[n:]
		if len(p.buf) == cap(p.buf) {
			p.flush()
		}
	}
}

// WriteBytes writes bytes.
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
