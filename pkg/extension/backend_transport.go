package extension

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/inflight"
)

const (
	// atMost bounds the requests that one backend has at once, and atMostOfOne those of one user among them.
	atMost, atMostOfOne = 256, 64
)

// Upstream is a backend, whichever objects name it.
type Upstream struct {
	transport *http.Transport
	breaker   breaker

	requests *inflight.Limit[User]
}

// User is the caller of a backend, as its bounds count them: the service accounts of a namespace are one.
type User struct{ UID, Name string }

// Down says that a backend is not asked for a while, since it could not be reached.
type Down struct{ For time.Duration }

// watchedBody is the body of a request, which its client may break off or make too large: nothing that the backend is to blame for.
type watchedBody struct {
	io.ReadCloser
	failed atomic.Bool
}

// ErrHeaderTimeout is the cause with which a request is ended whose answer has not begun in time.
var ErrHeaderTimeout = errors.New("no answer has begun in time")

func newUpstream(a *Address, o *Options) *Upstream {
	t := a.Transport(o.Egress)
	t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 32, 0 // Enter bounds them
	// Each request under way has a connection of its own: one of HTTP/2 is shared, and a body that the backend does not read would hold the
	// bodies of all others on it. Besides, HTTP/2 has no upgrades.
	t.ForceAttemptHTTP2, t.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	t.TLSClientConfig.GetClientCertificate = o.ClientCertificate
	t.DisableCompression = true // an answer is passed on as it is
	return &Upstream{requests: inflight.New[User](atMost, atMostOfOne), transport: t}
}

// Error says so.
func (d *Down) Error() string {
	return "the backend could not be reached lately, and is not asked for a while"
}

// Enter counts a request of a user, until leave is called once. Its errors are those of inflight.Limit and a Down.
func (u *Upstream) Enter(user User, now time.Time) (leave func(), err error) {
	if inflight.IsServiceAccount(user.Name) {
		user = User{Name: inflight.OwnerOf(user.Name)}
	}
	end, err := u.requests.Enter(user)
	if err != nil {
		return nil, err
	}
	wait, trial := u.breaker.enter(now)
	if wait > 0 {
		end()
		return nil, &Down{wait}
	}
	return func() {
		if trial {
			u.breaker.left() // it may never have been sent
		}
		end()
	}, nil
}

// RoundTrip sends a request to the backend, and notes whether it could be reached. What fails before a connection is asked for (a request
// that can't be written), or after an answer has begun (its header is too large), says nothing of that: a client may have caused it.
func (u *Upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	var asked, began atomic.Bool // the transport sets them from other goroutines, too
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) }, GotFirstResponseByte: func() { began.Store(true) },
	})) // a copy: a RoundTripper changes no request
	var sent *watchedBody
	if r.Body != nil && r.Body != http.NoBody {
		sent = &watchedBody{ReadCloser: r.Body}
		r.Body = sent
	}
	resp, err := u.transport.RoundTrip(r)
	late := errors.Is(context.Cause(r.Context()), ErrHeaderTimeout)
	switch {
	case err == nil:
		u.breaker.worked()
	case !late && (r.Context().Err() != nil || !asked.Load() || began.Load()), sent != nil && sent.failed.Load():
		u.breaker.left()
	default:
		u.breaker.broke(time.Now())
	}
	return resp, err
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.failed.Store(true)
	}
	return n, err
}

// close ends connections that nothing goes over. What is under way goes on.
func (u *Upstream) close() { u.transport.CloseIdleConnections() }
