package relay

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"kapis.dev/ks-apiserver/pkg/stream"
)

// Tunnel is the writer for a request to upgrade. It retains the client's connection when that is taken over, so that the stream can close
// it: a copy that waits for a silent client ends in no other way.
type Tunnel struct {
	http.ResponseWriter
	Stream *stream.Stream
}

// Unwrap serves http.ResponseController.
func (t *Tunnel) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Hijack takes the connection over.
func (t *Tunnel) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.Stream.Attach(conn)
	return &clientConn{Conn: conn, stream: t.Stream}, rw, nil
}

// watchTunnel wraps the server's side of an upgraded connection.
func watchTunnel(res *http.Response) error {
	s := stream.From(res.Request.Context())
	body, ok := res.Body.(io.ReadWriteCloser)
	if s == nil || !ok {
		return &RefusedAnswer{Reason: "it switched protocols on a connection that can't be written to"}
	}
	res.Body = &serverConn{ReadWriteCloser: body, stream: s}
	return nil
}

type serverConn struct {
	io.ReadWriteCloser
	stream *stream.Stream
}

// Read reads from kube-apiserver.
func (c *serverConn) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	if err != nil {
		c.stream.Part()
	}
	return n, err
}

// CloseWrite passes on that the client has ended its side.
func (c *serverConn) CloseWrite() error { return closeWrite(c.ReadWriteCloser) }

type clientConn struct {
	net.Conn
	stream *stream.Stream
}

// Read reads from the client. Bytes that arrive after the right has ended are not passed on.
func (c *clientConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.stream.Context().Err() != nil {
		return 0, net.ErrClosed
	}
	if err != nil {
		c.stream.Part()
	}
	return n, err
}

// CloseWrite passes on that the server has ended its side.
func (c *clientConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c io.Writer) error {
	if w, ok := c.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return net.ErrClosed // nothing half-open is possible: ReverseProxy then closes both
}
