package filter

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// record is all that is known of one request: what the filters found out about it, and what was
// answered. One is made per request, by the first filter that needs it. It goes down the road twice:
// as the ResponseWriter, which remembers what was answered, and as the context of the request, from
// which handlers learn who asks for what. Outward it tells metrics, access log, audit and recovery
// the same. One object in the place of a context for each finding keeps the road cheap.
//
// A filter writes its finding before it lets the request go on, and nobody writes afterwards: what a
// handler starts may read a record for as long as it likes.
type record struct {
	http.ResponseWriter
	context.Context

	info        *request.Info  // nil until the path was understood
	user        user.Info      // nil until somebody was authenticated
	credentials credentials    // what the request came with, where they were judged
	decision    authz.Decision // the zero value until there was one
	status      int            // 0 until the answer began; 101 once the connection was taken over
	bytes       int64          // of the body

	source func(*http.Request) string // tells where asked comes from; nil where nobody can
	asked  *http.Request
}

// hijackable is a record whose connection can be taken over (HTTP/1.1). It is a type of its own
// because code that looks for an http.Hijacker must not find one where there is none (HTTP/2).
type hijackable struct {
	record
}

type recordKey struct{}

// recorded returns what to go on with, and the record of the request: the one that its context has,
// or a new one.
func recorded(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, *record) {
	if rec, ok := r.Context().Value(recordKey{}).(*record); ok {
		return w, r, rec
	}
	return newRecord(w, r)
}

// newRecord makes a record of a request, and of no other that its context may be of.
func newRecord(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, *record) {
	ctx := r.Context()
	if _, ok := w.(http.Hijacker); ok {
		h := &hijackable{record{ResponseWriter: w, Context: ctx}}
		return h, r.WithContext(&h.record), &h.record
	}
	rec := &record{ResponseWriter: w, Context: ctx}
	return rec, r.WithContext(rec), rec
}

// Value returns what was found out already under the keys of its packages, and otherwise what the
// context has that the request came with.
func (rec *record) Value(key any) any {
	switch key.(type) {
	case recordKey:
		return rec
	case request.InfoKey:
		if rec.info != nil {
			return rec.info
		}
	case request.UserKey:
		if rec.user != nil {
			return rec.user
		}
	case authz.DecisionKey:
		return &rec.decision
	case request.SourceKey:
		if rec.source != nil {
			return rec.source(rec.asked) // found out for the few that ask, and not for each request
		}
	case credentialsKey:
		return &rec.credentials
	}
	return rec.Context.Value(key)
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

// WriteString is Write without a copy of s, as far as the inner writer can.
func (rec *record) WriteString(s string) (int, error) {
	rec.begin()
	n, err := io.WriteString(rec.ResponseWriter, s)
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
