package cluster_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
)

// mutable is a connection whose network can fall silent: nothing arrives any more, and nothing says so.
type mutable struct {
	net.Conn
	silent, closed chan struct{}
	once           sync.Once
}

func (m *mutable) Read(b []byte) (int, error) {
	n, err := m.Conn.Read(b)
	select {
	case <-m.silent:
		<-m.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (m *mutable) Write(b []byte) (int, error) {
	select {
	case <-m.silent:
		return len(b), nil
	default:
		return m.Conn.Write(b)
	}
}

func (m *mutable) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.Conn.Close()
}

// F6: a link on which nothing arrives any more ends 10 s later, and the member can be dialled again: what was asked, and given up, meanwhile
// does not hold it up.
func TestASilentLinkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := linktest.NewAuthority(t)
		linked := make(chan bool, 8)
		m := &cluster.Members{Identity: a.Hub(t), Host: "host", Now: time.Now}
		m.Changed = func(c *cluster.Member) { on, _ := c.Linked(); linked <- on }
		m.Set(object(t, "m1", uid, nil))
		hub, member := net.Pipe()
		silent := make(chan struct{})
		ctx, end := context.WithCancel(t.Context())
		defer end()
		go func() {
			_ = (&link.Handler{Identity: a.Member(t, uid), Handler: http.NotFoundHandler()}).Serve(ctx, member, 0)
		}()
		served := make(chan error, 1)
		go func() {
			served <- m.Serve(ctx, &mutable{Conn: hub, silent: silent, closed: make(chan struct{})}, uid, func() {})
		}()
		if !<-linked {
			t.Fatal("the member is not linked")
		}
		begun := time.Now()
		close(silent)
		given, giveUp := context.WithTimeout(ctx, time.Second)
		defer giveUp()
		if _, err := m.ByName("m1").RoundTrip(request(t).WithContext(given)); err == nil { //nolint:bodyclose // there is none
			t.Error("a silent member answers")
		}
		if <-linked {
			t.Error("the member is linked")
		}
		<-served
		if got, want := time.Since(begun), 10*time.Second; got != want { // 5 s of silence, and 5 s for an answer
			t.Errorf("the link is over after %v, want %v", got, want)
		}
	})
}
