package review

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Bounds are those of a Queue.
type Bounds struct {
	// AtOnce is how many reviews may be running, and AtOnceOfOne how many of one client.
	AtOnce, AtOnceOfOne int
	// MostWaiting is how many reviews may be running or waiting, and MostOfOne how many of one client; further ones are refused.
	MostWaiting, MostOfOne int
	// Busy returns the error for a token that may be good, but could not be reviewed now.
	Busy func() error
}

// timeout bounds one review, including the wait for it.
const timeout = 10 * time.Second

// Queue bounds the reviews of one sort. Only one review of a token runs at a time, and no client can block the others.
type Queue[T any] struct {
	Bounds
	slots chan struct{}

	calls singleflight.Group // by the token's hash

	mu      sync.Mutex
	waiting int                // reviews that are running or waiting
	clients map[string]*client // those that have reviews
}

// client is what reviews are counted for: a service account, or an address.
type client struct {
	slots   chan struct{}
	waiting int
}

// NewQueue returns a Queue.
func NewQueue[T any](b Bounds) *Queue[T] {
	return &Queue[T]{Bounds: b, slots: make(chan struct{}, b.AtOnce), clients: map[string]*client{}}
}

// Once waits for the running review of the same token, or starts one, which is counted for who. Its error is that of Busy, or of ctx.
func (l *Queue[T]) Once(ctx context.Context, k Key, who string, ask func(context.Context) Answer[T]) (Answer[T], error) {
	done := l.calls.DoChan(string(k[:]), func() (any, error) {
		return l.run(context.WithoutCancel(ctx), who, ask) // others may still wait after this caller has left
	})
	select {
	case result := <-done:
		got, _ := result.Val.(Answer[T])
		return got, result.Err
	case <-ctx.Done():
		return Answer[T]{}, fmt.Errorf("wait for the review of a token: %w", ctx.Err())
	}
}

// run calls ask, unless too many reviews wait.
func (l *Queue[T]) run(ctx context.Context, who string, ask func(context.Context) Answer[T]) (Answer[T], error) {
	a := l.enter(who)
	if a == nil {
		return Answer[T]{}, l.Busy()
	}
	defer l.leave(who, a)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return l.asked(ctx, a, ask), nil
}

// enter counts a review; nil if too many wait.
func (l *Queue[T]) enter(who string) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.clients[who]
	if l.waiting >= l.MostWaiting || a != nil && a.waiting >= l.MostOfOne {
		return nil
	}
	if a == nil {
		a = &client{slots: make(chan struct{}, l.AtOnceOfOne)}
		l.clients[who] = a
	}
	l.waiting++
	a.waiting++
	return a
}

// leave undoes enter.
func (l *Queue[T]) leave(who string, a *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	if a.waiting--; a.waiting == 0 {
		delete(l.clients, who)
	}
}

// asked calls ask once there is room: first among the client's own reviews, then among all.
func (l *Queue[T]) asked(ctx context.Context, a *client, ask func(context.Context) Answer[T]) Answer[T] {
	for _, slots := range []chan struct{}{a.slots, l.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return Answer[T]{Err: l.Busy()}
		}
	}
	return ask(ctx)
}

// Waiting returns how many reviews are running or waiting, and of how many clients.
func (l *Queue[T]) Waiting() (reviews, clients int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting, len(l.clients)
}
