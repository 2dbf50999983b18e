package cluster

import "sync"

// notice tells who waits that something has changed.
type notice struct {
	mu      sync.Mutex
	version uint64
	changed chan struct{}
}

// now returns the version, which is never 0, and a channel that is closed when there is the next.
func (n *notice) now() (version uint64, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.version, n.changed = n.version+1, make(chan struct{})
	}
	return n.version, n.changed
}

func (n *notice) change() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil { // else nobody has asked
		close(n.changed)
		n.changed = nil
	}
}
