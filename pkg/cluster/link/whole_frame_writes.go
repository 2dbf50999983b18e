package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// FrameTransport dials WebSockets of which each frame is written at once. The buffer of a client's WebSocket has 4 KiB, so that a frame of
// a member's answer, which has up to 16 KiB, would be five writes: five records of TLS, each of which may wake the hub. Where its
// connections are dialled by Corked, the records of one frame are one write, too.
type FrameTransport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t FrameTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	var below *corked
	resp, err := t.RoundTripper.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { below = corkedOf(got.Conn) },
	})))
	if err != nil {
		return nil, err //nolint:wrapcheck // as it failed
	}
	if conn, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &frameWriter{ReadWriteCloser: conn, below: below}
	}
	return resp, nil
}

// mostHeld is how long a frame may be that is held back. Those of a link are shorter: each has one record of TLS.
const mostHeld = 32 << 10

// frameWriter holds back what is written until a frame (RFC 6455, 5.2) is whole.
type frameWriter struct {
	io.ReadWriteCloser
	held []byte
	// passing says that a frame was too long, and that nothing is held back any more.
	passing bool
	// below is the connection below TLS; nil where that is not known.
	below *corked
}

// Write implements io.Writer.
func (w *frameWriter) Write(p []byte) (int, error) {
	if w.passing {
		return w.ReadWriteCloser.Write(p) //nolint:wrapcheck // as it failed
	}
	w.held = append(w.held, p...)
	whole := 0
	for {
		n := frameLen(w.held[whole:])
		if n > mostHeld {
			whole, w.passing = len(w.held), true
		}
		if n == 0 || whole+n > len(w.held) {
			break
		}
		whole += n
	}
	if whole == 0 {
		return len(p), nil
	}
	if err := w.flush(whole); err != nil {
		return 0, err
	}
	w.held = append(w.held[:0], w.held[whole:]...)
	return len(p), nil
}

// flush writes frames.
func (w *frameWriter) flush(whole int) error {
	if w.below == nil {
		_, err := w.ReadWriteCloser.Write(w.held[:whole])
		return err //nolint:wrapcheck // as it failed
	}
	w.below.hold()
	_, err := w.ReadWriteCloser.Write(w.held[:whole])
	return cmp.Or(err, w.below.release())
}

// corked is a connection below TLS that can hold back what is written, until it is released. A frame that has a whole record of the link's
// TLS is longer than a record by its own head, so that it is two records, the second of which has some bytes.
type corked struct {
	net.Conn

	mu    sync.Mutex
	holds bool
	held  []byte
}

// Corked returns what dials connections for a FrameTransport.
func Corked(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (
	net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &corked{Conn: c}, nil
	}
}

// corkedOf returns the connection below another one, nil for one that is none.
func corkedOf(conn net.Conn) *corked {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	c, _ := conn.(*corked)
	return c
}

// Write implements net.Conn.
func (c *corked) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.holds {
		return c.Conn.Write(p) //nolint:wrapcheck // as it failed
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

func (c *corked) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = true
}

func (c *corked) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = false
	if len(c.held) == 0 {
		return nil
	}
	_, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	return err //nolint:wrapcheck // as it failed
}

// frameLen returns how long the frame is that b begins with, 0 where that is not known yet; of one that is too long, something too long.
func frameLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	head, n := 2, uint64(b[1]&0x7f)
	switch n {
	case 126:
		head += 2
	case 127:
		head += 8
	}
	if len(b) < head {
		return 0
	}
	switch n {
	case 126:
		n = uint64(binary.BigEndian.Uint16(b[2:]))
	case 127:
		n = binary.BigEndian.Uint64(b[2:])
	}
	if b[1]&0x80 != 0 { // the mask
		head += 4
	}
	return head + int(min(n, 2*mostHeld)) //nolint:gosec // small
}
