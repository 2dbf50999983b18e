package resource

import (
	"crypto/sha256"
	"strconv"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/store"
)

// resultBounds are those of the results that are kept for further pages and further moments.
var resultBounds = bounds{entries: 2048, bytes: 64 << 20, one: 48 << 20, idle: 2 * time.Minute}

// resultBytes is what a result costs beside its rows and counts, roughly.
const resultBytes = 1 << 10

// result is what a query found, brought up to date with every question: a change of the kind costs the
// filter on its old and its new version and a place in the order, not a search. Queries of one key share
// it. What is found is of one moment, and never older than what it was before.
type result struct {
	key  string
	turn chan struct{} // holds one while somebody searches: others wait for what he finds
	now  atomic.Pointer[found]
	work *work // of who has the turn; nil where the search has to begin anew
}

// found is what a query found at one moment. It does not change.
type found struct {
	position uint64
	rows     *rows  // nil where a range of the store's trees is the answer
	facets   string // members of the answer, empty for none
}

// work is what the next moment is made of.
type work struct {
	rows    *rows
	tallies []tally
}

func newResult(key string) *result { return &result{key: key, turn: make(chan struct{}, 1)} }

// is tells whether f is of the moment of snap.
func (f *found) is(snap *store.Snapshot) bool {
	return f != nil && f.position == snap.Position()
}

// passed tells whether f is of a later moment than snap.
func (f *found) passed(snap *store.Snapshot) bool {
	return f != nil && f.position > snap.Position()
}

// find returns what matches the plan of b, its facets, and the snapshot that they are of: snap, or a newer
// one where somebody has been shown that already.
func (s *Service) find(snap *store.Snapshot, b *builder) (m matches, facets string, at *store.Snapshot, err error) {
	if b.never {
		return m, allFacets(newTallies(b.query.Facets)), snap, nil
	}
	var ok bool
	if m.tree, ok = b.direct(snap); ok && len(b.query.Facets) == 0 {
		return m, "", snap, nil
	}
	var room [512]byte
	r := s.results.get(b.resultKey(room[:0]), resultBytes, newResult)
	f, snap, err := r.find(s, snap, b)
	if err != nil {
		return m, "", nil, err
	}
	if f.rows != nil {
		return matches{rows: f.rows}, f.facets, snap, nil
	}
	m.tree, _ = b.direct(snap)
	return m, f.facets, snap, nil
}

// resultKey appends to dst a text that is equal for queries with the same matches in the same order, and
// the same facets.
func (b *builder) resultKey(dst []byte) []byte {
	key := b.appendKey(dst)
	for _, p := range b.query.Facets {
		key = strconv.AppendQuote(append(key, 'f'), p.String())
	}
	return short(key)
}

// short returns key, or in the place of a long one its SHA-256. Keys begin with a digit (appendCounted), so that none is a hash.
func short(key []byte) []byte {
	if len(key) <= 1024 {
		return key
	}
	sum := sha256.Sum256(key)
	return append(append(key[:0], '#'), sum[:]...)
}

func (r *result) find(s *Service, snap *store.Snapshot, b *builder) (*found, *store.Snapshot, error) {
	f := r.now.Load()
	if f.is(snap) {
		return f, snap, nil
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-b.ctx.Done():
		return nil, nil, b.ctx.Err()
	}
	if f = r.now.Load(); f.passed(snap) {
		var err error
		if snap, err = s.moment(b); err != nil {
			return nil, nil, err
		}
	}
	if f.is(snap) {
		return f, snap, nil
	}
	w := r.work
	r.work = nil // until all is done: what is half done is no ground to go on from
	w, err := b.search(w, f, snap)
	if err != nil {
		return nil, nil, err
	}
	next := &found{position: snap.Position(), facets: w.facets(f)}
	bytes := int64(resultBytes + len(next.facets))
	if w.rows != nil {
		next.rows = w.rows.Copy()
		bytes += int64(w.rows.Len()) * b.order.bytes()
	}
	for i := range w.tallies {
		bytes += w.tallies[i].bytes
	}
	r.work = w
	r.now.Store(next)
	s.results.weigh(r.key, r, bytes)
	return next, snap, nil
}

// search brings w, which is of the moment of f, up to snap, or begins anew where that costs less or the
// changes since are not known any more.
func (b *builder) search(w *work, f *found, snap *store.Snapshot) (*work, error) {
	if w != nil && f != nil && b.worthwhile(snap.Position()-f.position, snap) {
		ok, err := b.follow(w, f.position, snap)
		if ok || err != nil {
			return w, err
		}
	}
	return b.begin(snap)
}

// worthwhile tells whether to follow so many changes costs less than to look at what can match.
func (p *plan) worthwhile(changes uint64, snap *store.Snapshot) bool {
	if changes <= 64 {
		return true
	}
	if p.named != nil && uint64(len(p.named)) < changes {
		return false
	}
	_, n := p.fewest(snap)
	return changes <= uint64(n) //nolint:gosec // a length
}

// begin looks at everything that can match.
func (b *builder) begin(snap *store.Snapshot) (*work, error) {
	w := &work{tallies: newTallies(b.query.Facets)}
	if m, ok := b.direct(snap); ok {
		return w, w.count(b, snap, m)
	}
	list, ordered, err := b.collect(b.ctx, snap)
	if err != nil {
		return nil, err
	}
	w.rows = b.order.newRows(snap, list, ordered)
	for i, ref := range list {
		if i%checkEvery == 0 && b.ctx.Err() != nil {
			return nil, b.ctx.Err()
		}
		w.tally(nil, snap.Record(ref))
	}
	return w, nil
}

// count fills the tallies from a range.
func (w *work) count(b *builder, snap *store.Snapshot, m store.Range) (err error) {
	n := 0
	m.Walk(0, false, func(ref *store.Ref) bool {
		if n++; n%checkEvery == 0 {
			err = b.ctx.Err()
		}
		w.tally(nil, snap.Record(ref))
		return err == nil
	})
	return err
}

// follow applies the changes from a position up to snap; ok is false where they are not known any more.
func (b *builder) follow(w *work, from uint64, snap *store.Snapshot) (ok bool, err error) {
	n := 0
	ok = snap.Changes(from, func(c *store.Change) bool {
		if n++; n%checkEvery == 0 {
			err = b.ctx.Err()
		}
		was, is := c.Old, c.New
		if was != nil && !b.holds(was) {
			was = nil
		}
		if is != nil && !b.holds(is) {
			is = nil
		}
		if w.rows != nil {
			b.order.move(w.rows, was, is)
		}
		w.tally(was, is)
		return err == nil
	})
	if err == nil {
		err = b.failed()
	}
	return ok, err
}

func (w *work) tally(was, is *store.Record) {
	for i := range w.tallies {
		w.tallies[i].move(was, is)
	}
}

// facets returns the text of the tallies, which is that of the moment before where nothing has changed.
func (w *work) facets(before *found) string {
	changed := before == nil
	for i := range w.tallies {
		changed = changed || w.tallies[i].changed
	}
	if !changed {
		return before.facets
	}
	return allFacets(w.tallies)
}

// bytes is what a row of the order costs, roughly.
func (o *order) bytes() int64 {
	if !o.byValues() {
		return rowBytes
	}
	return int64(rowBytes + 24 + len(o.keys)*(valueBytes+16))
}
