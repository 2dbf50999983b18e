package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Handler serves what comes over links, on the member.
type Handler struct {
	Identity Identity
	// Handler answers the requests. FromHub reports true for them, and for no other.
	Handler http.Handler
	// Opened is called once, when the handshake has ended, well or not; nil for nothing.
	Opened func()
	// Log gets what net/http complains about; nil for nothing.
	Log *log.Logger
}

type fromHubKey struct{}

// FromHub reports whether a request came over a link, so that the hub of this fleet has sent it.
func FromHub(ctx context.Context) bool { return ctx.Value(fromHubKey{}) != nil }

// The headers in which a hub names the user for whom it sends a request. Its own requests have none of them.
const (
	HeaderUser  = "X-Remote-User"
	HeaderUID   = "X-Remote-Uid"
	HeaderGroup = "X-Remote-Group"
	// HeaderScope restricts what the user's credential may do (authz.ExtraScope).
	HeaderScope = "X-Remote-Extra-Scope"
)

// NamesUser reports whether the headers of a request from the hub name a user, so that it is that user's and not the hub's own.
func NamesUser(h http.Header) bool {
	return len(h[HeaderUser]) > 0 || len(h[HeaderUID]) > 0 || len(h[HeaderGroup]) > 0 || len(h[HeaderScope]) > 0
}

func marked(ctx context.Context) context.Context { return context.WithValue(ctx, fromHubKey{}, true) }

// Serve makes a link of a connection, and serves the hub's requests until the link ends; nil if ctx ended it. It owns the connection. When
// ctx ends, the hub is told to send no more requests, and those that run have the grace to end.
func (h *Handler) Serve(ctx context.Context, conn net.Conn, grace time.Duration) error {
	opened := h.Opened
	if opened == nil {
		opened = func() {}
	}
	config, err := h.Identity.member()
	if err != nil {
		opened()
		_ = conn.Close()
		return err
	}
	secured := tls.Server(conn, config)
	shake, cancel := context.WithTimeout(ctx, handshakeTimeout)
	err = secured.HandshakeContext(shake)
	cancel()
	opened()
	if err != nil {
		_ = conn.Close()
		return fmt.Errorf("open a link to the hub: %w", explained(err))
	}
	if p := secured.ConnectionState().NegotiatedProtocol; p != "h2" {
		_ = conn.Close()
		return fmt.Errorf("open a link to the hub: it speaks %q, not HTTP/2", p)
	}
	once := newSingle(secured)
	upgrades := h.serveUpgrades(conn)
	defer upgrades.close()
	server := &http.Server{
		Handler: h.split(upgrades), Protocols: onlyHTTP2(), HTTP2: http2(toMember, toMemberAll), ErrorLog: h.Log,
		// Not of ctx, which may be that of the request by which the hub has dialled: its connection and its record are of that alone.
		BaseContext: func(net.Listener) context.Context { return marked(context.Background()) },
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				once.end()
			}
		},
		ReadHeaderTimeout: handshakeTimeout,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if server.Shutdown(last) != nil { //nolint:contextcheck // it begins when ctx has ended
			_ = server.Close()
		}
	})
	err = server.Serve(once)
	if !stop() {
		<-stopped
		return nil
	}
	if errors.Is(err, errEnded) {
		return errEnded
	}
	return fmt.Errorf("serve a link: %w", err)
}

// errEnded says that the hub, or what is between, has closed the link.
var errEnded = errors.New("the link has ended")

// single is a listener with one connection. Accept returns errEnded when that has ended.
type single struct {
	conn  chan net.Conn
	ended chan struct{}
	once  sync.Once
	addr  net.Addr
}

func newSingle(c net.Conn) *single {
	s := &single{conn: make(chan net.Conn, 1), ended: make(chan struct{}), addr: c.LocalAddr()}
	s.conn <- c
	return s
}

func (s *single) end() { s.once.Do(func() { close(s.ended) }) }

// Accept implements net.Listener.
func (s *single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conn:
		return c, nil
	case <-s.ended:
		return nil, errEnded
	}
}

// Close implements net.Listener.
func (s *single) Close() error {
	s.end()
	return nil
}

// Addr implements net.Listener.
func (s *single) Addr() net.Addr { return s.addr }
