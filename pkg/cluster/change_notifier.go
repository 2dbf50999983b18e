package cluster

import "sync"

// changeNotifier tells who waits that something has changed.
type changeNotifier struct {
	mu      sync.Mutex
	version uint64
	changed chan struct{}
}

// now returns the version, which is never 0, and a channel that is closed when there is the next.
func (n *changeNotifier) now() (version uint64, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.version, n.changed = n.version+1, make(chan struct{})
	}
	return n.version, n.changed
}

func (n *changeNotifier) change() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed != nil { // else nobody has asked
		close(n.changed)
		n.changed = nil
	}
}
