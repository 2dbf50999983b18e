package index

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// publishEvery is how long a change waits, so that others are published with it.
const publishEvery = 3 * time.Millisecond

// Collection is the writer's side of one kind: it has the trees and the table from which snapshots are taken.
type Collection struct {
	schema  *Schema
	clock   clock.WithTicker
	later   func(time.Duration, func()) // runs a function after a pause, on another goroutine
	current atomic.Pointer[Snapshot]

	mu         sync.Mutex
	created    *tree
	names      *tree
	times      []*tree // for each of schema.Ordered
	table      table
	count      int
	bytes      int64
	version    string
	told       string // during Replace: Version of the next change, "" for version
	generation uint64
	published  time.Time
	dirtySince time.Time // zero where everything is published
	armed      bool
	lag        time.Duration
	history    history
	searches   textIndexes
	before     []Term // scratch
	after      []Term

	// Published is called for each snapshot that readers see from then on, under a lock of the collection; nil for nothing.
	Published func()

	waiting sync.Mutex
	wake    chan struct{} // closed by the next snapshot, nil while no one waits
}

// NewCollection returns an empty collection of the objects of one kind.
func NewCollection(s *Schema, c clock.WithTicker) *Collection {
	times := make([]*tree, len(s.Ordered))
	for i := range times {
		times[i] = newTree(lessCreated)
	}
	col := &Collection{
		times: times, schema: s, clock: c, later: func(d time.Duration, f func()) { time.AfterFunc(d, f) }, created: newTree(lessCreated),
		names: newTree(lessName),
	}
	col.history.spare = minHistoryBytes
	col.searches.begin(s, c)
	col.Begin(uint64(c.Now().UnixMicro()))
	return col
}

// Snapshot returns the newest snapshot, or nil before the first list is complete.
func (c *Collection) Snapshot() *Snapshot { return c.current.Load() }

// KeepHistory sets how many bytes of history the collection may have at least.
func (c *Collection) KeepHistory(bytes int64) { c.history.spare = bytes }

// LastPublished returns when the newest snapshot was published, and how long its oldest change waited for that.
func (c *Collection) LastPublished() (at time.Time, lag time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.published, c.lag
}

// Begin sets where the numbers of generations and positions begin. A collection that is created again must not repeat those of its
// predecessor.
func (c *Collection) Begin(n uint64) {
	c.generation = n
	c.history.begin(n)
}

// get returns the record of a key as the writer sees it.
func (c *Collection) get(namespace, name string) *Record {
	e, ok := c.names.Get(entry{scope(namespace), &Ref{Namespace: namespace, Name: name}})
	if !ok {
		return nil
	}
	return c.table.chunks[e.ref.id/chunkSize].records[e.ref.id%chunkSize]
}

// Set stores an object, replacing its older version.
func (c *Collection) Set(o *Incoming) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = o.Record.ResourceVersion
	c.put(o)
	c.changed()
}

// Delete removes an object. version is the one of its deletion.
func (c *Collection) Delete(namespace, name, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(namespace, name, version)
	c.changed()
}

// Apply makes changes that arrived together, and publishes them together; the value is whether the object is deleted.
func (c *Collection) Apply(changes iter.Seq2[*Incoming, bool]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, gone := range changes {
		if gone {
			c.remove(o.Ref.Namespace, o.Ref.Name, o.Record.ResourceVersion)
			continue
		}
		c.version = o.Record.ResourceVersion
		c.put(o)
	}
	c.changed()
}

// remove is Delete without the lock and the publication.
func (c *Collection) remove(namespace, name, version string) {
	c.version = version
	if r := c.get(namespace, name); r != nil {
		c.drop(r)
		c.note(r, nil)
	}
}

// Bookmark records that everything up to version is known.
func (c *Collection) Bookmark(version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = version
	c.changed()
}

