package scope

import (
	"context"
	"sync"
)

// Limit bounds how many of something users do at once: all of them, and each.
type Limit struct {
	most, mostOfUser int

	mu  sync.Mutex
	all int
	of  map[string]int // by the user
	// left is closed when somebody leaves; nil where nobody waits.
	left chan struct{}
}

// NewLimit returns a Limit.
func NewLimit(most, mostOfUser int) *Limit {
	return &Limit{most: most, mostOfUser: mostOfUser, of: map[string]int{}}
}

// Enter reports whether a user may begin, who then has to Leave.
func (l *Limit) Enter(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.most || l.of[user] >= l.mostOfUser {
		return false
	}
	l.all++
	l.of[user]++
	return true
}

// Wait waits until a user may begin, as Enter says, and reports false where ctx ends before.
func (l *Limit) Wait(ctx context.Context, user string) bool {
	for {
		if l.Enter(user) {
			return true
		}
		l.mu.Lock()
		if l.left == nil {
			l.left = make(chan struct{})
		}
		left := l.left
		free := l.all < l.most && l.of[user] < l.mostOfUser // since Enter
		l.mu.Unlock()
		if free {
			continue
		}
		select {
		case <-left:
		case <-ctx.Done():
			return false
		}
	}
}

// Leave ends what Enter began.
func (l *Limit) Leave(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.of[user]--; l.of[user] == 0 {
		delete(l.of, user)
	}
	if l.left != nil {
		close(l.left)
		l.left = nil
	}
}
