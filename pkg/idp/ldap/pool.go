package ldap

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// poolSize is the maximum number of connections for one purpose. Further logins wait for one.
	poolSize = 8
	// idleTimeout is how long an unused connection is kept.
	idleTimeout = time.Minute
)

// pool keeps connections, so that many logins use few of them.
type pool struct {
	// dial makes a connection that is ready for its purpose.
	dial func(context.Context) (*conn, error)
	now  func() time.Time

	slots  chan struct{}
	mu     sync.Mutex
	idle   []*conn // the last element was used last
	timer  *time.Timer
	closed bool
}

func newPool(dial func(context.Context) (*conn, error)) *pool {
	return &pool{dial: dial, now: time.Now, slots: make(chan struct{}, poolSize)}
}

// with runs operations on a connection. If a pooled one turns out to be closed, they are run again on a new one: servers close
// idle connections, and all of them when they restart.
func (p *pool) with(ctx context.Context, operations func(*conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return errors.Join(errors.New("wait for a connection"), ctx.Err())
	}
	defer func() { <-p.slots }()
	for c := p.take(); c != nil; c = p.take() {
		err := operations(c)
		p.put(c, err)
		if !broken(err) || errors.Is(err, errTimeout) || ctx.Err() != nil {
			return err
		}
	}
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	err = operations(c)
	p.put(c, err)
	return err
}

// take returns a pooled connection, or nil.
func (p *pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		if !c.IsClosing() && p.now().Sub(c.idle) < idleTimeout {
			return c
		}
		go c.shut()
	}
	return nil
}

// put returns a connection to the pool if it still works, and closes it when it has not been used for a while.
func (p *pool) put(c *conn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || broken(err) || c.IsClosing() {
		go c.shut()
		return
	}
	c.idle = p.now()
	p.idle = append(p.idle, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(idleTimeout, p.sweep)
	}
}

// sweep closes connections that are unused for too long, and schedules itself again while any is left.
func (p *pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.idle[:0]
	for _, c := range p.idle {
		if c.IsClosing() || p.now().Sub(c.idle) >= idleTimeout {
			go c.shut()
			continue
		}
		kept = append(kept, c)
	}
	clear(p.idle[len(kept):])
	p.idle = kept
	if p.timer = nil; len(kept) > 0 && !p.closed {
		p.timer = time.AfterFunc(idleTimeout, p.sweep)
	}
}

// close closes the idle connections; those in use are closed when they are returned.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	for _, c := range p.idle {
		go c.shut()
	}
	p.idle = nil
}
