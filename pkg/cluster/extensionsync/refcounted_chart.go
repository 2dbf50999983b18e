package extensionsync

import (
	"context"
	"fmt"
	"sync"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// sharedChart is a chart that is being sent: it is in memory once, to however many members it goes.
type sharedChart struct {
	sync.Mutex
	users int
	raw   []byte
}

// chart returns the chart of an agent, and what is to be called when it has been sent.
func (h *Hub) chart(ctx context.Context, a *Agent) (raw []byte, done func(), err error) {
	digest := a.Version.Digest
	h.mu.Lock()
	if h.sent == nil {
		h.sent = map[string]*sharedChart{}
	}
	c := h.sent[digest]
	if c == nil {
		c = &sharedChart{}
		h.sent[digest] = c
	}
	c.users++
	h.mu.Unlock()
	done = func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if c.users--; c.users == 0 {
			delete(h.sent, digest)
		}
	}
	c.Lock()
	defer c.Unlock()
	if c.raw == nil {
		v := &v1alpha1.ExtensionVersion{Spec: a.Version}
		loading, cancel := context.WithTimeout(ctx, chartWait)
		defer cancel()
		raw, err := h.Charts.Load(loading, v)
		if err == nil && chart.Digest(raw) != digest {
			err = errNotApproved
		}
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("read the chart of %s %s: %w", a.Extension, a.Version.Version, err)
		}
		c.raw = raw
	}
	return c.raw, done, nil
}
