package link

import (
	"context"
	"net"
	"net/http"
	"sync"
)

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
