// Package pace waits in tests for what the product promises within a time, such as the five seconds in which a revoked right ends
// everywhere, without failing where the machine is busy with other work.
//
// Time is measured twice: by the clock, and by how often the product could be asked in the meantime. A bound is over when both say so.
// On an idle machine asking costs nothing and the clock decides; where the product gets little processor time, there are fewer
// requests, and the bound grows with them.
package pace

import (
	"context"
	"errors"
	"time"
)

var errNotOver = errors.New("the bound is not over")

const (
	// Step is the pause between two requests.
	Step = 50 * time.Millisecond
	// Limit is when a bound is over in any case.
	Limit = 2 * time.Minute
)

// Until asks f every Step until it returns nil. Once bound is over it returns the last error of f that was not of ctx.
func Until(ctx context.Context, bound time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(Limit, bound))
	defer cancel()
	tick := time.NewTicker(Step)
	defer tick.Stop()
	begun := time.Now()
	var last error
	for asked := 1; ; asked++ {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if time.Since(begun) >= bound && time.Duration(asked)*Step >= bound {
			return last
		}
		select {
		case <-ctx.Done():
			return last
		case <-tick.C:
		}
	}
}

// After returns a channel that is closed once bound is over. ask sends a request to the product: its answer does not matter, only that
// it could be sent.
func After(ctx context.Context, bound time.Duration, ask func(ctx context.Context) error) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = Until(ctx, bound, func(ctx context.Context) error {
			_ = ask(ctx)
			return errNotOver
		})
	}()
	return over
}
