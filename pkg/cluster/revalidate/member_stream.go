package revalidate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster/link"
)

// askedAtOnce bounds the asks of one stream that are answered at once.
const askedAtOnce = 16

// Member answers, in a member cluster, the stream of its hub.
type Member struct {
	// Next answers the questions, as it answers requests of the hub.
	Next http.Handler
	// Changes returns a number that grows after each change of what answers are made of, and a channel that is closed when it grows next.
	Changes func() (n uint64, next <-chan struct{})
	// Drain ends streams when it is done.
	Drain context.Context
}

// ServeHTTP implements http.Handler.
func (m *Member) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !link.FromHub(r.Context()) || r.Method != http.MethodPost || r.Header.Get("Content-Type") != contentType {
		http.NotFound(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if m.Drain != nil {
		defer context.AfterFunc(m.Drain, cancel)()
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(http.StatusOK)
	s := &memberStream{Member: m, request: r, to: w, flush: http.NewResponseController(w).Flush, cancel: cancel, armed: make(chan struct{}, 1)}
	if s.flush() != nil {
		return
	}
	var running sync.WaitGroup
	defer running.Wait() // nothing may be written after the handler
	defer cancel()
	running.Go(func() { s.tellChanges(ctx) })
	running.Go(func() {
		<-ctx.Done()
		_ = r.Body.Close() // ends the reading of lines
	})
	slots := make(chan struct{}, askedAtOnce)
	for lines := scanner(r.Body, maxAsk); lines.Scan(); {
		var a ask
		if json.Unmarshal(lines.Bytes(), &a) != nil || a.N == 0 {
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		running.Go(func() {
			defer func() { <-slots }()
			s.answer(ctx, &a)
		})
	}
}

// scanner reads lines of bounded length.
func scanner(from io.Reader, most int) *bufio.Scanner {
	s := bufio.NewScanner(from)
	s.Buffer(make([]byte, 0, min(most, 4<<10)), most)
	return s
}

// memberStream is one stream.
type memberStream struct {
	*Member
	request *http.Request
	cancel  context.CancelFunc
	// armed gets something when there is a change to wait for.
	armed chan struct{}

	mu    sync.Mutex
	to    http.ResponseWriter
	flush func() error
	// confirmed says that the hub was told of something that is as before, and seen is the least number of changes at which that was so.
	confirmed bool
	seen      uint64
}

// answer answers an ask.
func (s *memberStream) answer(ctx context.Context, a *ask) {
	before, _ := s.Changes() // and not afterwards: what changes meanwhile is told
	same := s.all(ctx, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if same && (!s.confirmed || before < s.seen) {
		s.confirmed, s.seen = true, before
		select {
		case s.armed <- struct{}{}:
		default:
		}
	}
	s.write(news{N: a.N, Same: same})
	s.tell()
}

// tell says that something has changed, once after a confirmation. The lock is held.
func (s *memberStream) tell() {
	if n, _ := s.Changes(); s.confirmed && n != s.seen {
		s.confirmed = false
		s.write(news{})
	}
}

// tellChanges says after each confirmation that something has changed, until ctx ends. It costs nothing while nothing is confirmed.
func (s *memberStream) tellChanges(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-s.armed:
		case <-ctx.Done():
		}
		for {
			_, next := s.Changes()
			if !s.waits() {
				break
			}
			select {
			case <-next:
			case <-ctx.Done():
				return
			}
		}
	}
}

// waits says that something has changed, if it has, and reports whether there is still a change to wait for.
func (s *memberStream) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell()
	return s.confirmed
}

// write writes a line. The lock is held.
func (s *memberStream) write(n news) {
	text, err := json.Marshal(n)
	if err == nil {
		_, err = s.to.Write(append(text, '\n'))
	}
	if err == nil {
		err = s.flush()
	}
	if err != nil {
		s.cancel()
	}
}

// all reports whether all questions would be answered as before.
func (s *memberStream) all(ctx context.Context, a *ask) bool {
	var h http.Header
	if json.Unmarshal(a.Header, &h) != nil || len(a.Questions) == 0 {
		return false
	}
	for i := range a.Questions {
		if ctx.Err() != nil || !s.same(ctx, &a.Questions[i], h) {
			return false
		}
	}
	return true
}

// same asks Next one question, and reports whether the answer is as before.
func (s *memberStream) same(ctx context.Context, q *Question, h http.Header) (same bool) {
	if !isAnswer(q.Path) || (q.Code == http.StatusOK) != (q.Tag != "") {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	u := &url.URL{Path: q.Path, RawQuery: q.Query}
	of := s.request
	r := (&http.Request{Method: http.MethodGet, URL: u, RequestURI: u.RequestURI(), Header: canonical(h), Body: http.NoBody, Host: of.Host,
		RemoteAddr: of.RemoteAddr, Proto: of.Proto, ProtoMajor: of.ProtoMajor, ProtoMinor: of.ProtoMinor}).WithContext(ctx)
	want := q.Code
	if q.Tag != "" {
		r.Header["If-None-Match"], want = []string{q.Tag}, http.StatusNotModified
	}
	w := &codeWriter{header: http.Header{}}
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			klog.ErrorS(nil, "panic in a question of the hub", "path", q.Path, "panic", p, "stack", string(debug.Stack()))
		}
		same = false
	}()
	s.Next.ServeHTTP(w, r)
	return w.code == want
}

// canonical returns the headers of a question under the names that readers look for.
func canonical(h http.Header) http.Header {
	out := make(http.Header, len(h)+1)
	for name, values := range h {
		for _, v := range values {
			out.Add(name, v)
		}
	}
	out.Del("If-None-Match")
	return out
}

// codeWriter is the http.ResponseWriter of a question: only the code counts, and a whole answer is not made.
type codeWriter struct {
	header http.Header
	code   int
}

var errEnough = errors.New("the answer is another one: nobody reads it")

// Header implements http.ResponseWriter.
func (w *codeWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *codeWriter) WriteHeader(code int) {
	if w.code == 0 && code >= http.StatusOK {
		w.code = code
	}
}

// Write implements http.ResponseWriter.
func (w *codeWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.code == http.StatusOK {
		return 0, errEnough
	}
	return len(p), nil
}
