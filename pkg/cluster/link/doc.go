// Package link carries HTTP requests of a hub to a member cluster over one connection, whichever of them has dialled it.
//
// From the outside in, a link is a stream of bytes (a WebSocket, or any net.Conn), TLS 1.3 in which both ends prove a certificate of the
// fleet's authority (RFC 8446), and HTTP/2 (RFC 9113) in which the hub is the client. So no proxy between them sees a token or an answer,
// a request has its own cancellation, flow control and end, and a slow one holds no other up. What needs HTTP/1.1, as upgrades do,
// travels in a CONNECT stream to the member's handler.
package link
