package stream

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"kapis.dev/ks-apiserver/pkg/web"
)

const (
	// batch is how much is collected before it is sent: enough that a system call costs little.
	batch = 64 << 10
	// maxIdle is the largest buffer that is pooled; an object may be larger.
	maxIdle = 4 * batch
	// reconnect tells clients of server-sent events how long to wait before they reconnect.
	reconnect = "retry: 1000\n\n"
)

// form is how events are written.
type form uint8

const (
	lines    form = iota // a line of JSON each
	events               // server-sent events (WHATWG HTML, 9.2)
	messages             // a text message of a WebSocket each (RFC 6455)
)

// Writer writes the events of one stream. It collects them until Flush, which is the only one of its methods that waits for the client.
// One goroutine uses it.
type Writer struct {
	stream *Stream
	form   form
	to     *ProgressWriter // nil for messages
	conn   *websocket.Conn // for messages

	buf  *[]byte // nil while there is nothing to send
	ends []int   // for messages: where each ends
	err  error
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, batch+batch/4); return &b }}

// Events reports whether the client reads server-sent events.
func (w *Writer) Events() bool { return w.form == events }

// Event adds an event: its type, the id from which a client of server-sent events may go on (empty for none), and its JSON, in pieces.
func (w *Writer) Event(typ, id string, data ...string) {
	b := w.begin()
	if w.form == events {
		b = appendLine(append(b, "event: "...), typ)
		if id != "" {
			b = appendLine(append(b, "\nid: "...), id)
		}
		b = append(b, "\ndata: "...)
	}
	w.end(b, data)
}

// Fail adds the event that says why the stream ends. A client of server-sent events forgets its last id, and so starts over when it
// reconnects.
func (w *Writer) Fail(err error) {
	status, jsonErr := json.Marshal(web.Status(err))
	if jsonErr != nil {
		return // a Status can always be encoded
	}
	b := w.begin()
	if w.form == events {
		b = append(b, "event: ERROR\nid:\ndata: "...)
	}
	w.end(b, []string{`{"type":"ERROR","object":`, string(status), `}`})
}

// Beat shows a client of server-sent events, and the proxies before it, that the stream is alive, and updates the id from which it may go
// on. The other forms have no such event.
func (w *Writer) Beat(id string) {
	if w.form != events {
		return
	}
	b := append(w.begin(), ": ping\n"...)
	if id != "" {
		b = append(appendLine(append(b, "id: "...), id), '\n')
	}
	b = append(b, '\n')
	*w.buf = b
}

// Full reports whether it is time for Flush.
func (w *Writer) Full() bool { return w.buf != nil && len(*w.buf) >= batch }

// Flush sends the added events, and reports whether the client is still there. A client that receives nothing of them for
// Options.Progress is disconnected.
func (w *Writer) Flush() bool {
	if w.buf == nil {
		return w.err == nil
	}
	if w.form == messages {
		w.sendMessages()
	} else {
		w.send()
	}
	if cap(*w.buf) <= maxIdle {
		*w.buf = (*w.buf)[:0]
		buffers.Put(w.buf)
	}
	w.buf, w.ends = nil, w.ends[:0]
	return w.err == nil
}

func (w *Writer) send() {
	for rest := *w.buf; len(rest) > 0 && w.err == nil; {
		n := min(len(rest), batch)
		_, w.err = w.to.Write(rest[:n])
		rest = rest[n:]
	}
	if w.err == nil {
		w.err = w.to.FlushError()
	}
}

func (w *Writer) sendMessages() {
	over, from := w.stream.ctx, 0
	if Ended(over) != nil { // the client gets the reason, within its CloseTimeout
		var cancel context.CancelFunc
		over, cancel = context.WithTimeout(context.WithoutCancel(over), w.stream.guard.options.CloseTimeout)
		defer cancel()
	}
	for _, to := range w.ends {
		if w.err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(over, w.stream.guard.options.Progress)
		w.err = w.conn.Write(ctx, websocket.MessageText, (*w.buf)[from:to])
		cancel()
		from = to
	}
}

func (w *Writer) begin() []byte {
	if w.buf == nil {
		w.buf = buffers.Get().(*[]byte)
	}
	return *w.buf
}

func (w *Writer) end(b []byte, data []string) {
	n := 2
	for _, part := range data {
		n += len(part)
	}
	b = slices.Grow(b, n) // a long event is in memory once
	for _, part := range data {
		b = appendLine(b, part)
	}
	switch w.form {
	case lines:
		b = append(b, '\n')
	case events:
		b = append(b, "\n\n"...)
	case messages:
		w.ends = append(w.ends, len(b))
	}
	*w.buf = b
}

// appendLine appends JSON as one line. A line break in JSON can only be white space between its tokens:
// within a string it is written as an escape (RFC 8259, 7).
func appendLine(b []byte, s string) []byte {
	if strings.IndexByte(s, '\n') < 0 && strings.IndexByte(s, '\r') < 0 {
		return append(b, s...)
	}
	for i := range len(s) {
		c := s[i]
		if c == '\n' || c == '\r' {
			c = ' '
		}
		b = append(b, c)
	}
	return b
}

// close ends the forms of answer that need an explicit end.
func (w *Writer) close() {
	if w.form != messages {
		return
	}
	code := websocket.StatusNormalClosure
	if Ended(w.stream.ctx) != nil {
		code = websocket.StatusGoingAway
	}
	_ = w.conn.Close(code, "the stream is over")
}

// open writes the head of the answer, and returns the writer of its events.
func open(w http.ResponseWriter, s *Stream, f form) *Writer {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache, private")
	h.Set("X-Accel-Buffering", "no") // proxies must not buffer the answer
	h.Set("Content-Type", "application/json")
	if f == events {
		h.Set("Content-Type", EventStream)
	}
	w.WriteHeader(http.StatusOK)
	out := &Writer{stream: s, form: f, to: s.guard.Progress(w)}
	out.begin() // so that Flush sends the head, even if nothing follows yet
	if f == events {
		*out.buf = append(*out.buf, reconnect...)
	}
	return out
}