// Replace makes the collection hold exactly objects, and publishes it. It returns the keys of the removed objects.
func (c *Collection) Replace(objects []*Incoming, version string) (gone []Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := make(map[Ref]struct{}, len(objects))
	for _, o := range objects {
		keep[Ref{Namespace: o.Ref.Namespace, Name: o.Ref.Name}] = struct{}{}
	}
	var old []*Record
	if s := c.current.Load(); s != nil {
		c.names.Ascend(entry{All(), first}, func(e entry) bool {
			if e.term != All() {
				return false
			}
			if _, ok := keep[Ref{Namespace: e.ref.Namespace, Name: e.ref.Name}]; !ok {
				old = append(old, c.table.chunks[e.ref.id/chunkSize].records[e.ref.id%chunkSize])
			}
			return true
		})
	}
	known := number(c.version)
	c.history.replaced(c.version, version)
	c.version = version
	// A client that was told a change continues after its version, maybe at a replica that saw the changes themselves. Of deletions the
	// versions are not known, so they come first, with one before all of them; other changes come in the order of their own versions.
	ordered := known > 0 && number(version) > known && c.current.Load() != nil
	before := strconv.FormatUint(known, 10)
	if ordered {
		objects = c.changedOf(objects)
	} else {
		lastOf(objects, version)
	}
	for _, r := range old {
		gone = append(gone, Ref{Namespace: r.Namespace, Name: r.Name})
		c.drop(r)
		if ordered {
			c.history.add(Change{Old: r, Version: before, Complete: true, number: number(version)}, c.bytes)
		} else {
			c.note(r, nil)
		}
	}
	if c.current.Load() == nil {
		c.load(objects)
	} else {
		for _, o := range objects {
			if ordered {
				c.told = strconv.FormatUint(min(max(number(o.Record.ResourceVersion), known+1), number(version)), 10)
			}
			c.put(o)
		}
	}
	if c.told = ""; ordered {
		c.history.skip(known, number(version))
	}
	c.dirtySince = c.clock.Now()
	c.publish()
	return gone
}

// changedOf returns the objects that the collection does not have as they are, in the order of their versions.
func (c *Collection) changedOf(objects []*Incoming) (changed []*Incoming) {
	for _, o := range objects {
		if old := c.get(o.Ref.Namespace, o.Ref.Name); old == nil || !old.same(o.Record) {
			changed = append(changed, o)
		}
	}
	slices.SortStableFunc(changed, func(a, b *Incoming) int {
		return cmp.Compare(number(a.Record.ResourceVersion), number(b.Record.ResourceVersion))
	})
	return changed
}

// lastOf puts the object that the list's version belongs to at the end: a client that has seen it and continues after that version must
// have seen the others.
func lastOf(objects []*Incoming, version string) {
	for i, o := range objects {
		if o.Record.ResourceVersion == version {
			objects[i], objects[len(objects)-1] = objects[len(objects)-1], o
			return
		}
	}
}

// note adds a change to the history, with the version that the collection has now.
func (c *Collection) note(before, after *Record) {
	if c.current.Load() != nil {
		c.history.add(Change{Old: before, New: after, Version: cmp.Or(c.told, c.version), number: number(c.version)}, c.bytes)
	}
}

// same reports whether two versions of an object are the same.
func (r *Record) same(o *Record) bool {
	return r.ResourceVersion == o.ResourceVersion && r.JSON == o.JSON
}

// put is Set without the lock, the version and the publication. An unchanged object stays as it is.
func (c *Collection) put(o *Incoming) {
	r := o.Record
	old := c.get(o.Ref.Namespace, o.Ref.Name)
	if old != nil && (old.UID != r.UID || old.Created != o.Ref.Created) {
		c.drop(old) // created again under its old name: another object
		c.note(old, nil)
		old = nil
	}
	if old == nil {
		c.insert(r, o.Ref)
		c.note(nil, r)
		return
	}
	if old.same(r) {
		return
	}
	r.Ref = old.Ref
	c.bytes += int64(r.JSON.Len() - old.JSON.Len())
	c.table.set(r)
	c.reindex(old, r)
	for i, field := range c.schema.Ordered {
		if old.Fields[field] != r.Fields[field] {
			c.dropTime(i, old)
			c.addTime(i, r)
		}
	}
	c.note(old, r)
}

// timed returns the ref of a record for a tree by another time than the creation: its Created is that time.
func (c *Collection) timed(i int, r *Record) *Ref {
	ref := *r.Ref
	ref.Created = Seconds(r.Fields[c.schema.Ordered[i]])
	return &ref
}

func (c *Collection) addTime(i int, r *Record) {
	ref := c.timed(i, r)
	c.times[i].Set(entry{All(), ref})
	if r.Namespace != "" {
		c.times[i].Set(entry{InNamespace(r.Namespace), ref})
	}
}

func (c *Collection) dropTime(i int, r *Record) {
	ref := c.timed(i, r)
	c.times[i].Delete(entry{All(), ref})
	if r.Namespace != "" {
		c.times[i].Delete(entry{InNamespace(r.Namespace), ref})
	}
}

