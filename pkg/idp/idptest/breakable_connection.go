package idptest

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Line is the connection from a provider to its server: a loopback address that stays the same while the server can be reached, is
// down, or does not answer. Each change of the mode ends the existing connections.
type Line struct {
	// Address is host:port.
	Address string

	listener net.Listener
	accepted atomic.Int64
	sent     atomic.Int64 // bytes from providers
	arrived  chan struct{}
	wait     sync.WaitGroup

	mu      sync.Mutex
	backend string
	mode    mode
	stallAt int64
	open    map[net.Conn]bool
}

type mode int

const (
	down mode = iota
	up
	silent
)

// NewLine returns a line that is down.
func NewLine(t *testing.T) *Line {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen on loopback: %v", err)
	}
	l := &Line{Address: listener.Addr().String(), listener: listener, arrived: make(chan struct{}, 1), open: map[net.Conn]bool{}}
	l.wait.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(down, 0)
		l.wait.Wait()
	})
	return l
}

// Connect sets the server's address, and makes the server reachable.
func (l *Line) Connect(backend string) {
	l.mu.Lock()
	l.backend = backend
	l.mu.Unlock()
	l.Up()
}

// Up makes the server reachable.
func (l *Line) Up() { l.set(up, -1) }

// Down resets every connection.
func (l *Line) Down() { l.set(down, 0) }

// Silence accepts connections, and never answers.
func (l *Line) Silence() { l.set(silent, 0) }

// Stall passes on so many bytes of each connection's answers, and then nothing more.
func (l *Line) Stall(bytes int64) { l.set(up, bytes) }

// Accepted returns the number of connections.
func (l *Line) Accepted() int64 { return l.accepted.Load() }

// Sent returns the number of bytes that providers sent.
func (l *Line) Sent() int64 { return l.sent.Load() }

func (l *Line) set(m mode, stallAt int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode, l.stallAt = m, stallAt
	for c := range l.open {
		_ = c.Close()
	}
	clear(l.open)
	select {
	case <-l.arrived:
	default:
	}
}

func (l *Line) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.accepted.Add(1)
		l.wait.Go(func() { l.serve(c.(*net.TCPConn)) })
	}
}

// keep registers connections, so that a change of the mode ends them. It returns false if the mode has changed since.
func (l *Line) keep(m mode, conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.mode != m {
			_ = c.Close()
			continue
		}
		l.open[c] = true
	}
	return l.mode == m
}

func (l *Line) serve(c *net.TCPConn) {
	l.mu.Lock()
	m, backend, stallAt := l.mode, l.backend, l.stallAt
	l.mu.Unlock()
	defer func() { _ = c.Close() }()
	if m == down {
		_ = c.SetLinger(0)
		return
	}
	if !l.keep(m, c) {
		return
	}
	select {
	case l.arrived <- struct{}{}:
	default:
	}
	if m == silent {
		_, _ = io.Copy(counter{&l.sent}, c) // until the provider gives up, or the mode changes
		return
	}
	b, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", backend)
	if err != nil {
		return
	}
	defer func() { _ = b.Close() }()
	if !l.keep(m, b) {
		return
	}
	l.wait.Go(func() {
		_, _ = io.Copy(io.MultiWriter(b, counter{&l.sent}), c)
		_ = b.Close()
		_ = c.Close()
	})
	if stallAt < 0 {
		_, _ = io.Copy(c, b)
		return
	}
	_, _ = io.CopyN(c, b, stallAt)
	_, _ = io.Copy(io.Discard, b)
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return len(p), nil
}
