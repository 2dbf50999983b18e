package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/request"
)

// The defaults of Options.
const (
	DefaultRecheckEvery = 2 * time.Second
	DefaultCloseTimeout = 3 * time.Second
	DefaultProgress     = 30 * time.Second
	DefaultPatience     = 15 * time.Minute
	DefaultPerUser      = 1000
	DefaultTotal        = 10_000
)

const (
	// checkTimeout bounds one check, so that a check that hangs ends the request too.
	checkTimeout = 2 * time.Second
	// retryAfter is how many seconds a client should wait after it was refused because of too many streams.
	retryAfter = 5
)

// Options configure a Guard.
type Options struct {
	// Recheck checks a long request again; an error ends it. The client gets the error only if it is 410 (Expired), which says that it may
	// list again. It gets a context that ends with the request, or with the check's time. Nil means that nothing is checked again: for tests
	// only.
	Recheck func(context.Context, *http.Request) error
	// RecheckEvery is the time between two checks of one request (DefaultRecheckEvery, so that a withdrawn right ends well within the 5 s
	// that the product promises).
	RecheckEvery time.Duration
	// Drain ends all long requests, cleanly, when it is done. Nil means never.
	Drain context.Context
	// CloseTimeout is how long a client may take to receive the end of its stream, and how long one side of an upgraded connection may stay
	// open after the other has closed (DefaultCloseTimeout).
	CloseTimeout time.Duration
	// Progress is how long a client may take to receive one write (DefaultProgress), and Patience how long if somebody may be reading the
	// answer page by page, as a log (DefaultPatience).
	Progress, Patience time.Duration
	// PerUser and Total are how many streams there may be (DefaultPerUser, DefaultTotal). The service accounts of a namespace count as one
	// user, and all service accounts have half of Total at most: whoever may make namespaces has as many of these users as they make.
	PerUser, Total int
}

// Guard watches over long requests.
type Guard struct {
	options Options
	streams *inflight.Limit[string]
}

// New returns a Guard.
func New(o Options) *Guard {
	if o.RecheckEvery <= 0 {
		o.RecheckEvery = DefaultRecheckEvery
	}
	if o.CloseTimeout <= 0 {
		o.CloseTimeout = DefaultCloseTimeout
	}
	if o.Progress <= 0 {
		o.Progress = DefaultProgress
	}
	if o.Patience <= 0 {
		o.Patience = DefaultPatience
	}
	if o.Drain == nil {
		o.Drain = context.Background()
	}
	if o.PerUser <= 0 {
		o.PerUser = DefaultPerUser
	}
	if o.Total <= 0 {
		o.Total = DefaultTotal
	}
	return &Guard{options: o, streams: inflight.NewByUser(o.Total, o.PerUser)}
}

// Over begins to watch over r. The caller goes on with the request that it returns, and calls Stop when that is done. The error is a 429
// if there are too many streams already.
func (g *Guard) Over(w http.ResponseWriter, r *http.Request) (*Stream, *http.Request, error) {
	who := ""
	if u := request.UserFrom(r.Context()); u != nil {
		who = u.GetName()
	}
	leave, err := g.enter(who)
	if err != nil {
		return nil, nil, err
	}
	s := &Stream{guard: g, leave: leave, rc: http.NewResponseController(w)}
	ctx, cancel := context.WithCancelCause(r.Context())
	s.ctx, s.cancel = context.WithValue(ctx, streamKey{}, s), cancel
	r = r.WithContext(s.ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.undrain = context.AfterFunc(g.options.Drain, func() { s.end(&endedError{errStopping(), Stopping}) })
	if g.options.Recheck != nil {
		// A timer, not a goroutine: between two checks, a stream costs no stack.
		s.timer = time.AfterFunc(g.options.RecheckEvery, func() { g.check(s, r) })
	}
	return s, r, nil
}

func errStopping() error {
	e := apierrors.NewServiceUnavailable("this server is stopping: try again")
	e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return e
}

// enter counts a stream. The error is a 429.
func (g *Guard) enter(who string) (func(), error) {
	leave, err := g.streams.Enter(inflight.OwnerOf(who))
	switch {
	case errors.Is(err, inflight.ErrFullForOwner):
		return nil, apierrors.NewTooManyRequests(
			fmt.Sprintf("%s %d streams open, as many as one may have: close some", inflight.Has(who), g.options.PerUser), retryAfter)
	case errors.Is(err, inflight.ErrFullForServiceAccounts):
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("service accounts have %d streams open at this server, as many as it takes of them",
			max(1, g.options.Total/2)), retryAfter)
	case err != nil:
		return nil, apierrors.NewTooManyRequests(fmt.Sprintf("this server has %d streams open, as many as it takes", g.options.Total), retryAfter)
	}
	return leave, nil
}

func (g *Guard) check(s *Stream, r *http.Request) {
	err := g.recheck(s, r)
	if s.ctx.Err() != nil {
		return
	}
	if err != nil {
		klog.V(2).InfoS("ending a request that is no longer allowed", "method", r.Method, "path", r.URL.Path, "reason", err)
		s.end(endOf(err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.timer.Reset(g.options.RecheckEvery)
	}
}

// recheck checks whether s may go on. No caller of a timer's function recovers: a panic here would end the process.
func (g *Guard) recheck(s *Stream, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			klog.ErrorS(nil, "panic while a stream was checked again: it ends", "method", r.Method, "path", r.URL.Path, "panic", p, "stack",
				string(debug.Stack()))
			err = fmt.Errorf("check a stream again: %v", p)
		}
	}()
	ctx, cancel := context.WithTimeout(s.ctx, checkTimeout)
	defer cancel()
	return g.options.Recheck(ctx, r)
}

// endOf returns the end of a stream that may not go on because of err.
func endOf(err error) *endedError {
	switch {
	case apierrors.IsResourceExpired(err):
		return &endedError{err, RightEnded}
	case apierrors.IsForbidden(err):
		return &endedError{errEnded(), RightEnded}
	}
	return &endedError{errEnded(), CredentialsEnded}
}

func errEnded() error {
	return apierrors.NewUnauthorized("the credentials or the right of this request have ended")
}

// End is why this server ended a stream.
type End uint8

const (
	// NotEnded is the End of a stream that goes on, or that another side ended.
	NotEnded End = iota
	// Stopping means that this server stops.
	Stopping
	// CredentialsEnded means that the token, the session or the user has ended, or that it could not be told whether they have.
	CredentialsEnded
	// RightEnded means that the caller may not make the request any more, or may see something else by it.
	RightEnded
)

// EndOf returns why this server ended the request of ctx.
func EndOf(ctx context.Context) End {
	var e *endedError
	if errors.As(context.Cause(ctx), &e) {
		return e.end
	}
	return NotEnded
}

// endedError is the cause of a stream that this server ended, and the error for a client that has no answer yet.
type endedError struct {
	err error
	end End
}

func (e *endedError) Error() string { return e.err.Error() }
func (e *endedError) Unwrap() error { return e.err }

// Ended returns why this server ended the request of ctx, or nil if it did not.
func Ended(ctx context.Context) error {
	var e *endedError
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}
