package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
)

// watchConnection makes the request's context end when its connection does. For upgraded connections net/http no longer does that, and
// commands of clients that have disconnected would run forever.
func watchConnection(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	return &hijackWriter{w, cancel}, r.WithContext(ctx), cancel
}

type hijackWriter struct {
	http.ResponseWriter
	gone context.CancelFunc
}

// Unwrap lets http.ResponseController find the methods that are not wrapped.
func (w *hijackWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Hijack implements http.Hijacker.
func (w *hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	watched := &watchedConn{conn, w.gone}
	// What net/http has read ahead comes first; after that, the watched connection.
	ahead, err := buffered.Peek(buffered.Reader.Buffered())
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	in := io.MultiReader(bytes.NewReader(ahead), watched)
	return watched, bufio.NewReadWriter(bufio.NewReader(in), bufio.NewWriter(watched)), nil
}

// watchedConn signals when reading has come to an end.
type watchedConn struct {
	net.Conn
	gone context.CancelFunc
}

func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.gone()
	}
	return n, err
}
