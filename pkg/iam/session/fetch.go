package session

import (
	"context"
	"fmt"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/iam"
)

// fetcher reads sessions that this replica has not seen: one read per name, and a bounded number of names at a time. Only holders of a
// token that this server signed can cause a read.
type fetcher struct {
	calls singleflight.Group
	// queue bounds the names that are read or wait, and slots those that are read.
	queue, slots chan struct{}
}

func newFetcher() fetcher {
	return fetcher{queue: make(chan struct{}, lookQueue), slots: make(chan struct{}, lookAtOnce)}
}

// once calls fetch, or waits for a running call of the same name. The call goes on after its first caller has left,
// since others may wait for it.
func (l *fetcher) once(ctx context.Context, name string, fetch func(context.Context, string) (*cached, error)) (*cached, error) {
	done := l.calls.DoChan(name, func() (any, error) { return l.run(context.WithoutCancel(ctx), name, fetch) })
	select {
	case result := <-done:
		r, _ := result.Val.(*cached)
		return r, result.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", iam.ErrUnavailable, ctx.Err())
	}
}

func (l *fetcher) run(ctx context.Context, name string, fetch func(context.Context, string) (*cached, error)) (*cached, error) {
	select {
	case l.queue <- struct{}{}:
		defer func() { <-l.queue }()
	default:
		return nil, fmt.Errorf("%w: too many unknown sessions at once", iam.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
		return fetch(ctx, name)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", iam.ErrUnavailable, ctx.Err())
	}
}

// find returns a session from memory; from the backend if another replica has just opened it.
func (s *reader) find(ctx context.Context, name string) (*cached, error) {
	s.mu.RLock()
	r := s.byName[name]
	gone := r == nil && s.gone.Has(name)
	s.mu.RUnlock()
	if gone {
		return nil, iam.ErrOver
	}
	if r != nil && (r.until.IsZero() || s.Now().Before(r.until)) {
		return r, nil
	}
	return s.fetches.once(ctx, name, s.fetch)
}

// fetch reads a session. It caches the session until the feed brings it, or the fact that it is gone.
func (s *reader) fetch(ctx context.Context, name string) (*cached, error) {
	o, err := s.API.Get(ctx, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if apierrors.IsNotFound(err) {
		s.drop(name)
		return nil, iam.ErrOver
	}
	if err != nil {
		return nil, fmt.Errorf("%w: read session: %w", iam.ErrUnavailable, err)
	}
	r := newCached(o)
	r.until = s.Now().Add(unconfirmed)
	if old := s.byName[name]; old != nil && r.older(old) && !old.until.IsZero() && !s.Now().Before(old.until) {
		s.forget(name) // written here, and never brought by the feed: a backup of etcd was restored
	}
	if r = s.put(r); r == nil {
		return nil, iam.ErrOver
	}
	return r, nil
}
