package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

const (
	// stopTimeout is how long a stop waits for what is queued.
	stopTimeout = 10 * time.Second
	// dropShown is how long after a drop the backend counts as degraded.
	dropShown = time.Minute
)

// Encode appends an event without the end of a line, and without one in it.
type Encode func(dst []byte, e *Event) []byte

// backend is what a File and a Webhook share: a bounded queue of encoded events, and what is told of those that are lost.
type backend struct {
	name    string
	queue   *queue
	encode  Encode
	metrics *Metrics
	now     func() time.Time

	fault   atomic.Pointer[error] // why the last attempt to write failed
	dropped atomic.Int64          // when the last event was lost, in Unix nanoseconds
}

var scratch = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}

func newBackend(name string, encode Encode, batch int, metrics *Metrics, now func() time.Time) *backend {
	for _, reason := range []string{dropFull, dropRefused, dropStop} { // a counter that begins at its first event has no increase
		metrics.dropped.WithLabelValues(name, reason)
	}
	return &backend{name: name, queue: newQueue(encode, batch), encode: encode, metrics: metrics, now: now}
}

// Record queues e.
func (b *backend) Record(e *Event) { b.submit(e, false) }

// Submit queues e, so that the caller can wait until it is written.
func (b *backend) Submit(e *Event) Submitted { return Submitted{b.submit(e, true), b.name} }

func (b *backend) submit(e *Event, awaited bool) *outcome {
	buf := scratch.Get().(*[]byte) //nolint:errcheck,forcetypeassert // the pool has nothing else
	line := append(b.encode((*buf)[:0], e), '\n')
	ok, result := b.queue.add(line, e.At, awaited)
	if !ok {
		b.count(dropFull, 1)
	}
	if cap(line) <= keptBuffer {
		*buf = line
		scratch.Put(buf)
	}
	return result
}

// Submitted is an event that was queued to be written.
type Submitted struct {
	outcome *outcome // nil for one that was dropped
	backend string
}

// Wait waits until the event is written, and returns an error if it is lost, or is not written when ctx ends; it may be later.
func (s Submitted) Wait(ctx context.Context) error {
	if s.outcome == nil {
		return fmt.Errorf("the queue of audit events (%s) is full or closed", s.backend)
	}
	select {
	case <-s.outcome.done:
	case <-ctx.Done():
		return fmt.Errorf("wait until an audit event is written (%s): %w", s.backend, ctx.Err())
	}
	if s.outcome.lost {
		return fmt.Errorf("an audit event is lost (%s)", s.backend)
	}
	return nil
}

// take returns all events that wait, one on each line, and their number. It logs how many were dropped since the last call.
func (b *backend) take() (lines []byte, events int) {
	lines, events, told := b.queue.take()
	if told.number > 0 {
		klog.InfoS("WARNING: audit events were dropped", "backend", b.name, "number", told.number, "first", told.first, "last", told.last)
	}
	return lines, events
}

// lost counts and logs n events that were taken from the queue and did not arrive.
func (b *backend) lost(reason string, n int) {
	if n == 0 {
		return
	}
	b.count(reason, n)
	klog.InfoS("WARNING: audit events were dropped", "backend", b.name, "number", n, "reason", reason)
}

func (b *backend) count(reason string, n int) {
	b.dropped.Store(b.now().UnixNano())
	b.metrics.dropped.WithLabelValues(b.name, reason).Add(float64(n))
}

// Fault returns why events are not written, or that some were dropped in the last minute; nil if all is well.
func (b *backend) Fault() error {
	if err := b.fault.Load(); err != nil {
		return fmt.Errorf("write audit events (%s): %w", b.name, *err)
	}
	if at := b.dropped.Load(); at > 0 && b.now().Sub(time.Unix(0, at)) < dropShown {
		return errors.New("audit events were dropped in the last minute (" + b.name + "); metric ks_audit_dropped_total says why")
	}
	return nil
}
