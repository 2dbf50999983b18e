package resource

import (
	"errors"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// resultBounds are those of the results that are cached for further pages and later queries.
var resultBounds = lru.Bounds{Entries: 2048, Bytes: 64 << 20, One: 48 << 20, Idle: 2 * time.Minute}

// resultBytes is roughly what a result costs besides its rows and counts.
const resultBytes = 1 << 10

// result is what a query found, updated at each query: a change of the kind costs the filter on its old and its new version
// and an insertion into the order, not a search. Queries of one key share it. It is of one snapshot, and never goes back to
// an older one.
type result struct {
	key       string
	turn      chan struct{} // holds one while a request searches: others wait for its result
	searching atomic.Bool   // a request that may search has the turn, or waits for it
	now       atomic.Pointer[foundRows]
	work      *workingSet // of the request that has the turn; nil where the search must start over
}

// foundRows is what a query found on one snapshot. It does not change.
type foundRows struct {
	position uint64
	rows     *plan.Rows // nil where a range of the store's trees is the answer
	facets   string     // members of the answer, empty for none
}

// workingSet is what the next foundRows is made of.
type workingSet struct {
	rows     *plan.Rows
	counters []plan.FacetCounter
}

func newResult(key string) *result { return &result{key: key, turn: make(chan struct{}, 1)} }

// is reports whether f is of the position of snap.
func (f *foundRows) is(snap *index.Snapshot) bool {
	return f != nil && f.position == snap.Position()
}

// passed reports whether f is of a later position than snap.
func (f *foundRows) passed(snap *index.Snapshot) bool {
	return f != nil && f.position > snap.Position()
}

// execute returns what matches the plan of b, its facets, and the snapshot that they are of: snap, or a newer one if another
// request has been answered from it.
func (s *Service) execute(snap *index.Snapshot, b *plan.Builder) (m plan.Matches, facets string, at *index.Snapshot, err error) {
	if b.Never {
		return m, plan.FacetMembers(plan.NewFacetCounters(b.Query.Facets)), snap, nil
	}
	var ok bool
	if m.Tree, ok = b.Direct(snap); ok && len(b.Query.Facets) == 0 {
		return m, "", snap, nil
	}
	var room [512]byte
	r := s.results.Get(b.ResultKey(room[:0]), resultBytes, newResult)
	f, snap, err := r.update(s, snap, b)
	if err != nil {
		return m, "", nil, err
	}
	if f.rows != nil {
		return plan.Matches{Rows: f.rows}, f.facets, snap, nil
	}
	m.Tree, _ = b.Direct(snap)
	return m, f.facets, snap, nil
}

var (
	// errSearch says that nothing less than a search answers.
	errSearch = errors.New("a search is needed")
	// errTaken says that another request searches for the same result, or is about to.
	errTaken = errors.New("another request searches for it")
)

// update returns the result on snap, or on a newer one. Searches run in a bounded number at once, since each has the rows and the counts of
// all that matches. Whoever waits for the turn counts as no search, and whoever waits to search has no turn: neither keeps anybody else.
func (r *result) update(s *Service, snap *index.Snapshot, b *plan.Builder) (*foundRows, *index.Snapshot, error) {
	if f := r.now.Load(); f.is(snap) {
		return f, snap, nil
	}
	for {
		f, at, err := r.inTurn(s, snap, b)
		if !errors.Is(err, errSearch) {
			return f, at, err
		}
		if f, at, err = r.search(s, snap, b); !errors.Is(err, errTaken) {
			return f, at, err
		}
	}
}

// inTurn is update once the request has its turn. The error is errSearch where the changes since the last result do not suffice.
func (r *result) inTurn(s *Service, snap *index.Snapshot, b *plan.Builder) (*foundRows, *index.Snapshot, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-b.Ctx.Done():
		return nil, nil, b.Ctx.Err()
	}
	return r.next(s, snap, b, false)
}

// search is update by a search, once it may run. The error is errTaken where another request is about to search. A turn without a search is
// short, and is waited for: those who only learn in it that a search is needed would otherwise take it from each other for ever.
func (r *result) search(s *Service, snap *index.Snapshot, b *plan.Builder) (*foundRows, *index.Snapshot, error) {
	leave, err := s.searches.Wait(b.Ctx, httpcache.Owner(b.Ctx))
	if err != nil {
		return nil, nil, b.Ctx.Err()
	}
	defer leave()
	if !r.searching.CompareAndSwap(false, true) {
		return nil, nil, errTaken
	}
	defer r.searching.Store(false)
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-b.Ctx.Done():
		return nil, nil, b.Ctx.Err()
	}
	return r.next(s, snap, b, true)
}

