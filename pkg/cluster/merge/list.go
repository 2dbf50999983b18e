package merge

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/budget"
	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/cluster/merge/version"
	"kapis.dev/ks-apiserver/pkg/status"
)

const (
	// mostBytes bounds the objects of one answer.
	mostBytes = 64 << 20
	// mostTries is how often a page is made again because a cluster failed meanwhile.
	mostTries = 3
	// mostRounds bounds the rounds in which the beginning of a page is searched for.
	mostRounds = 6
)

// List answers one list over clusters.
type List struct {
	// Path is that of the list at each cluster, and tells positions of one list from those of another.
	Path string
	// Sources are the clusters to ask, each as the caller, and Header is what they are asked with.
	Sources []Source
	Header  http.Header
	// Refused are names of clusters that were asked for, and that there are not, or that the caller may not enter.
	Refused []string
	Now     func() time.Time
	// Missed is called for each cluster that is missing, whether there is an answer or not; nil for nothing.
	Missed func(Missing)
	// Share is what the request holds of all that lists may hold: until the answer is sent. Nil for no bound.
	Share *budget.Share
}

// list is one list that is being answered.
type list struct {
	*Options
	sources  []Source
	header   http.Header
	order    order
	versions version.Versions
	now      func() time.Time

	mu sync.Mutex
	// out says of each source why it is not in the answer, nil where it is.
	out []*outcome
	// columns are those of each source's Table, and own is the index of this cluster, -1 for none.
	columns []row.Columns
	own     int
	// texts is how many bytes of the sources' answers are kept by their objects.
	texts int
	// share is the request's, sent is how many bytes of that each source has, and over why the list may not hold what it was sent.
	share *budget.Share
	sent  []int64
	over  error
}

// Answer answers a list. The error is a Status.
func (q *List) Answer(ctx context.Context, o *Options) (*Answer, error) {
	seen, err := version.Parse(o.version)
	if err != nil {
		return nil, err
	}
	l := &list{Options: o, sources: q.Sources, header: q.Header, order: o.order, versions: seen, now: q.Now,
		out: make([]*outcome, len(q.Sources)), columns: make([]row.Columns, len(q.Sources)), share: q.Share, sent: make([]int64, len(q.Sources)),
		own: slices.IndexFunc(q.Sources, func(s Source) bool { return s.Own })}
	sum := o.sum(q.Path)
	var from *position
	if o.next != "" {
		if from, err = parsePosition(o.next, sum); err != nil {
			return nil, err
		}
	}
	for i := range l.sources {
		l.order.names = append(l.order.names, l.sources[i].Name)
		if m := l.sources[i].Missing; m != nil {
			l.out[i] = &outcome{reason: m.Reason}
		}
	}
	// A cluster that fails while the page is put together leaves a gap in it: the page is made again, without it.
	for range mostTries {
		p, err := l.page(ctx, from)
		if over := l.exceeded(); over != nil {
			return nil, over
		}
		if errors.Is(err, errAgain) {
			l.again()
			continue
		}
		if err != nil {
			return nil, err
		}
		return l.answer(q, p, sum)
	}
	return nil, status.RetryAfter(1, status.Errorf(http.StatusServiceUnavailable,
		"clusters fail faster than a page of the others can be made: try again"))
}

// errAgain says that a cluster has failed whose rows were used already.
var errAgain = errors.New("a cluster has failed meanwhile")

// each calls f for each source that is still in and of which in reports true, all at once, and records why one is not any more. It reports
// whether one failed.
func (l *list) each(ctx context.Context, in func(source int) bool, f func(ctx context.Context, source int) error) (failed bool) {
	var wait sync.WaitGroup
	var any atomic.Bool
	call := func(i int) {
		var o *outcome
		switch err := guarded(&l.sources[i], func() error { return f(ctx, i) }); {
		case err == nil:
			return
		case !errors.As(err, &o):
			o = &outcome{reason: Faulty}
		}
		any.Store(true)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.out[i] = o
	}
	last := -1 // is called here, which would only wait otherwise
	for i := range l.sources {
		if l.outcome(i) != nil || !in(i) {
			continue
		}
		if before := last; before >= 0 {
			wait.Go(func() { call(before) })
		}
		last = i
	}
	if last >= 0 {
		call(last)
	}
	wait.Wait()
	return any.Load()
}

