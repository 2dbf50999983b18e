package store

import (
	"sync"
	"sync/atomic"
)

// changeCounter counts changes, and wakes who waits for the next one.
type changeCounter struct {
	n atomic.Uint64

	mu   sync.Mutex
	wake chan struct{} // closed by the next change, nil while no one waits
}

// add counts a change that readers see from now on.
func (c *changeCounter) add() {
	c.n.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
	}
}

func (c *changeCounter) now() (n uint64, next <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wake == nil {
		c.wake = make(chan struct{})
	}
	return c.n.Load(), c.wake
}

// ChangesOf returns what returns a number that grows after each snapshot of any kind and after each change that sinks were told, and a
// channel that is closed when it grows next. A caller that asks for the number before it reads learns of every change of what it has read.
func ChangesOf(s *Store) func() (n uint64, next <-chan struct{}) { return s.changes.now }
