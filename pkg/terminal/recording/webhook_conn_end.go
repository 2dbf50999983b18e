package recording

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"

	"kapis.dev/ks-apiserver/pkg/clusterdns"
)

// watchedConn is a connection that says when it has ended. A client of net/http that waits for more of a body does not.
type watchedConn struct {
	net.Conn
	ended chan struct{}
	end   func()
}

// watched returns the DialContext of a dialer, by absolute names of Services, whose connections are watched.
func watched(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, clusterdns.Absolute(address))
		if err != nil {
			return nil, err
		}
		c := &watchedConn{Conn: conn, ended: make(chan struct{})}
		c.end = sync.OnceFunc(func() { close(c.ended) })
		return c, nil
	}
}

// watchedOf returns the connection below TLS; nil if it is not watched.
func watchedOf(conn net.Conn) *watchedConn {
	for {
		switch c := conn.(type) {
		case *watchedConn:
			return c
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// Read reads.
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// Close closes the connection.
func (c *watchedConn) Close() error {
	c.end()
	return c.Conn.Close()
}

var errClosed = errors.New("the webhook of recordings has closed the connection of a stream")

// endWith ends the stream of a recording with its connection.
func (s *webhookStore) endWith(c *watchedConn, body *io.PipeReader) {
	select {
	case <-c.ended:
		_ = body.CloseWithError(errClosed)
	case <-s.answered:
	}
}
