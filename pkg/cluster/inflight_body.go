package cluster

import "io"

// leaving returns a body that calls leave when it is closed. That of an upgrade can be written to.
func leaving(body io.ReadCloser, leave func()) io.ReadCloser {
	if conn, ok := body.(io.ReadWriteCloser); ok {
		return &countedConn{conn, leave}
	}
	return &countedBody{body, leave}
}

type countedBody struct {
	io.ReadCloser
	leave func()
}

// Close implements io.Closer.
func (b *countedBody) Close() error {
	b.leave()
	return b.ReadCloser.Close()
}

type countedConn struct {
	io.ReadWriteCloser
	leave func()
}

// Close implements io.Closer.
func (c *countedConn) Close() error {
	c.leave()
	return c.ReadWriteCloser.Close()
}
