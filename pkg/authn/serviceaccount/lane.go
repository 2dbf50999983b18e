package serviceaccount

import (
	"context"
	"fmt"
	"sync"
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

	mu     sync.Mutex
	calls  map[key]*call
	askers map[string]*asker // those that have calls
}

// call is one question, and those who wait for its answer.
type call struct {
	done   chan struct{}
	answer answer
}

// asker is who questions are counted for: a service account, or an address.
type asker struct {
	slots chan struct{}
	calls int
}

func newLane(b bounds) *lane {
	return &lane{bounds: b, slots: make(chan struct{}, b.atOnce), calls: map[key]*call{}, askers: map[string]*asker{}}
}

// once waits for the answer of the question that is under way, or asks it.
func (l *lane) once(ctx context.Context, k key, who string, ask func(context.Context) answer) (answer, error) {
	c := l.begin(ctx, k, who, ask)
	if c == nil {
		return answer{}, errBusy()
	}
	select {
	case <-c.done:
		return c.answer, nil
	case <-ctx.Done():
		return answer{}, fmt.Errorf("wait for kube-apiserver's word on a token: %w", ctx.Err())
	}
}

// begin returns the call of a question; nil where too many wait.
func (l *lane) begin(ctx context.Context, k key, who string, ask func(context.Context) answer) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.calls[k]; c != nil {
		return c
	}
	a := l.askers[who]
	if len(l.calls) >= l.mostWaiting || a != nil && a.calls >= l.mostOfOne {
		return nil
	}
	if a == nil {
		a = &asker{slots: make(chan struct{}, l.atOnceOfOne)}
		l.askers[who] = a
	}
	a.calls++
	c := &call{done: make(chan struct{})}
	l.calls[k] = c
	go l.run(context.WithoutCancel(ctx), k, who, a, c, ask) // others may wait when this caller has left
	return c
}

func (l *lane) run(ctx context.Context, k key, who string, a *asker, c *call, ask func(context.Context) answer) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	c.answer = l.asked(ctx, a, ask)
	l.mu.Lock()
	delete(l.calls, k)
	if a.calls--; a.calls == 0 {
		delete(l.askers, who)
	}
	l.mu.Unlock()
	close(c.done)
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
