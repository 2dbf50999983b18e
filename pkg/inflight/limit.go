// Package inflight bounds how many of something run at once: in all, and for each of those who begin them, so that none of them takes
// the room of the others.
package inflight

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// The errors of Enter.
var (
	// ErrFull says that as many run as may run at once.
	ErrFull = errors.New("as many run as may run at once")
	// ErrFullForOwner says that as many of this owner run as one owner may have.
	ErrFullForOwner = errors.New("as many of this owner run as one may have at once")
	// ErrFullForServiceAccounts says that as many of all service accounts run as they may have together.
	ErrFullForServiceAccounts = errors.New("as many of service accounts run as they may have together")
)

// Limit counts what runs, by its owner. It is safe for concurrent use.
type Limit[Owner comparable] struct {
	most, mostOfOne int

	// isAccount says for whom there is a second bound, mostOfAccounts for all of them together; nil for nobody.
	isAccount      func(Owner) bool
	mostOfAccounts int

	mu            sync.Mutex
	all, accounts int
	of            map[Owner]int
	waiting       []*waiter[Owner] // in the order in which they came
}

// waiter is one that Wait keeps waiting. It is sent what ends it, once it is counted.
type waiter[Owner comparable] struct {
	owner Owner
	enter chan func()
}

// New returns a Limit of so many at once, of which one owner has mostOfOne at most.
func New[Owner comparable](most, mostOfOne int) *Limit[Owner] {
	return &Limit[Owner]{most: most, mostOfOne: mostOfOne, of: map[Owner]int{}}
}

// NewByUser is New for owners by OwnerOf. All service accounts together have half of it at most: whoever may create namespaces has as many
// of these owners as they create.
func NewByUser(most, mostOfOne int) *Limit[string] {
	l := New[string](most, mostOfOne)
	l.isAccount, l.mostOfAccounts = IsServiceAccount, max(1, most/2)
	return l
}

// Enter counts one more of owner, until leave is called, which counts once. Its errors are ErrFull, ErrFullForOwner and, of NewByUser,
// ErrFullForServiceAccounts.
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

// Wait is Enter, which waits for room until ctx ends. Its error is the cause of that. Whose owner has the fewest is next, and among these
// who has waited longest.
func (l *Limit[Owner]) Wait(ctx context.Context, owner Owner) (leave func(), err error) {
	l.mu.Lock()
	leave, err = l.enter(owner)
	if err == nil {
		l.mu.Unlock()
		return leave, nil
	}
	w := &waiter[Owner]{owner, make(chan func(), 1)}
	l.waiting = append(l.waiting, w)
	l.mu.Unlock()

	select {
	case leave := <-w.enter:
		return leave, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	if i := slices.Index(l.waiting, w); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	select {
	case leave := <-w.enter: // it was counted meanwhile
		leave()
	default:
	}
	return nil, context.Cause(ctx)
}

// Running returns how many run.
func (l *Limit[Owner]) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

// fault says why one more of owner may not run, and is nil if it may. The lock is held.
func (l *Limit[Owner]) fault(owner Owner) error {
	switch {
	case l.all >= l.most:
		return ErrFull
	case l.of[owner] >= l.mostOfOne:
		return ErrFullForOwner
	case l.isAccount != nil && l.accounts >= l.mostOfAccounts && l.isAccount(owner):
		return ErrFullForServiceAccounts
	}
	return nil
}

// enter is Enter. The lock is held.
func (l *Limit[Owner]) enter(owner Owner) (leave func(), err error) {
	if err := l.fault(owner); err != nil {
		return nil, err
	}
	account := 0
	if l.isAccount != nil && l.isAccount(owner) {
		account = 1
	}
	l.all++
	l.accounts += account
	l.of[owner]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.accounts -= account
		if l.of[owner]--; l.of[owner] == 0 {
			delete(l.of, owner)
		}
		l.end()
	}), nil
}

// end counts one less, and has those enter who wait and may. The lock is held.
func (l *Limit[Owner]) end() {
	l.all--
	for l.all < l.most {
		next := -1
		for i, w := range l.waiting {
			if l.fault(w.owner) == nil && (next < 0 || l.of[w.owner] < l.of[l.waiting[next].owner]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := l.waiting[next]
		l.waiting = slices.Delete(l.waiting, next, next+1)
		leave, _ := l.enter(w.owner) // it has no fault
		w.enter <- leave
	}
}
