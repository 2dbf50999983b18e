// Package inflight bounds how many of something run at once: in all, and for each of those who begin them, so that none of them takes
// the room of the others.
package inflight

import (
	"context"
	"errors"
	"sync"
)

// The errors of Enter.
var (
	// ErrFull says that as many run as may run at once.
	ErrFull = errors.New("as many run as may run at once")
	// ErrFullForOwner says that as many of this owner run as one owner may have.
	ErrFullForOwner = errors.New("as many of this owner run as one may have at once")
)

// Limit counts what runs, by its owner. It is safe for concurrent use.
type Limit[Owner comparable] struct {
	most, mostOfOne int

	mu  sync.Mutex
	all int
	of  map[Owner]int
	// ended is closed when one ends; nil where nobody waits.
	ended chan struct{}
}

// New returns a Limit of so many at once, of which one owner has mostOfOne at most.
func New[Owner comparable](most, mostOfOne int) *Limit[Owner] {
	return &Limit[Owner]{most: most, mostOfOne: mostOfOne, of: map[Owner]int{}}
}

// Enter counts one more of owner, until leave is called, which counts once. Its errors are ErrFull and ErrFullForOwner.
func (l *Limit[Owner]) Enter(owner Owner) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enter(owner)
}

// EnterWithoutOwner is Enter for what counts in the whole alone. Its error is ErrFull.
func (l *Limit[Owner]) EnterWithoutOwner() (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most {
		return nil, ErrFull
	}
	l.all++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.end()
	}), nil
}

// Wait is Enter, which waits for room until ctx ends. Its error is the cause of that.
func (l *Limit[Owner]) Wait(ctx context.Context, owner Owner) (leave func(), err error) {
	for {
		leave, ended := l.enterOrWatch(owner)
		if leave != nil {
			return leave, nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Running returns how many run.
func (l *Limit[Owner]) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

// enter is Enter. The lock is held.
func (l *Limit[Owner]) enter(owner Owner) (leave func(), err error) {
	switch {
	case l.all >= l.most:
		return nil, ErrFull
	case l.of[owner] >= l.mostOfOne:
		return nil, ErrFullForOwner
	}
	l.all++
	l.of[owner]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.of[owner]--; l.of[owner] == 0 {
			delete(l.of, owner)
		}
		l.end()
	}), nil
}

// enterOrWatch enters, or returns what is closed when one of those who run ends.
func (l *Limit[Owner]) enterOrWatch(owner Owner) (leave func(), ended <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leave, err := l.enter(owner); err == nil {
		return leave, nil
	}
	if l.ended == nil {
		l.ended = make(chan struct{})
	}
	return nil, l.ended
}

// end counts one less, and wakes those who wait. The lock is held.
func (l *Limit[Owner]) end() {
	l.all--
	if l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
}