// next is update in the request's turn, with a search only where it may.
func (r *result) next(s *Service, snap *index.Snapshot, b *plan.Builder, search bool) (*foundRows, *index.Snapshot, error) {
	f := r.now.Load()
	if f.passed(snap) {
		var err error
		if snap, err = s.snapshotFor(b); err != nil {
			return nil, nil, err
		}
	}
	if f.is(snap) {
		return f, snap, nil
	}
	w := r.work
	r.work = nil // until all is done: a half-done set can't be continued
	w, err := refresh(b, w, f, snap, search)
	if err != nil {
		return nil, nil, err
	}
	next := &foundRows{position: snap.Position(), facets: w.facets(f)}
	bytes := int64(resultBytes + len(next.facets))
	if w.rows != nil {
		next.rows = w.rows.Copy()
		bytes += b.Order.Bytes(w.rows)
	}
	for i := range w.counters {
		bytes += w.counters[i].Bytes
	}
	r.work = w
	r.now.Store(next)
	s.results.Resize(r.key, r, bytes)
	return next, snap, nil
}

// refresh brings w, which is of the position of f, up to snap, or starts over where that costs less or the changes since are
// no longer known: the error is errSearch where it may not.
func refresh(b *plan.Builder, w *workingSet, f *foundRows, snap *index.Snapshot, search bool) (*workingSet, error) {
	if w != nil && f != nil && b.Worthwhile(snap.Position()-f.position, snap) {
		ok, err := applyChanges(b, w, f.position, snap)
		if ok || err != nil {
			return w, err
		}
	}
	if !search {
		return nil, errSearch
	}
	return searchAll(b, snap)
}

// searchAll searches everything that can match.
func searchAll(b *plan.Builder, snap *index.Snapshot) (*workingSet, error) {
	w := &workingSet{counters: plan.NewFacetCounters(b.Query.Facets)}
	if m, ok := b.Direct(snap); ok {
		return w, w.countRange(b, snap, m)
	}
	list, ordered, err := b.Collect(b.Ctx, snap)
	if err != nil {
		return nil, err
	}
	w.rows = b.Order.NewRows(snap, list, ordered)
	for i, ref := range list {
		if i%plan.CheckEvery == 0 && b.Ctx.Err() != nil {
			return nil, b.Ctx.Err()
		}
		w.count(nil, snap.Record(ref))
	}
	return w, nil
}

// countRange fills the counters from a range.
func (w *workingSet) countRange(b *plan.Builder, snap *index.Snapshot, m index.Range) (err error) {
	n := 0
	m.Walk(0, false, func(ref *index.Ref) bool {
		if n++; n%plan.CheckEvery == 0 {
			err = b.Ctx.Err()
		}
		w.count(nil, snap.Record(ref))
		return err == nil
	})
	return err
}

// applyChanges applies the changes from a position up to snap; ok is false where they are no longer known.
func applyChanges(b *plan.Builder, w *workingSet, from uint64, snap *index.Snapshot) (ok bool, err error) {
	n := 0
	ok = snap.Changes(from, func(c *index.Change) bool {
		if n++; n%plan.CheckEvery == 0 {
			err = b.Ctx.Err()
		}
		was, is := c.Old, c.New
		if was != nil && !b.Holds(was) {
			was = nil
		}
		if is != nil && !b.Holds(is) {
			is = nil
		}
		if w.rows != nil {
			b.Order.Apply(w.rows, was, is)
		}
		w.count(was, is)
		return err == nil
	})
	if err == nil {
		err = b.Failed()
	}
	return ok, err
}

func (w *workingSet) count(was, is *index.Record) {
	for i := range w.counters {
		w.counters[i].Apply(was, is)
	}
}

// facets returns the text of the counters: the former one where nothing has changed.
func (w *workingSet) facets(before *foundRows) string {
	changed := before == nil
	for i := range w.counters {
		changed = changed || w.counters[i].Changed
	}
	if !changed {
		return before.facets
	}
	return plan.FacetMembers(w.counters)
}
