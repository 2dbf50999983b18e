package e2e

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// balancer passes connections to a port of its own on to its addresses by turns, as a Service does in a cluster.
type balancer struct {
	address string // host and port

	mu   sync.Mutex
	to   []string
	next int
}

func newBalancer(t *testing.T, host string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{address: l.Addr().String()}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			in, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				t.Errorf("accept a connection at %s: %v", b.address, err)
				return
			}
			go b.pass(in)
		}
	}()
	return b
}

// balance returns host and port of a balancer that leads to the addresses.
func balance(t *testing.T, host string, to ...string) string {
	t.Helper()
	b := newBalancer(t, host)
	b.lead(to...)
	return b.address
}

// lead says where connections lead from now on. Those that are there stay.
func (b *balancer) lead(to ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = to
}

// dial connects to the next address that takes a connection, and returns nil where none does.
func (b *balancer) dial() net.Conn {
	b.mu.Lock()
	to, first := b.to, b.next
	b.next++
	b.mu.Unlock()
	for i := range to {
		if out, err := net.Dial("tcp", to[(first+i)%len(to)]); err == nil {
			return out
		}
	}
	return nil
}

// pass copies what both sides send, until both have ended: one that has ended may still wait for the answer of the other.
func (b *balancer) pass(in net.Conn) {
	defer in.Close()
	out := b.dial()
	if out == nil {
		return
	}
	defer out.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{out, in}, {in, out}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite() // fails where the other side is gone
		})
	}
	both.Wait()
}
