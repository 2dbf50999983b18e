package filter

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/audit"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

// record is all that is known of one request: what the filters found out about it, and what was answered. One is made per request, by the
// first filter that needs it. It is both the ResponseWriter, which records what was answered, and the context of the request, from which
// handlers learn the caller and the request. Metrics, access log, audit and recovery all use it. One object instead of a context for each
// finding keeps the filters cheap.
//
// A filter writes its findings before it lets the request go on, and nothing writes them afterwards: goroutines that a handler starts may
// read a record for as long as they like.
type record struct {
	http.ResponseWriter
	context.Context

	info        *request.Info  // nil until the path was understood
	user        user.Info      // nil until a user was authenticated
	credentials credentials    // those of the request, if they were verified
	decision    authz.Decision // the zero value until there was one
	status      int            // 0 until the answer began; 101 once the connection was taken over
	bytes       int64          // of the body

	audited *auditedRequest // nil where nothing is audited

	source func(*http.Request) string // returns where asked comes from; nil if that is not known
	asked  *http.Request
}

// hijackable is a record whose connection can be taken over (HTTP/1.1). It is its own type because code that looks for an http.Hijacker
// must not find one where there is none (HTTP/2).
type hijackable struct {
	record
}

type recordKey struct{}

// code is the status that the client saw. A handler that writes nothing answers 200.
func (rec *record) code() int {
	if rec.status == 0 {
		return http.StatusOK
	}
	return rec.status
}

// recorded returns the writer and the request to go on with, and the record of the request: the one that its context has, or a new one.
func recorded(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, *record) {
	if rec, ok := r.Context().Value(recordKey{}).(*record); ok {
		return w, r, rec
	}
	return newRecord(w, r)
}

// newRecord returns a new record of a request, even if its context belongs to another one.
func newRecord(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request, *record) {
	ctx := r.Context()
	if _, ok := w.(http.Hijacker); ok {
		h := &hijackable{record{ResponseWriter: w, Context: ctx}}
		return h, r.WithContext(&h.record), &h.record
	}
	rec := &record{ResponseWriter: w, Context: ctx}
	return rec, r.WithContext(rec), rec
}

// Value returns the findings under the keys of their packages, and otherwise the values of the context that the request came with.
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
			return rec.source(rec.asked) // computed only on demand, and not for each request
		}
	case request.BearerTokenKey:
		return rec.credentials.token() // and none of an outer request
	case audit.Key:
		if rec.audited != nil {
			return &rec.audited.Event
		}
		return nil // and not the event of an outer request
	case credentialsKey:
		return &rec.credentials
	}
	return rec.Context.Value(key)
}

// Unwrap serves http.ResponseController.
func (rec *record) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// WriteHeader records the final status; informational ones (RFC 9110, 15.2) come before it.
func (rec *record) WriteHeader(code int) {
	if rec.status == 0 && (code >= http.StatusOK || code == http.StatusSwitchingProtocols) {
		rec.begun(code)
	}
	rec.ResponseWriter.WriteHeader(code)
}

// Write counts the bytes that are written.
func (rec *record) Write(p []byte) (int, error) {
	rec.begin()
	n, err := rec.ResponseWriter.Write(p)
	rec.bytes += int64(n)
	if b := rec.audited.answer(); b != nil {
		_, _ = b.Write(p)
	}
	return n, err
}

// WriteString is Write without a copy of s, if the inner writer supports that.
func (rec *record) WriteString(s string) (int, error) {
	rec.begin()
	n, err := io.WriteString(rec.ResponseWriter, s)
	rec.bytes += int64(n)
	if b := rec.audited.answer(); b != nil {
		_, _ = b.Write([]byte(s))
	}
	return n, err
}

// ReadFrom uses the inner writer's fast way of copying, if it has one.
func (rec *record) ReadFrom(src io.Reader) (int64, error) {
	rec.begin()
	if b := rec.audited.answer(); b != nil {
		src = io.TeeReader(src, b)
	}
	n, err := io.Copy(rec.ResponseWriter, src)
	rec.bytes += n
	return n, err
}

// Flush sends what is buffered, if the inner writer supports that.
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
		rec.begun(http.StatusOK)
	}
}

// begun records that the answer begins.
func (rec *record) begun(code int) {
	rec.status = code
	if rec.audited != nil {
		rec.audited.began(rec)
	}
}

// Hijack takes the connection over.
func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := h.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil && h.status == 0 {
		h.begun(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}
