// Package stream is for requests that go on for long: watches, live pages, terminals, what is passed on
// for as long as both sides like. A Guard ends them when their caller may no longer make them and when
// this server stops, bounds how many there are, and cuts clients that read nothing. A Writer is how the
// events of one are written: as lines of JSON, as server-sent events, or as messages of a WebSocket.
package stream
