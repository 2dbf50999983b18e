// Package stream is for requests that go on for long: watches, live pages, terminals, what is passed on
// for as long as both sides like.
//
// A Guard watches over them. It judges each again every 2 s, and ends it when its caller may no longer make it or
// this server stops; it bounds how many there are (1000 of a user, 10 000 in all: 429), and cuts clients that take
// nothing for 30 s. A stream costs a timer between two checks, no goroutine of its own.
//
// A Source is what a stream tells of, and Guard.Answer what answers a request with one. A Writer is how its events
// are written: as lines of JSON, as server-sent events (WHATWG HTML, 9.2), or as messages of a WebSocket (RFC 6455).
// What a Writer is given it collects, and Flush alone waits for the client: so a Source knows when it waits, and
// holds no more than it must meanwhile.
package stream
