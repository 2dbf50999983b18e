package feed

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// readPause is how long a busy connection is left alone between two reads: the longest that an event waits here. Waking
	// up costs about ten times as much as reading an event.
	readPause = 8 * time.Millisecond
	// busyWithin is the longest pause between two arrivals on a busy connection.
	busyWithin = 25 * time.Millisecond
	// smallRead is the read buffer of a quiet connection, largeRead the largest of a busy one.
	smallRead = 4 << 10
	largeRead = 128 << 10
)

// batchingConn reads large chunks, and seldom while much arrives. kube-apiserver writes every event by itself, and waking up
// for each costs more than reading it.
//
// What it buys: at most 510 reads in the place of 10 000 where 10 000 small writes arrive in a second
// (TestBusyConnectionsAreReadSeldom).
type batchingConn struct {
	net.Conn
	buf  []byte
	rest []byte    // the part of buf that was not yet read
	last time.Time // when something came
	full bool      // the last read filled buf: there is more
	// stream reads a watch from the connection: it is called when everything that arrived was read.
	stream atomic.Pointer[watchStream]
}

// address is a conn's own address, by which the conn is found below TLS and other wrappers.
type address struct {
	net.Addr
	conn *batchingConn
}

// LocalAddr implements net.Conn.
func (c *batchingConn) LocalAddr() net.Addr { return address{c.Conn.LocalAddr(), c} }

// batchingConnOf returns the batchingConn that c is or wraps, or nil.
func batchingConnOf(c net.Conn) *batchingConn {
	a, _ := c.LocalAddr().(address)
	return a.conn
}

// dialer returns a dial function for such connections. They end within half a minute when the other side is gone, even if
// they are idle.
func dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{
			Timeout:         10 * time.Second,
			KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &batchingConn{Conn: c}, nil
	}
}

// Read implements net.Conn.
func (c *batchingConn) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *batchingConn) fill() error {
	if s := c.stream.Load(); s != nil {
		s.pass() // the reader has nothing left: its events must not wait for this read
	}
	busy := time.Since(c.last) < busyWithin
	if busy && !c.full {
		setReceiveLowWater(c.Conn, largeRead) // or each arrival would wake up a thread
		time.Sleep(readPause)
		setReceiveLowWater(c.Conn, 1)
	}
	switch {
	case !busy && len(c.buf) != smallRead:
		c.buf = make([]byte, smallRead)
	case c.full && len(c.buf) < largeRead:
		c.buf = make([]byte, 2*len(c.buf))
	}
	n, err := c.Conn.Read(c.buf)
	c.rest = c.buf[:n]
	c.full, c.last = n == len(c.buf), time.Now()
	if n > 0 {
		return nil // an error is returned by the next read
	}
	return err
}