func (c *Collection) insert(r *Record, ref Ref) {
	r.Ref = &ref
	c.table.add(r)
	c.count++
	c.bytes += int64(r.JSON.Len())
	c.index(r.Ref, All())
	if r.Namespace != "" {
		c.index(r.Ref, InNamespace(r.Namespace))
	}
	c.after = appendTerms(c.after[:0], r, c.schema)
	for _, t := range c.after {
		c.created.Set(entry{t, r.Ref})
	}
	for i := range c.times {
		c.addTime(i, r)
	}
}

// index puts ref in both orders.
func (c *Collection) index(ref *Ref, t Term) {
	c.created.Set(entry{t, ref})
	c.names.Set(entry{t, ref})
}

func (c *Collection) drop(r *Record) {
	c.before = append(c.before[:0], All())
	if r.Namespace != "" {
		c.before = append(c.before, InNamespace(r.Namespace))
	}
	for _, t := range c.before {
		c.names.Delete(entry{t, r.Ref})
	}
	c.before = appendTerms(c.before, r, c.schema)
	for _, t := range c.before {
		c.created.Delete(entry{t, r.Ref})
	}
	for i := range c.times {
		c.dropTime(i, r)
	}
	c.table.remove(r.id)
	c.count--
	c.bytes -= int64(r.JSON.Len())
}

// reindex moves an object from the terms of its old version to those of its new one.
func (c *Collection) reindex(old, r *Record) {
	if old.Labels == r.Labels && old.owners == r.owners && equalFields(old, r, c.schema.Indexed) &&
		equalFields(old, r, c.schema.Members) {
		return
	}
	c.before = appendTerms(c.before[:0], old, c.schema)
	c.after = appendTerms(c.after[:0], r, c.schema)
	for _, t := range c.before {
		if !has(c.after, t) {
			c.created.Delete(entry{t, r.Ref})
		}
	}
	for _, t := range c.after {
		if !has(c.before, t) {
			c.created.Set(entry{t, r.Ref})
		}
	}
}

func has(terms []Term, t Term) bool {
	for _, u := range terms {
		if u == t {
			return true
		}
	}
	return false
}

func equalFields(a, b *Record, indexed []int) bool {
	for _, i := range indexed {
		if a.Fields[i] != b.Fields[i] {
			return false
		}
	}
	return true
}

// changed publishes at once if nothing was published for a while, and soon otherwise.
func (c *Collection) changed() {
	now := c.clock.Now()
	if c.dirtySince.IsZero() {
		c.dirtySince = now
	}
	wait := publishEvery - c.clock.Since(c.published)
	if wait <= 0 {
		c.publish()
		return
	}
	if !c.armed {
		c.armed = true
		c.later(wait, func() {
			c.mu.Lock()
			c.armed = false
			c.mu.Unlock()
			c.Flush()
		})
	}
}

// Flush publishes pending changes.
func (c *Collection) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirtySince.IsZero() {
		c.publish()
	}
}

func (c *Collection) publish() {
	if c.current.Load() == nil {
		c.history.know(c.version) // no reader has seen an older version
	}
	c.generation++
	times := make([]*tree, len(c.times))
	for i, t := range c.times {
		times[i] = t.Copy()
	}
	s := &Snapshot{
		generation: c.generation, version: c.version, count: c.count, bytes: c.bytes,
		created: c.created.Copy(), names: c.names.Copy(), times: times, chunks: c.table.snapshot(),
		position: c.history.next, history: &c.history, searches: &c.searches,
	}
	c.current.Store(s)
	c.searches.published(s)
	c.published = c.clock.Now()
	c.lag = c.published.Sub(c.dirtySince)
	c.dirtySince = time.Time{}
	c.wakeWaiting()
	if c.Published != nil {
		c.Published()
	}
}

// Next returns a channel that is closed by the next snapshot.
func (c *Collection) Next() <-chan struct{} {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if c.wake == nil {
		c.wake = make(chan struct{})
	}
	return c.wake
}

// wakeWaiting wakes the goroutines that wait for a snapshot.
func (c *Collection) wakeWaiting() {
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
	}
}

// RecordBytes is roughly what an object costs besides its JSON.
const RecordBytes = 512

// Size returns roughly how many bytes the objects cost, those of the history included.
func (c *Collection) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes + int64(c.count)*RecordBytes + c.history.size()
}
