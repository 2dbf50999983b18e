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
		BaseContext: func(net.Listener) context.Context { return marked(context.WithoutCancel(ctx)) },
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

// split passes CONNECT streams on to the server of upgrades.
func (h *Handler) split(upgrades *upgradeServer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			h.Handler.ServeHTTP(w, r)
			return
		}
		if r.Host != streamHost {
			http.Error(w, "only streams for upgrades are served", http.StatusNotFound)
			return
		}
		upgrades.serve(w, r)
	})
}

// upgradeServer speaks HTTP/1.1 in CONNECT streams.
type upgradeServer struct {
	server        *http.Server
	conns         chan net.Conn
	ended         chan struct{}
	once          sync.Once
	local, remote net.Addr
}

func (h *Handler) serveUpgrades(conn net.Conn) *upgradeServer {
	u := &upgradeServer{conns: make(chan net.Conn), ended: make(chan struct{}), local: conn.LocalAddr(), remote: conn.RemoteAddr()}
	u.server = &http.Server{
		Handler: h.Handler, ErrorLog: h.Log, ReadHeaderTimeout: handshakeTimeout,
		BaseContext: func(net.Listener) context.Context { return marked(context.Background()) },
	}
	go func() { _ = u.server.Serve(u) }()
	return u
}

// serve has a stream served as a connection, until it is closed.
func (u *upgradeServer) serve(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	if out.Flush() != nil {
		return
	}
	s, over := newStream(r.Body, flushing{w, out}, func() { _ = r.Body.Close() }, u.local, u.remote)
	defer func() {
		_ = s.Close()
		<-over // nothing may be written after the handler
	}()
	select {
	case u.conns <- s:
	case <-u.ended:
		return
	case <-r.Context().Done():
		return
	}
	select {
	case <-over:
	case <-u.ended:
	case <-r.Context().Done():
	}
}

func (u *upgradeServer) close() {
	_ = u.server.Close()
	_ = u.Close()
}

// Accept implements net.Listener.
func (u *upgradeServer) Accept() (net.Conn, error) {
	select {
	case c := <-u.conns:
		return c, nil
	case <-u.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (u *upgradeServer) Close() error {
	u.once.Do(func() { close(u.ended) })
	return nil
}

// Addr implements net.Listener.
func (u *upgradeServer) Addr() net.Addr { return u.local }

// flushing sends each write at once.
type flushing struct {
	http.ResponseWriter
	out *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}

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
