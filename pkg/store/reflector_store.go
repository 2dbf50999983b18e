package store

import (
	"fmt"
	"sync/atomic"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store/feed"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/watch"
)

// subscriber is a sink, and whether it has been given the objects of the collection.
type subscriber struct {
	Sink
	primed bool // changed by the reflector's goroutine only
	synced atomic.Bool
}

// intake is the cache as its reflector sees it: a ReflectorStore that also receives bookmarks. Its methods are called by one
// goroutine.
type intake struct{ *cache }

// add adds a sink. A kind that is already watched is listed again, so that the sink receives all objects.
func (c *cache) add(s Sink) *subscriber {
	f := &subscriber{Sink: s}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sinks = append(c.sinks, f)
	c.lastUsed.Store(0)
	if c.restart != nil {
		c.current = false
		c.restart(errRestart)
	}
	return f
}

// subscribers returns the sinks as they are now.
func (c *cache) subscribers() []*subscriber {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sinks
}

func (c *cache) hasSinks() bool { return len(c.subscribers()) > 0 }

// Add stores a new object.
func (c intake) Add(obj any) error { return c.Update(obj) }

// Update stores an object, or a batch of changes.
func (c intake) Update(obj any) error {
	switch o := obj.(type) {
	case *index.Decoded:
		c.coll.Set(o.Incoming)
		c.tellSinks(o, false)
	case *feed.EventBatch:
		c.coll.Apply(o.Changes)
		for _, e := range *o {
			c.tellSinks(e.Object.(*index.Decoded), e.Type == watch.Deleted)
		}
	default:
		return fmt.Errorf("unexpected %T", obj)
	}
	return nil
}

// Delete removes an object.
func (c intake) Delete(obj any) error {
	d, ok := obj.(*index.Decoded)
	if !ok {
		return fmt.Errorf("unexpected %T", obj)
	}
	c.coll.Delete(d.Ref.Namespace, d.Ref.Name, d.Record.ResourceVersion)
	c.tellSinks(d, true)
	return nil
}

// tellSinks sends the sinks a change that is in the collection.
func (c intake) tellSinks(d *index.Decoded, gone bool) {
	c.arrived(d.Incoming)
	sinks := c.subscribers()
	if len(sinks) == 0 {
		return
	}
	var o *Object
	if !gone {
		o = objectOf(d)
	}
	for _, f := range sinks {
		switch {
		case !f.primed:
		case gone:
			f.Delete(d.Ref.Namespace, d.Ref.Name)
		default:
			f.Set(o)
		}
	}
	c.changed()
}

// Replace stores a complete list.
func (c intake) Replace(list []any, version string) error {
	objects, skims := make([]*index.Decoded, len(list)), make([]*index.Incoming, len(list))
	for i, item := range list {
		d, ok := item.(*index.Decoded)
		if !ok {
			return fmt.Errorf("unexpected %T", item)
		}
		objects[i], skims[i] = d, d.Incoming
	}
	sinks := c.subscribers()
	var known *index.Snapshot
	if len(sinks) > 0 {
		c.coll.Flush() // what the sinks were told is published
		known = c.coll.Snapshot()
	}
	gone := c.coll.Replace(skims, version)
	c.arrived(nil)
	c.size.Store(c.coll.Size())
	for _, f := range sinks {
		c.prime(f, objects, known, gone)
	}
	c.changed()
	c.meter.Lists.Add(1)
	c.succeeded()
	c.syncOnce.Do(func() { close(c.synced) })
	return nil
}

// prime brings one sink up to a complete list: known is what the other sinks have already been told.
func (c intake) prime(f *subscriber, objects []*index.Decoded, known *index.Snapshot, gone []index.Ref) {
	if f.primed {
		for _, ref := range gone {
			f.Delete(ref.Namespace, ref.Name)
		}
	}
	for _, d := range objects {
		if f.primed && known != nil {
			if old, ok := known.Get(d.Ref.Namespace, d.Ref.Name); ok && d.Same(old) {
				continue
			}
		}
		f.Set(objectOf(d))
	}
	f.primed = true
	f.synced.Store(true)
}

// Resync does nothing: no sink needs repeated events.
func (c intake) Resync() error { return nil }

// Bookmark records up to which version the kind is known.
func (c intake) Bookmark(version string) error {
	c.coll.Bookmark(version)
	c.succeeded()
	return nil
}

// objectOf returns what sinks are told of an object.
func objectOf(d *index.Decoded) *Object {
	return &Object{Namespace: d.Ref.Namespace, Name: d.Ref.Name, Raw: redaction.Bytes(d.Uncut())}
}
