package serviceaccount

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
)

// bounds are those of a lane.
type bounds struct {
	// atOnce is how many reviews may be running, and atOnceOfOne how many of one client.
	atOnce, atOnceOfOne int
	// mostWaiting is how many reviews may be running or waiting, and mostOfOne how many of one client; further ones are refused.
	mostWaiting, mostOfOne int
}

// lane bounds the reviews of one sort. Only one review of a token runs at a time, and no client can block the others.
type lane struct {
	bounds
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

func newLane(b bounds) *lane {
	return &lane{bounds: b, slots: make(chan struct{}, b.atOnce), clients: map[string]*client{}}
}

// once waits for the running review of the same token, or starts one.
func (l *lane) once(ctx context.Context, k key, who string, ask func(context.Context) answer) (answer, error) {
	done := l.calls.DoChan(string(k[:]), func() (any, error) {
		return l.run(context.WithoutCancel(ctx), who, ask) // others may still wait after this caller has left
	})
	select {
	case result := <-done:
		got, _ := result.Val.(answer)
		return got, result.Err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("wait for kube-apiserver's word on a token: %w", ctx.Err())
	}
}

// run calls ask, unless too many reviews wait.
func (l *lane) run(ctx context.Context, who string, ask func(context.Context) answer) (answer, error) {
	a := l.enter(who)
	if a == nil {
		return answer{}, errBusy()
	}
	defer l.leave(who, a)
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	return l.asked(ctx, a, ask), nil
}

// enter counts a review; nil if too many wait.
func (l *lane) enter(who string) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.clients[who]
	if l.waiting >= l.mostWaiting || a != nil && a.waiting >= l.mostOfOne {
		return nil
	}
	if a == nil {
		a = &client{slots: make(chan struct{}, l.atOnceOfOne)}
		l.clients[who] = a
	}
	l.waiting++
	a.waiting++
	return a
}

// leave undoes enter.
func (l *lane) leave(who string, a *client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	if a.waiting--; a.waiting == 0 {
		delete(l.clients, who)
	}
}

// asked calls ask once there is room: first among the client's own reviews, then among all.
func (l *lane) asked(ctx context.Context, a *client, ask func(context.Context) answer) answer {
	for _, slots := range []chan struct{}{a.slots, l.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return answer{err: errBusy()}
		}
	}
	return ask(ctx)
}
