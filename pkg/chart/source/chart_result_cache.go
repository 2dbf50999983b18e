package source

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"kapis.dev/ks-apiserver/pkg/recent"
)

const (
	// cacheSize bounds what is remembered of charts, in bytes.
	cacheSize = 64 << 20
	// readers is how many charts are read at once: one takes up to 80 MiB for a moment.
	readers = 2
	// readTimeout bounds the read of a chart, and pause is how long one that failed is not tried again.
	readTimeout, pause = time.Minute, 10 * time.Second
	// maxFailures is how many of these are remembered.
	maxFailures = 256
)

// ErrBusy is the error of a chart that can't be read at this moment, because others are.
var ErrBusy = errors.New("too many charts are read at this moment")

// Content names a chart by what is in it. Whose Repo it is from is a part of the name where its content is not for everybody who knows a
// digest.
type Content struct{ Repo, Digest string }

// Attempt is a read for one version of an object; a changed object is tried at once.
type Attempt struct{ Name, ResourceVersion string }

// text is the attempt where a text is the key of one.
func (a Attempt) text() string { return strconv.Itoa(len(a.Name)) + ":" + a.Name + a.ResourceVersion }

// Made is what was made of a chart.
type Made[V any] struct {
	Value V
	Of    Content
	// Size is what Value takes in memory, in bytes.
	Size int
}

// Once reads charts once a digest, and remembers what was made of them, or why they can't be read.
type Once[V any] struct {
	now     func() time.Time
	reading chan struct{}
	flights singleflight.Group

	mu     sync.Mutex
	made   *recent.Map[Content, Made[V]]
	failed *recent.Map[Attempt, failedRead]
}

type failedRead struct {
	err   *Failure
	until time.Time
}

// NewOnce returns an Once.
func NewOnce[V any](now func() time.Time) *Once[V] {
	return &Once[V]{now: now, reading: make(chan struct{}, readers), failed: recent.NewMap[Attempt, failedRead](maxFailures),
		made: recent.NewWeightedMap[Content](cacheSize, func(m Made[V]) int { return m.Size })}
}

// Get returns what was made of a chart, and has it read where nothing was. A Content without a digest is none that is known. The error is
// that of read, ErrBusy or that of the context.
func (o *Once[V]) Get(ctx context.Context, of Content, at Attempt, read func(context.Context) (Made[V], error)) (V, error) {
	o.mu.Lock()
	known, ok := o.made.Use(of)
	before, failing := o.failed.Get(at)
	o.mu.Unlock()
	var none V
	switch {
	case ok && of.Digest != "":
		return known.Value, nil
	case failing && o.now().Before(before.until):
		return none, before.err
	}
	// A client that leaves does not end what others wait for.
	flight := o.flights.DoChan(at.text(), func() (any, error) {
		reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return o.read(reading, at, read)
	})
	select {
	case <-ctx.Done():
		return none, ctx.Err()
	case done := <-flight:
		value, _ := done.Val.(V)
		return value, done.Err
	}
}

func (o *Once[V]) read(ctx context.Context, at Attempt, read func(context.Context) (Made[V], error)) (any, error) {
	select {
	case o.reading <- struct{}{}:
		defer func() { <-o.reading }()
	case <-ctx.Done():
		return nil, ErrBusy
	}
	made, err := read(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	var failed *Failure
	switch {
	case errors.As(err, &failed):
		o.failed.Set(at, failedRead{failed, o.now().Add(pause)})
		return nil, err
	case err != nil:
		return nil, err
	}
	o.made.Set(made.Of, made)
	return made.Value, nil
}
