package serviceaccount

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

type key = [sha256.Size]byte

// answer is what kube-apiserver said of a token, and until when that counts.
type answer struct {
	user  user.Info
	err   error
	until time.Time
}

// answers remember, in bounded memory, and see to it that the same question is asked once at a time
// and few are under way.
type answers struct {
	mu sync.Mutex
	// young and old are two generations; the old one is dropped when the young one is full.
	young, old map[key]answer
	calls      map[key]*call
	slots      chan struct{}
}

type call struct {
	done   chan struct{}
	answer answer
}

func newAnswers() *answers {
	return &answers{young: map[key]answer{}, calls: map[key]*call{}, slots: make(chan struct{}, atOnce)}
}

// once returns the remembered answer, or waits for the one under way, or asks.
func (a *answers) once(ctx context.Context, k key, now func() time.Time, ask func(context.Context) answer) (user.Info, error) {
	a.mu.Lock()
	got, ok := a.young[k]
	if !ok {
		got, ok = a.old[k]
	}
	if ok && now().Before(got.until) {
		a.mu.Unlock()
		return got.user, got.err
	}
	c := a.calls[k]
	if c == nil {
		if len(a.calls) >= waiting {
			a.mu.Unlock()
			return nil, errBusy
		}
		c = &call{done: make(chan struct{})}
		a.calls[k] = c
		go a.run(context.WithoutCancel(ctx), k, c, ask) // others may wait when this caller has left
	}
	a.mu.Unlock()
	select {
	case <-c.done:
		return c.answer.user, c.answer.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for kube-apiserver's word on a token: %w", ctx.Err())
	}
}

func (a *answers) run(ctx context.Context, k key, c *call, ask func(context.Context) answer) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	select {
	case a.slots <- struct{}{}:
		c.answer = ask(ctx)
		<-a.slots
	case <-ctx.Done():
		c.answer.err = errBusy
	}
	a.mu.Lock()
	delete(a.calls, k)
	if !c.answer.until.IsZero() {
		delete(a.old, k)
		if len(a.young) >= remembered/2 {
			a.old, a.young = a.young, map[key]answer{}
		}
		a.young[k] = c.answer
	}
	a.mu.Unlock()
	close(c.done)
}
