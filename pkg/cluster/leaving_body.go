package cluster

import "io"

// leaving returns a body that calls leave when it is closed. That of an upgrade can be written to.
func leaving(body io.ReadCloser, leave func()) io.ReadCloser {
	if conn, ok := body.(io.ReadWriteCloser); ok {
		return &leavingConn{conn, leave}
	}
	return &leavingBody{body, leave}
}

type leavingBody struct {
	io.ReadCloser
	leave func()
}

// Close implements io.Closer.
func (b *leavingBody) Close() error {
	b.leave()
	return b.ReadCloser.Close()
}

type leavingConn struct {
	io.ReadWriteCloser
	leave func()
}

// Close implements io.Closer.
func (c *leavingConn) Close() error {
	c.leave()
	return c.ReadWriteCloser.Close()
}
