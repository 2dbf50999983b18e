package recording

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/terminal"
)

const (
	// maxCast bounds a cast, in bytes.
	maxCast = 100 << 20
	// maxWaiting bounds what waits to be written of one recording, and maxHeld of all together, in bytes.
	maxWaiting = 1 << 20
	maxHeld    = 32 << 20
	// maxRecordings bounds the recordings that are open or being finished.
	maxRecordings = 2000
	// openTimeout is how long a session waits for its recording to be opened, in the mode Strict.
	openTimeout = 5 * time.Second
	// checkEvery is how often a recording without events is checked, and stall how long writing may take in the mode Strict. A session that
	// is not recorded ends within 5 s: so these are less.
	checkEvery = 2 * time.Second
	stall      = 3 * time.Second
	// retryEvery is the time between attempts to write where writing fails, in the mode BestEffort.
	retryEvery = time.Second
	// finishTimeout bounds how long a recording may take to be finished.
	finishTimeout = 15 * time.Second
)

// Sink is where recordings go. A Folder and a Webhook are.
type Sink interface {
	// Open opens a recording, which may be written to until ctx ends. meta is its sidecar so far.
	Open(ctx context.Context, id string, meta []byte) (Store, error)
	// Run does what has to be done now and then, until ctx ends.
	Run(ctx context.Context)
}

// Store takes one recording. It is used by one goroutine.
type Store interface {
	// Write writes p whole. After an error nothing of it counts as written.
	Write(p []byte) error
	// Check returns why what was written so far is lost, or nil.
	Check() error
	// Lost has an element when Check may return an error now.
	Lost() <-chan error
	// Finish ends the recording. meta is the whole sidecar; nil means that there was no session, so that nothing needs to remain.
	Finish(ctx context.Context, meta []byte) error
}

// Options are those of a Recorder.
type Options struct {
	Sink Sink
	// Strict means that no session is opened, or goes on, unrecorded.
	Strict bool
	// Input means that what is typed is recorded too: also passwords, which no terminal shows.
	Input bool
	// Redact are patterns whose matches within a line are not recorded.
	Redact     []*regexp.Regexp
	Registerer prometheus.Registerer
	Now        func() time.Time
}

// Recorder records sessions. It is a terminal.Recorder.
type Recorder struct {
	Options
	metrics *metrics
	limit   int64 // of a cast; less in tests

	held  atomic.Int64 // bytes that wait, of all recordings
	open  atomic.Int64 // recordings that are open or being finished
	fault atomic.Pointer[error]

	ending  context.Context // done when nothing more can be written
	stop    context.CancelFunc
	writers sync.WaitGroup
}

// New returns a Recorder.
func New(o Options) (*Recorder, error) {
	r := &Recorder{Options: o, limit: maxCast, metrics: newMetrics()}
	r.ending, r.stop = context.WithCancel(context.Background())
	return r, r.metrics.register(o.Registerer)
}

// Run takes care of the sink until ctx ends; then recordings may still be finished, for a while.
func (r *Recorder) Run(ctx context.Context) {
	r.Sink.Run(ctx)
	late := time.AfterFunc(finishTimeout, r.stop)
	defer late.Stop()
	r.writers.Wait()
	r.stop()
}

// Fault returns why the last recording failed, nil if none has or one has begun since.
func (r *Recorder) Fault() error {
	if err := r.fault.Load(); err != nil {
		return fmt.Errorf("record terminals: %w", *err)
	}
	return nil
}

func (r *Recorder) failed(id string, err error) {
	if r.fault.Swap(&err) == nil {
		klog.ErrorS(err, "A terminal can't be recorded", "recording", id)
	}
}

// Begin implements terminal.Recorder.
func (r *Recorder) Begin(ctx context.Context, s terminal.Subject) (terminal.Recording, error) {
	rec := newRecording(r, uuid.NewString(), s)
	if r.open.Add(1) > maxRecordings {
		r.open.Add(-1)
		err := fmt.Errorf("%d recordings are not finished yet", maxRecordings)
		rec.lose(err)
		rec.opened <- err
		r.metrics.ended.WithLabelValues(resultFailed).Inc()
	} else {
		r.writers.Go(func() {
			defer r.open.Add(-1)
			rec.write()
		})
	}
	if !r.Strict {
		return rec, nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var err error
	select {
	case err = <-rec.opened:
	case <-ctx.Done():
		err = fmt.Errorf("open a recording: %w", ctx.Err())
	}
	if err != nil {
		rec.End(nil, 0, 0)
		if !errors.Is(err, context.Canceled) { // the client has left
			r.failed(rec.id, err)
		}
		return nil, status.RetryAfter(int32(openTimeout/time.Second), status.Errorf(http.StatusServiceUnavailable,
			"terminals are recorded here, and this one can't be now: /readyz?verbose and the server's log tell administrators why"))
	}
	return rec, nil
}
