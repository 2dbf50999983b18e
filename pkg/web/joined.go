package web

import (
	"context"
	"net"
	"sync"
)

// firstWrite is how much net/http collects of an answer before it writes to the connection. Of a longer answer, that is its first write.
const firstWrite = 4 << 10

// JoinWrites returns a listener whose connections can send an answer of more than firstWrite bytes by one system call in place of two: see Join.
// It is for connections in the clear; TLS makes records of its own.
func JoinWrites(l net.Listener) net.Listener { return joining{l} }

type joining struct{ net.Listener }

// Accept implements net.Listener.
func (l joining) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		return &joined{TCPConn: tcp}, nil
	}
	return c, err
}

type connKey struct{}

// JoinContext is a http.Server's ConnContext, by which Join finds the connection of a request.
func JoinContext(ctx context.Context, c net.Conn) context.Context {
	if j, ok := c.(*joined); ok {
		return context.WithValue(ctx, connKey{}, j)
	}
	return ctx
}

// Join says that an answer with a body of so many bytes is written from here on, without waiting for anything but the client, and that the function
// which it returns is called when all is written. The first part of a long one then waits for the next, and both leave together. Without a
// connection that can do that, nothing changes.
func Join(ctx context.Context, body int64) (written func()) {
	j, ok := ctx.Value(connKey{}).(*joined)
	if !ok || body <= firstWrite { // the answer may end with the first write
		return func() {}
	}
	j.expect = true
	return j.written
}

// joined is a connection that may hold the first write of an answer back. Only the goroutine that answers writes to it.
type joined struct {
	*net.TCPConn
	expect bool              // the next write may be held
	held   *[firstWrite]byte // what is held, nil for nothing
	parts  net.Buffers
	pair   [2][]byte
}

var firsts = sync.Pool{New: func() any { return new([firstWrite]byte) }}

func (c *joined) written() { c.expect = false }

// Write implements io.Writer. What is held is of an answer that is longer, so that there is a write behind it, or the connection is closed.
func (c *joined) Write(p []byte) (int, error) {
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
