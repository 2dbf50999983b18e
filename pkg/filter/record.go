package filter

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// record is a ResponseWriter that remembers what was answered, and what the inner filters found out
// about the request. One is made per request, by the first filter that needs it; metrics, access
// log, audit and recovery share it. The inner filters can't hand things outward by the context,
// which travels downward only, so they note them here.
type record struct {
	http.ResponseWriter

	info     *request.Info  // nil until the path was understood
	user     user.Info      // nil until somebody was authenticated
	decision authz.Decision // the zero value until there was one
	status   int            // 0 until the answer began; 101 once the connection was taken over
	bytes    int64          // of the body
}

// hijackable is a record whose connection can be taken over (HTTP/1.1). It is a type of its own
// because code that looks for an http.Hijacker must not find one where there is none (HTTP/2).
type hijackable struct {
	record
}

// recorded returns w, wrapped unless it is a record already, and its record.
func recorded(w http.ResponseWriter) (http.ResponseWriter, *record) {
	if rec := recordOf(w); rec != nil {
		return w, rec
	}
	if _, ok := w.(http.Hijacker); ok {
		h := &hijackable{record{ResponseWriter: w}}
		return h, &h.record
	}
	rec := &record{ResponseWriter: w}
	return rec, rec
}

// recordOf returns the record behind w, and nil where there is none.
func recordOf(w http.ResponseWriter) *record {
	switch w := w.(type) {
	case *hijackable:
		return &w.record
	case *record:
		return w
	}
	return nil
}

// Unwrap serves http.ResponseController.
func (rec *record) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader remembers the final status; informational ones (RFC 9110, 15.2) come before it.
func (rec *record) WriteHeader(code int) {
	if rec.status == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		rec.status = code
	}
	rec.ResponseWriter.WriteHeader(code)
}

// Write counts.
func (rec *record) Write(p []byte) (int, error) {
	rec.begin()
	n, err := rec.ResponseWriter.Write(p)
	rec.bytes += int64(n)
	return n, err
}

// ReadFrom keeps the fast way of copying that the inner writer may have.
func (rec *record) ReadFrom(src io.Reader) (int64, error) {
	rec.begin()
	n, err := io.Copy(rec.ResponseWriter, src)
	rec.bytes += n
	return n, err
}

// Flush sends what is buffered, as far as the inner writer can.
func (rec *record) Flush() { _ = rec.FlushError() }

// FlushError is Flush for http.ResponseController.
func (rec *record) FlushError() error {
	err := http.NewResponseController(rec.ResponseWriter).Flush()
	if !errors.Is(err, http.ErrNotSupported) {
		rec.begin()
	}
	return err
}

func (rec *record) begin() {
	if rec.status == 0 {
		rec.status = http.StatusOK
	}
}

// Hijack takes the connection over.
func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && h.status == 0 {
		h.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}
