package filter

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// rawConn speaks bytes, not requests: for requests that no client library would send.
type rawConn struct {
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func rawDial(t *testing.T, addr string) *rawConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil { // of a failing test
		t.Fatal(err)
	}
	return &rawConn{t, conn, bufio.NewReader(conn)}
}

func (c *rawConn) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Fatal(err)
	}
}

// status reads one whole answer.
func (c *rawConn) status() int {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode
}
