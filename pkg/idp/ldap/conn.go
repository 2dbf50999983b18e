package ldap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-ldap/ldap/v3"

	"kapis.dev/ks-apiserver/pkg/clusterdns"
	"kapis.dev/ks-apiserver/pkg/egress"
)

const (
	dialTimeout = 5 * time.Second
	// maxAnswer bounds the server's answer to one request, in bytes.
	maxAnswer = 8 << 20
)

var (
	// errTooLong ends a connection whose server sends more than was requested.
	errTooLong = errors.New("the server's answer is too long")
	// errTimeout says that the server took too long. Asking it again would take as long again.
	errTimeout = errors.New("the server does not answer in time")
)

// conn is a connection to the server. One goroutine uses it at a time.
type conn struct {
	*ldap.Conn
	wire *wire
	idle time.Time // when it was put into the pool
}

// wire is the underlying connection; it bounds what is read.
type wire struct {
	net.Conn
	budget atomic.Int64
}

func (w *wire) Read(p []byte) (int, error) {
	if w.budget.Load() <= 0 {
		return 0, errTooLong
	}
	n, err := w.Conn.Read(p)
	w.budget.Add(-int64(n))
	return n, err
}

// dial connects to the server, and starts TLS if that is configured, before anything else is sent.
func (a *address) dial(ctx context.Context, timeout time.Duration, loopback bool) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(timeout, dialTimeout))
	defer cancel()
	d := net.Dialer{KeepAlive: 15 * time.Second, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return allowed(address, loopback)
	}}
	raw, err := d.DialContext(ctx, "tcp", clusterdns.Absolute(a.hostPort))
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: raw}
	w.budget.Store(maxAnswer)
	if !a.tls {
		c := newConn(ldap.NewConn(w, false), w)
		if !a.startTLS {
			return c, nil
		}
		if err := c.do(ctx, timeout, func() error { return c.upgrade(a.config) }); err != nil {
			c.shut()
			return nil, fmt.Errorf("begin TLS: %w", err)
		}
		return c, nil
	}
	secure := tls.Client(w, a.config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("begin TLS: %w", err)
	}
	return newConn(ldap.NewConn(secure, true), w), nil
}

func newConn(l *ldap.Conn, w *wire) *conn {
	l.Start()
	return &conn{Conn: l, wire: w}
}

// upgrade starts TLS, and makes sure that it has started.
func (c *conn) upgrade(config *tls.Config) error {
	if err := c.StartTLS(config); err != nil {
		return err
	}
	if state, ok := c.TLSConnectionState(); !ok || !state.HandshakeComplete {
		return errors.New("the connection is still in clear text")
	}
	return nil
}

// allowed returns an error unless an address may be dialled, after its name was resolved.
func allowed(address string, loopback bool) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read the address %s: %w", address, err)
	}
	if !egress.Allowed(ap.Addr(), loopback) {
		return fmt.Errorf("connect to %s: %w", ap.Addr(), egress.ErrRefused)
	}
	return nil
}

// do runs one operation, which ends after timeout, and when ctx does.
func (c *conn) do(ctx context.Context, timeout time.Duration, operation func() error) error {
	c.wire.budget.Store(maxAnswer)
	deadline := time.Now().Add(timeout)
	_ = c.wire.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = c.wire.SetDeadline(time.Unix(1, 0)) })
	err := operation()
	if !stop() { // ctx ended: the connection can't be used any more, whatever the operation returned
		c.shut()
		if err == nil {
			return nil
		}
		return fmt.Errorf("%w: %w", errTimeout, err)
	}
	_ = c.wire.SetDeadline(time.Time{})
	if err != nil && !time.Now().Before(deadline) {
		return fmt.Errorf("%w: %w", errTimeout, err)
	}
	return err
}

// shut closes the connection at once.
func (c *conn) shut() {
	_ = c.wire.Close() // ends the operations that wait for an answer
	_ = c.Close()
}

// broken reports whether an error is of the connection, and not an answer of the server.
func broken(err error) bool {
	var e *ldap.Error
	if errors.As(err, &e) {
		return e.ResultCode >= ldap.ErrorNetwork // codes below it are those of RFC 4511
	}
	return err != nil && !errors.Is(err, errTooMany)
}
