// Package stream is for long requests: watches, live pages, terminals, and proxied connections that last as long as both sides like.
//
// A Guard watches over them. It checks each again every 2 s, and ends it when its caller may no longer make it or this server stops; it
// bounds how many there are (1000 of a user, 10 000 in all: 429), and disconnects clients that read nothing for 30 s. A stream costs a
// timer between two checks, no goroutine of its own.
//
// A Source has a stream's events, and Guard.Answer answers a request with one. A Writer writes the events: as lines of JSON, as
// server-sent events (WHATWG HTML, 9.2), or as messages of a WebSocket (RFC 6455). It collects them, and only Flush waits for the client:
// so a Source knows when it waits, and holds no more than it must meanwhile.
package stream
