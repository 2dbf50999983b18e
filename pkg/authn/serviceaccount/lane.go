package serviceaccount

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"
)

// bounds are those of a lane.
type bounds struct {
	// atOnce questions are under way at a time, and atOnceOfOne of one asker.
	atOnce, atOnceOfOne int
	// mostWaiting questions are under way or wait, and mostOfOne of one asker; further ones are refused.
	mostWaiting, mostOfOne int
}

// lane bounds the questions of one sort. The same question is asked once at a time, and no asker keeps the others out.
type lane struct {
	bounds
	slots chan struct{}

	calls singleflight.Group // by the token's hash

	mu      sync.Mutex
	waiting int               // questions that are under way or wait
	askers  map[string]*asker // those that have questions
}

// asker is who questions are counted for: a service account, or an address.
type asker struct {
	slots   chan struct{}
	waiting int
}

func newLane(b bounds) *lane {
	return &lane{bounds: b, slots: make(chan struct{}, b.atOnce), askers: map[string]*asker{}}
}

// once waits for the answer of the question that is under way, or asks it.
func (l *lane) once(ctx context.Context, k key, who string, ask func(context.Context) answer) (answer, error) {
	done := l.calls.DoChan(string(k[:]), func() (any, error) {
		return l.run(context.WithoutCancel(ctx), who, ask) // others may wait when this caller has left
	})
	select {
	case result := <-done:
		got, _ := result.Val.(answer)
		return got, result.Err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("wait for kube-apiserver's word on a token: %w", ctx.Err())
	}
}

// run asks, unless too many questions wait.
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

// enter counts a question; nil where too many wait.
func (l *lane) enter(who string) *asker {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.askers[who]
	if l.waiting >= l.mostWaiting || a != nil && a.waiting >= l.mostOfOne {
		return nil
	}
	if a == nil {
		a = &asker{slots: make(chan struct{}, l.atOnceOfOne)}
		l.askers[who] = a
	}
	l.waiting++
	a.waiting++
	return a
}

// leave takes off what enter counted.
func (l *lane) leave(who string, a *asker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting--
	if a.waiting--; a.waiting == 0 {
		delete(l.askers, who)
	}
}

// asked asks once there is room: first among the asker's own questions, then among all.
func (l *lane) asked(ctx context.Context, a *asker, ask func(context.Context) answer) answer {
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
