package web

import (
	"context"
	"net"
	"sync"
)

// firstWrite is how much net/http collects of an answer before it writes to the connection. It is the first write of a longer answer.
const firstWrite = 4 << 10

// CoalesceWrites returns a listener whose connections can send an answer of more than firstWrite bytes with one system call instead of
// two: see Coalesce. It is for connections without TLS; TLS makes its own records.
func CoalesceWrites(l net.Listener) net.Listener { return coalescingListener{l} }

type coalescingListener struct{ net.Listener }

// Accept implements net.Listener.
func (l coalescingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		return &coalescingConn{TCPConn: tcp}, nil
	}
	return c, err
}

type connKey struct{}

// CoalesceContext is a http.Server's ConnContext, by which Coalesce finds the connection of a request.
func CoalesceContext(ctx context.Context, c net.Conn) context.Context {
	if j, ok := c.(*coalescingConn); ok {
		return context.WithValue(ctx, connKey{}, j)
	}
	return ctx
}

// WithoutConnection returns the context of a request whose answer is not written to the connection of ctx: one within another request.
func WithoutConnection(ctx context.Context) context.Context {
	return context.WithValue(ctx, connKey{}, nil)
}

// Coalesce says that an answer with a body of that many bytes is written from here on, without waiting for anything but the client. The
// caller calls the returned function when all is written. The first write of a long answer then waits for the next, and both are sent
// together. Without a connection that can do that, nothing changes.
func Coalesce(ctx context.Context, body int64) (written func()) {
	j, ok := ctx.Value(connKey{}).(*coalescingConn)
	if !ok || body <= firstWrite { // the answer may end with the first write
		return func() {}
	}
	j.expect = true
	return j.written
}

// coalescingConn is a connection that may hold back the first write of an answer. Only the goroutine that answers writes to it.
type coalescingConn struct {
	*net.TCPConn
	expect bool              // the next write may be held
	held   *[firstWrite]byte // the data held back, nil for none
	parts  net.Buffers
	pair   [2][]byte
}

var firsts = sync.Pool{New: func() any { return new([firstWrite]byte) }}

func (c *coalescingConn) written() { c.expect = false }

// Write implements io.Writer. Data is held back only of a longer answer, so another write follows, or the connection is closed.
func (c *coalescingConn) Write(p []byte) (int, error) {
	if c.expect {
		c.expect = false
		if len(p) == firstWrite {
			c.held = firsts.Get().(*[firstWrite]byte)
			return copy(c.held[:], p), nil
		}
	}
	if c.held == nil {
		return c.TCPConn.Write(p)
	}
	c.pair = [2][]byte{c.held[:], p}
	c.parts = c.pair[:]
	n, err := c.parts.WriteTo(c.TCPConn)
	firsts.Put(c.held)
	c.held, c.pair = nil, [2][]byte{}
	return max(0, int(n)-firstWrite), err
}
