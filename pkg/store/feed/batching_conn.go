package feed

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// readPause is how long a connection on which much comes is left alone between two reads: the most that an
	// event waits here. To wake up costs some ten times as much as to read an event.
	readPause = 8 * time.Millisecond
	// busyWithin is how soon behind another something comes on a connection on which much comes.
	busyWithin = 25 * time.Millisecond
	// smallRead is what a quiet connection keeps to read into, largeRead the most that a busy one does.
	smallRead = 4 << 10
	largeRead = 128 << 10
)

// batchingConn reads much at a time, and seldom while much arrives. kube-apiserver writes every event by itself, and waking up
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
	// stream is who reads a watch off the connection: it is told when all that came was taken.
	stream atomic.Pointer[watchStream]
}

// address is a conn's own address, by which the conn is found below TLS and whatever else a client wraps it in.
type address struct {
	net.Addr
	conn *batchingConn
}

// LocalAddr implements net.Conn.
func (c *batchingConn) LocalAddr() net.Addr { return address{c.Conn.LocalAddr(), c} }

// batchingConnOf returns the conn that c is, or is made of, and nil where there is none.
func batchingConnOf(c net.Conn) *batchingConn {
	a, _ := c.LocalAddr().(address)
	return a.conn
}

// dialer opens such connections. They end within half a minute when the other side is gone, however
// silent they are.
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
		s.pass() // whoever reads has nothing left: what it made of it must not wait with us
	}
	busy := time.Since(c.last) < busyWithin
	if busy && !c.full {
		setReceiveLowWater(c.Conn, largeRead) // or each arrival would wake up a thread for nothing
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
		return nil // an error comes again
	}
	return err
}
