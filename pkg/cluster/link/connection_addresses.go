package link

import (
	"context"
	"net"
	"net/http/httptrace"
)

// Addresses are those of the connection that a WebSocket is dialled over. A WebSocket that a client has opened does not know them.
type Addresses struct{ local, remote net.Addr }

// Record returns a context to dial with, which records them.
func (a *Addresses) Record(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		a.local, a.remote = got.Conn.LocalAddr(), got.Conn.RemoteAddr()
	}})
}

// Of returns a connection over the WebSocket, which says them.
func (a *Addresses) Of(conn net.Conn) net.Conn {
	if a.remote == nil {
		return conn
	}
	return stream{conn, a.local, a.remote}
}
