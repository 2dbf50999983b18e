// Package linktest has certificates and connections for tests of links.
package linktest

import (
	"context"
	"net"
	"testing"
)

// Pair returns the two ends of a connection on loopback.
func Pair(t testing.TB) (one, other net.Conn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
		close(accepted)
	}()
	if one, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	other = <-accepted
	t.Cleanup(func() { _ = one.Close(); _ = other.Close() })
	return one, other
}

// Hub is what serves the hub's end of links: cluster.Members does.
type Hub interface {
	Serve(ctx context.Context, conn net.Conn, uid string, opened func()) error
}
