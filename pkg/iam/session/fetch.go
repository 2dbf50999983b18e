package session

import (
	"context"
	"fmt"
	"sync"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// fetcher reads sessions that this replica has not seen: each name once at a time, and a few names at once. Only holders of a token that
// this server signed cause a read.
type fetcher struct {
	mu    sync.Mutex
	calls map[string]*call
	slots chan struct{}
}

type call struct {
	done   chan struct{}
	record *cached
	err    error
}

// once calls fetch, or waits for a running call of the same name. The call goes on when its first caller has left, since others may wait.
func (l *fetcher) once(ctx context.Context, name string, fetch func(context.Context, string) (*cached, error)) (*cached, error) {
	c, err := l.join(ctx, name, fetch)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.done:
		return c.record, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", iam.ErrUnavailable, ctx.Err())
	}
}

func (l *fetcher) join(ctx context.Context, name string, fetch func(context.Context, string) (*cached, error)) (*call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[name]; c != nil {
		return c, nil
	}
	if len(l.calls) >= lookQueue {
		return nil, fmt.Errorf("%w: too many unknown sessions at once", iam.ErrUnavailable)
	}
	if l.calls == nil {
		l.calls = map[string]*call{}
	}
	c := &call{done: make(chan struct{})}
	l.calls[name] = c
	go l.run(context.WithoutCancel(ctx), c, name, fetch)
	return c, nil
}

func (l *fetcher) run(ctx context.Context, c *call, name string, fetch func(context.Context, string) (*cached, error)) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		c.record, c.err = fetch(ctx, name)
		<-l.slots
	case <-ctx.Done():
		c.err = fmt.Errorf("%w: %w", iam.ErrUnavailable, ctx.Err())
	}
	l.mu.Lock()
	delete(l.calls, name)
	l.mu.Unlock()
	close(c.done)
}