func allSources(int) bool { return true }

// holds counts the text of an answer that has objects: these are parts of it.
func (l *list) holds(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts += len(text)
}

func (l *list) outcome(source int) *outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out[source]
}

// found is a page that was found.
type found struct {
	total  int
	more   bool
	rows   []key
	items  []row.Item
	of     []*keys // what each source said first, nil where it is missing
	seen   version.Versions
	facets row.Facets
	// columns are those of a Table.
	columns string
}

// page finds a page: its keys, and then its objects.
func (l *list) page(ctx context.Context, from *position) (*found, error) {
	timed, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	p := &found{of: make([]*keys, len(l.sources)), seen: version.Versions{}}
	skip, err := l.find(timed, from, p)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	rows, left := make([][]key, len(l.sources)), -skip
	for i, k := range p.of {
		if k != nil && l.out[i] == nil {
			p.total += k.total
			left += k.total - k.start
			rows[i] = k.rows
			p.seen.Set(l.sources[i].Name, l.sources[i].UID, k.version)
			p.facets.Add(k.facets, k.others)
		}
	}
	p.rows = merge(&l.order, rows, skip, l.limit)
	p.more = left > len(p.rows) && len(p.rows) > 0
	return p, l.objects(ctx, p)
}

// find asks for as many rows of each cluster as the page may have, and returns how many of them all come before it.
func (l *list) find(ctx context.Context, from *position, p *found) (skip int, err error) {
	offset := (l.Options.page - 1) * l.limit
	switch {
	case l.Options.page < 1 || l.limit == 0:
		return 0, l.first(ctx, p, func(int) span { return span{every: 1} })
	case from != nil:
		ahead := l.ahead()
		return 0, l.first(ctx, p, func(i int) span {
			return span{limit: l.limit, every: 1, cursor: l.order.seek(from, l.sources[i].Name), objects: ahead}
		})
	case offset == 0:
		ahead := l.ahead()
		return 0, l.first(ctx, p, func(int) span { return span{limit: l.limit, every: 1, objects: ahead} })
	case offset/l.limit != l.Options.page-1 || offset > maxTotal: // no list has so many
		return 0, l.first(ctx, p, func(int) span { return span{every: 1} })
	case offset+l.limit <= samples:
		return offset, l.first(ctx, p, func(int) span { return span{limit: offset + l.limit, every: 1} })
	}
	return 0, l.atOffset(ctx, offset, p)
}

// first asks each cluster for the first rows, with all that an answer has but objects.
func (l *list) first(ctx context.Context, p *found, at func(source int) span) error {
	l.each(ctx, allSources, func(ctx context.Context, i int) error {
		s := at(i)
		s.facets = l.facets
		k, err := l.keys(ctx, i, s)
		p.of[i] = k
		return err
	})
	return nil
}

// atOffset finds where a page begins in each cluster, by samples of keys, and asks for the rows there.
func (l *list) atOffset(ctx context.Context, offset int, p *found) error {
	_ = l.first(ctx, p, func(int) span { return span{limit: samples} })
	at, total := make([]bounds, len(l.sources)), 0
	of, every := make([][]key, len(l.sources)), make([]int, len(l.sources))
	for i, k := range p.of {
		if k == nil || l.out[i] != nil {
			continue
		}
		at[i].high, of[i] = k.total, k.rows
		every[i] = max(1, (k.total+samples-1)/samples)
		total += k.total
	}
	if offset >= total { // after the end
		for i, k := range p.of {
			if k != nil {
				p.of[i].rows, p.of[i].start = nil, at[i].high
			}
		}
		return nil
	}
	for range mostRounds {
		at = narrow(&l.order, of, every, at, offset)
		if !slices.ContainsFunc(at, func(b bounds) bool { return b.low < b.high }) {
			break
		}
		clear(of)
		failed := l.each(ctx, func(i int) bool { return at[i].low < at[i].high }, func(ctx context.Context, i int) error {
			width := at[i].high - at[i].low
			every[i] = (width + samples - 1) / samples
			k, err := l.keys(ctx, i, span{limit: (width + every[i] - 1) / every[i], offset: at[i].low, every: every[i]})
			if err == nil {
				of[i] = k.rows
			}
			return err
		})
		if failed {
			return errAgain
		}
	}
	failed := l.each(ctx, allSources, func(ctx context.Context, i int) error {
		k, err := l.keys(ctx, i, span{limit: l.limit, offset: at[i].low, every: 1})
		if err == nil {
			p.of[i].rows, p.of[i].start = k.rows, k.start
		}
		return err
	})
	if failed {
		return errAgain
	}
	return nil
}

