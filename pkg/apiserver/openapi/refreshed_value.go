package openapi

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/klog/v2"
)

// loadTimeout bounds one request to kube-apiserver. It takes seconds to build a document again, and many where it is busy; after a minute
// it ends a request itself.
const loadTimeout = time.Minute

// fresh is a value that is requested again on demand when it is older than keep. While that fails, the last one is used.
type fresh[T any] struct {
	// load returns the value, or before if it did not change. The first time, before is zero.
	load func(ctx context.Context, before T) (T, error)
	now  func() time.Time
	keep time.Duration

	once    singleflight.Group
	mu      sync.Mutex
	value   T
	loaded  bool // value is one
	err     error
	checked time.Time
}

// current returns the value as of at most keep ago, and an error if there never was one.
func (f *fresh[T]) current(ctx context.Context) (T, error) {
	if v, ok, err := f.cached(); ok {
		return v, err
	}
	done := f.once.DoChan("", func() (any, error) {
		if v, ok, err := f.cached(); ok { // another goroutine has just loaded it
			return v, err
		}
		return f.reload() // for all waiting goroutines: not with the context of one of them
	})
	select {
	case res := <-done:
		v, _ := res.Val.(T)
		return v, res.Err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

func (f *fresh[T]) cached() (T, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.checked.IsZero() || f.now().Sub(f.checked) >= f.keep {
		var zero T
		return zero, false, nil
	}
	return f.value, true, f.err
}

func (f *fresh[T]) reload() (T, error) {
	ctx, cancel := context.WithTimeout(context.Background(), loadTimeout)
	defer cancel()
	f.mu.Lock()
	before, had := f.value, f.loaded
	f.mu.Unlock()
	v, err := f.load(ctx, before)
	switch {
	case err != nil && had:
		klog.V(2).InfoS("serving the OpenAPI document that was current before", "reason", err)
		v, err = before, nil
	case err != nil: // clients are not told why
		klog.ErrorS(err, "There is no OpenAPI document to serve; the next request after a pause asks again", "pause", f.keep)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked, f.err = f.now(), err
	if err == nil {
		f.value, f.loaded = v, true
	}
	return f.value, f.err
}

// stale makes the next call load the value again.
func (f *fresh[T]) stale() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checked = time.Time{}
}
