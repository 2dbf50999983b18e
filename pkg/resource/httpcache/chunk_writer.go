package httpcache

import (
	"io"
	"sync"
)

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