// objects asks for the objects of the page, of the clusters that have them.
func (l *list) objects(ctx context.Context, p *found) error {
	if len(p.rows) == 0 {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	of := make([][]key, len(l.sources))
	for _, r := range p.rows {
		of[r.source] = append(of[r.source], r)
	}
	for i, rows := range of {
		if len(rows) == 0 {
			continue
		}
		if of[i] = p.of[i].unknown(rows); p.of[i].items == nil {
			p.of[i].items = make(map[string]row.Item, len(rows))
		}
	}
	failed := l.each(ctx, func(i int) bool { return len(of[i]) > 0 }, func(ctx context.Context, i int) error {
		return l.fetch(ctx, i, of[i], p.of[i].items)
	})
	if failed {
		return errAgain
	}
	bytes, shown := 0, row.Common(l.columns, l.own)
	p.columns = shown.Shown()
	for _, r := range p.rows {
		item := p.of[r.source].items[r.uid]
		if item.Len() == 0 {
			continue // gone meanwhile
		}
		if bytes += item.Len(); bytes > mostBytes {
			return status.Errorf(http.StatusRequestEntityTooLarge,
				"the page has more than %d bytes: ask for a shorter one with limit, or for parts of objects with fields", mostBytes)
		}
		if l.form.Table {
			item = item.In(l.columns[r.source], shown)
		}
		p.items = append(p.items, item)
	}
	return nil
}

// answer makes the answer of a page, or of no page at all.
func (l *list) answer(q *List, p *found, sum string) (*Answer, error) {
	a := &Answer{list: l, found: p, refused: slices.Clone(q.Refused)}
	var none *apierrors.StatusError
	absent := 0
	for i, o := range l.out {
		switch {
		case o == nil:
			a.answered++
		case o.refused:
			a.refused = append(a.refused, l.sources[i].Name)
		case o.absent:
			absent++
		default:
			a.missing = append(a.missing, l.missingOf(i, o))
			if q.Missed != nil {
				q.Missed(a.missing[len(a.missing)-1])
			}
		}
		if o != nil && o.status != nil && (none == nil || o.invalid()) {
			none = o.status
		}
	}
	a.asked = len(l.sources)
	if p.more {
		last := &p.rows[len(p.rows)-1]
		at := position{Key: []byte(last.value), Namespace: last.namespace, Name: last.name, Cluster: l.order.names[last.source], Query: sum}
		a.next = at.String()
	}
	switch {
	case l.requireAll && len(a.missing) > 0:
		return nil, unavailable("%d of %d clusters do not answer, the first one is %q (%s), and require=all wants all of them",
			len(a.missing), a.asked, a.missing[0].Name, a.missing[0].Reason)
	case a.answered+absent > 0 && (a.answered > 0 || len(a.missing) > 0):
		return a, nil
	case none != nil && (len(a.missing) == 0 || slices.ContainsFunc(l.out, (*outcome).invalid)):
		return nil, none
	case len(a.missing) > 0:
		return nil, unavailable("none of %d clusters answers, the first one is %q (%s)", a.asked, a.missing[0].Name, a.missing[0].Reason)
	}
	return nil, status.Forbiddenf("there is no cluster in which you may see this")
}

func (l *list) missingOf(source int, o *outcome) Missing {
	if m := l.sources[source].Missing; m != nil {
		return *m
	}
	return l.sources[source].missing(o.reason, l.now())
}

func unavailable(format string, args ...any) error {
	return status.RetryAfter(5, status.Errorf(http.StatusServiceUnavailable, format, args...))
}
