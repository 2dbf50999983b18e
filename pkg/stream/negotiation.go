package stream

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"kapis.dev/ks-apiserver/pkg/web"
)

// EventStream is the media type of server-sent events.
const EventStream = "text/event-stream"

// Source is the source of a stream's events.
type Source interface {
	// Head adds to the header of the answer.
	Head(http.Header)
	// Stream writes to out until ctx ends, out fails, or there are no more events.
	Stream(ctx context.Context, out *Writer)
	// Close releases what the source holds. It is called once, even if Stream is not.
	Close()
}

// Answer is a stream that answers a request. It is a web.Responder.
type Answer struct {
	guard  *Guard
	source Source
}

// Answer returns the answer that src writes: as a WebSocket if the request asks for one, as server-sent events if it accepts those, and
// as lines of JSON otherwise.
func (g *Guard) Answer(src Source) *Answer { return &Answer{g, src} }

// Respond implements web.Responder.
func (a *Answer) Respond(w http.ResponseWriter, r *http.Request) {
	defer a.source.Close()
	if a.guard == nil {
		web.WriteError(w, r, errors.New("the assembly lacks a stream.Guard"))
		return
	}
	s, again, err := a.guard.Over(w, r)
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	defer s.Stop()
	a.source.Head(w.Header())
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") && !web.IsHead(r) {
		a.talk(w, again, s)
		return
	}
	f := lines
	if WantsEvents(r.Header) {
		f = events
	}
	out := open(w, s, f)
	if !web.IsHead(r) && out.Flush() {
		a.source.Stream(s.ctx, out)
	}
}

// talk answers by WebSocket. The Origin of the page was checked before the request got here.
func (a *Answer) talk(w http.ResponseWriter, r *http.Request, s *Stream) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: onlyProtocol(r.Header), InsecureSkipVerify: true})
	if err != nil {
		return // it has been answered
	}
	defer func() { _ = conn.CloseNow() }()
	// Messages of the client are read only to find its end. The reader must outlive s, because the client has to be told of the end of s.
	heard := conn.CloseRead(context.WithoutCancel(s.ctx))
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(heard, cancel)()
	out := &Writer{stream: s, form: messages, conn: conn}
	a.source.Stream(ctx, out)
	out.close()
}

// onlyProtocol returns the sub-protocol of a client that names one alone, whatever it is, as kube-apiserver's watches accept it: browsers
// that send a token as a sub-protocol have to name another one, and to be answered with it. Messages are the same with any.
func onlyProtocol(h http.Header) []string {
	if lines := h["Sec-Websocket-Protocol"]; len(lines) == 1 && !strings.Contains(lines[0], ",") {
		return lines
	}
	return nil
}

// WantsEvents reports whether an Accept header prefers server-sent events to JSON (RFC 9110, 12.5.1).
func WantsEvents(h http.Header) bool {
	events := web.Quality(h, EventStream)
	return events > 0 && events >= web.Quality(h, "application/json")
}
