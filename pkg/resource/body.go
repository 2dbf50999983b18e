package resource

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/store"

	"k8s.io/klog/v2"
)

// shownBounds are those of the pages that are remembered, and maxKeptBody the longest whose bytes are.
var shownBounds = bounds{entries: 8192, bytes: 32 << 20, one: 16 << 20, idle: 2 * time.Minute}

const maxKeptBody = 4 << 20

// shownBytes is what a page that is remembered costs beside its bytes, roughly.
const shownBytes = 512

// place is where one page of one query is remembered.
type place struct {
	key  string
	last atomic.Pointer[shown]
}

func newPlace(key string) *place { return &place{key: key} }

// shown is a page as it was shown. The first time, only its digest is remembered; the second time, while
// its records are the same, the records and the bytes of the answer are. It does not change.
type shown struct {
	position uint64
	page     Page
}

// is tells whether all of the page is as it is in snap.
func (s *shown) is(snap *store.Snapshot) bool {
	return s != nil && s.page.body != nil && s.position == snap.Position()
}

// pageKey appends to dst a text that is equal for queries whose pages are the same at one moment.
func (b *builder) pageKey(dst []byte) []byte {
	q := b.query
	key := append(b.appendKey(dst), 0)
	for _, p := range q.Facets {
		key = strconv.AppendQuote(append(key, 'f'), p.String())
	}
	if b.projection != nil {
		key = strconv.AppendQuote(append(key, 'p'), b.projection.key)
	}
	key = strconv.AppendInt(append(key, 'l'), int64(q.Limit), 10)
	key = strconv.AppendInt(append(key, 'n'), int64(q.Page), 10)
	return short(strconv.AppendBool(append(key, 'u'), q.Ascending))
}

// show returns the page of b at the moment of snap, or a later one.
func (s *Service) show(snap *store.Snapshot, b *builder) (*Page, error) {
	var room [512]byte
	at := s.pages.get(b.pageKey(room[:0]), shownBytes, newPlace)
	last := at.last.Load()
	if last.is(snap) {
		p := last.page
		p.ResourceVersion, p.Generation = snap.ResourceVersion(), snap.Generation()
		return &p, nil
	}
	p, snap, err := s.page(snap, b)
	if err != nil {
		return nil, err
	}
	s.remember(at, last, p, snap)
	return p, nil
}

// remember notes that a page was shown, and gives it the bytes that are kept of it.
func (s *Service) remember(at *place, last *shown, p *Page, snap *store.Snapshot) {
	next := &shown{position: snap.Position()}
	if last != nil && last.page.body != nil && slices.Equal(last.page.records, p.records) {
		p.digest, p.bytes, p.body = last.page.digest, last.page.bytes, last.page.body
		next.page = *p
		at.last.Store(next)
		return
	}
	p.digest, p.bytes = digestOf(p.records)
	switch {
	case p.bytes > maxKeptBody:
		return
	case last != nil && last.page.body == nil && last.page.digest == p.digest:
		p.body = &body{place: at}
		p.body.weigh(p) // of the records, which are kept from now on
		next.page = *p
	default:
		next.page.digest = p.digest
	}
	if at.last.CompareAndSwap(last, next) && next.page.body == nil && last != nil && last.page.body != nil {
		s.pages.weigh(at.key, at, shownBytes)
	}
}

// body is what is kept of the answer of one page: its items and tail, as they are and compressed, each from
// when it is first asked for.
type body struct {
	place *place

	mu     sync.Mutex
	text   []byte
	packed *packed
}

// plain returns the text of the items and the tail.
func (b *body) plain(p *Page) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text == nil {
		b.text = p.text()
		b.weigh(p)
	}
	return b.text
}

// zip returns the same compressed, nil where that can't be done now.
func (b *body) zip(p *Page) *packed {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.packed != nil {
		return b.packed
	}
	x := p.service.presses.take()
	if x == nil {
		return nil
	}
	defer p.service.presses.give(x)
	write := p.write
	if p.projection != nil {
		write = func(to *pieces) { to.writeBytes(p.text()) }
	}
	made, err := x.pack(write)
	if err != nil {
		klog.ErrorS(err, "cannot compress a page: it is sent as it is")
		return nil
	}
	b.packed = &made
	b.weigh(p)
	return b.packed
}

// text is the items and the tail, as long as they are.
func (p *Page) text() []byte {
	var room []byte
	if p.projection == nil {
		room = make([]byte, 0, p.length())
	}
	text, _ := p.appendItems(room, func(int64) error { return nil }) // nothing refuses
	if p.projection != nil {
		text = slices.Clone(text)
	}
	return text
}

// weigh tells the cache what the page costs: its bytes, and its records, which it may keep alone.
func (b *body) weigh(p *Page) {
	bytes := shownBytes + p.bytes + int64(cap(b.text)) + int64(8*len(p.records))
	if b.packed != nil {
		bytes += int64(cap(b.packed.blocks))
	}
	p.service.pages.weigh(b.place.key, b.place, bytes)
}
