package filter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// BodyStallTimeout is how long a client may pause while it sends a body that is being read.
const BodyStallTimeout = 30 * time.Second

// bodyDrainTimeout is how long all bodies together may still take when the server stops.
const bodyDrainTimeout = 3 * time.Second

var errSlowBody error = status.Errorf(http.StatusRequestTimeout, "the body of the request did not come: send it without pauses")

// Body times out request bodies that stall for stallTimeout, so that no client, logged in or not, holds a request open by announcing a body
// that it never sends: reading ends with a Status of code 408, and so does net/http's own reading of what a handler left, after which the
// connection is closed. Every byte that arrives restarts the timeout. Once drain is done there is little time left.
//
// After a chunked body the connection is closed: there may have been a Content-Length too, by which a server before this one takes
// something else for the next request (RFC 9112, 6.1), and net/http has removed it.
//
// It precedes all filters that answer, and follows Observe.
func Body(drain context.Context, stallTimeout time.Duration) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil || r.Body == http.NoBody {
				next.ServeHTTP(w, r)
				return
			}
			if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
				w.Header().Set("Connection", "close")
			}
			w, r, _ = recorded(w, r) // a copy: net/http depends on the type of body that its own request has
			b := &awaited{
				ReadCloser: r.Body, control: http.NewResponseController(w), drain: drain, stallTimeout: stallTimeout, rests: r.ProtoMajor == 1,
			}
			r.Body = b
			// Nobody asks for trailers. net/http writes this map in whichever goroutine reads the end of the body, while Recheck may
			// copy the request in another.
			r.Trailer = nil
			b.begin()
			defer b.leave()
			defer context.AfterFunc(drain, b.hurry)()
			next.ServeHTTP(w, r)
		})
	}
}

// awaited is a request body with a deadline.
//
// With HTTP/1 the deadline is the connection's. It rests between reads, because net/http itself reads what is left before it answers.
// After the end of the body net/http waits on the connection for the client to close it, which must have no deadline: net/http clears it
// when it begins to wait, and from then on nothing here may set it. With HTTP/2 a deadline that passes breaks the body permanently, so
// there is one only during a read.
type awaited struct {
	io.ReadCloser
	control      *http.ResponseController
	drain        context.Context //nolint:containedctx // of the server, not of the request
	stallTimeout time.Duration
	rests        bool

	mu    sync.Mutex
	until time.Time // no deadline is later than this, once the server stops
	set   bool      // there is a deadline
	loose bool      // reading may take any time
	ended bool      // the end of the body was read
	over  bool      // the handler has returned: the connection may serve the next request
}

// Read implements io.Reader.
func (b *awaited) Read(p []byte) (int, error) {
	b.await()
	n, err := b.ReadCloser.Read(p)
	b.came(err)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errSlowBody
	}
	return n, err
}

// begin sets the deadline for a body that no handler reads.
func (b *awaited) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rests {
		b.renew()
	}
}

func (b *awaited) await() {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.ended || b.over:
	case b.loose:
		b.lift()
	default:
		b.renew()
	}
}

func (b *awaited) came(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = b.ended || err == io.EOF //nolint:errorlint // io.Reader's own
	if !b.rests && !b.over {
		b.lift()
	}
}

// loosen lets the body take any time while a handler reads it.
func (b *awaited) loosen() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loose = true
}

// hurry leaves little time for the rest.
func (b *awaited) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.set && !b.ended && !b.over {
		b.renew()
	}
}

// leave sets the deadline for what the handler has left of the body, which net/http reads.
func (b *awaited) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rests && !b.ended {
		b.renew()
	}
	b.over = true
}

// renew moves the deadline. A connection that can't have one is trusted.
func (b *awaited) renew() {
	now := time.Now()
	at := now.Add(b.stallTimeout)
	if b.drain.Err() != nil {
		if b.until.IsZero() {
			b.until = now.Add(bodyDrainTimeout)
		}
		if b.until.Before(at) {
			at = b.until
		}
	}
	b.set = b.control.SetReadDeadline(at) == nil
}

func (b *awaited) lift() {
	if b.set {
		_ = b.control.SetReadDeadline(time.Time{})
		b.set = false
	}
}

// MaxBody is how many bytes the body of a request may have: as many as kube-apiserver and etcd accept.
const MaxBody = 3 << 20

// Limit refuses bodies of more than maxBody bytes with 413: at once if the length is declared, otherwise when a read passes the limit. A
// body that is streamed through kube-apiserver to a workload (the proxy sub-resource) is not an object of the API, and has no limit and
// no timeout here. Requests for which exempt is true have a limit of their own; exempt may be nil.
func Limit(maxBody int64, exempt func(*request.Info) bool) Filter {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Body == nil || r.Body == http.NoBody {
				next.ServeHTTP(w, r)
				return
			}
			info := request.InfoFrom(r.Context())
			if streamed(info) {
				if b, ok := r.Body.(*awaited); ok {
					b.loosen()
				}
				next.ServeHTTP(w, r)
				return
			}
			if info != nil && exempt != nil && exempt(info) {
				next.ServeHTTP(w, r)
				return
			}
			if r.ContentLength > maxBody {
				w.Header().Set("Connection", "close") // the body is not going to be read
				web.WriteError(w, r, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the body may have %d bytes at most", maxBody)))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			next.ServeHTTP(w, r)
		})
	}
}

func streamed(i *request.Info) bool {
	return i != nil && i.IsKubernetes && i.IsResource && (i.Subresource == "proxy" || i.Verb == "proxy")
}
