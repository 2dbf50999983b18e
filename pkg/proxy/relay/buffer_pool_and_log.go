package relay

import (
	"strings"
	"sync"

	"k8s.io/klog/v2"
)

// BufferSize is what ReverseProxy would allocate for each answer.
const BufferSize = 32 << 10

// Buffers is an httputil.BufferPool. It pools pointers to arrays: a slice would be allocated each time that it is put back.
type Buffers struct{ pool sync.Pool }

// NewBuffers returns an empty pool.
func NewBuffers() *Buffers {
	return &Buffers{sync.Pool{New: func() any { return new([BufferSize]byte) }}}
}

// Get returns a buffer.
func (b *Buffers) Get() []byte { return b.pool.Get().(*[BufferSize]byte)[:] }

// Put takes a buffer back.
func (b *Buffers) Put(p []byte) {
	if len(p) == BufferSize {
		b.pool.Put((*[BufferSize]byte)(p))
	}
}

// QuietLog drops ReverseProxy's messages about connections that ended early, which are normal.
type QuietLog struct{}

// Write implements io.Writer.
func (QuietLog) Write(p []byte) (int, error) {
	klog.V(5).InfoS("proxy", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
