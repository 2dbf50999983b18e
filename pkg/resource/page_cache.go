package resource

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/klog/v2"
)

// pageCacheBounds are those of the pages that are remembered, and maxKeptBody the longest whose bytes are.
var pageCacheBounds = lru.Bounds{Entries: 8192, Bytes: 32 << 20, One: 16 << 20, Idle: 2 * time.Minute}

const maxCachedBody = 4 << 20

// pageOverhead is what a page that is remembered costs beside its bytes, roughly.
const pageOverhead = 512

// pageSlot is where one page of one query is remembered.
type pageSlot struct {
	key  string
	last atomic.Pointer[cachedPage]
}

func newPageSlot(key string) *pageSlot { return &pageSlot{key: key} }

// cachedPage is a page as it was shown. The first time, only its digest is remembered; the second time, while
// its records are the same, the records and the bytes of the answer are. It does not change.
type cachedPage struct {
	position uint64
	page     Page
}

// is tells whether all of the page is as it is in snap.
func (s *cachedPage) is(snap *index.Snapshot) bool {
	return s != nil && s.page.body != nil && s.position == snap.Position()
}

// cachedOrNew returns the page of b on snap or on a later snapshot.
func (s *Service) cachedOrNew(snap *index.Snapshot, b *plan.Builder) (*Page, error) {
	var room [512]byte
	at := s.pages.Get(b.PageKey(room[:0]), pageOverhead, newPageSlot)
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
	s.cachePage(at, last, p, snap)
	return p, nil
}

// cachePage notes that a page was shown, and gives it the bytes that are kept of it.
func (s *Service) cachePage(at *pageSlot, last *cachedPage, p *Page, snap *index.Snapshot) {
	next := &cachedPage{position: snap.Position()}
	if last != nil && last.page.body != nil && slices.Equal(last.page.records, p.records) {
		p.digest, p.bytes, p.body = last.page.digest, last.page.bytes, last.page.body
		next.page = *p
		at.last.Store(next)
		return
	}
	p.digest, p.bytes = httpcache.DigestOf(p.records)
	switch {
	case p.bytes > maxCachedBody:
		return
	case last != nil && last.page.body == nil && last.page.digest == p.digest:
		p.body = &cachedBody{slot: at}
		p.body.resize(p) // of the records, which are kept from now on
		next.page = *p
	default:
		next.page.digest = p.digest
	}
	if at.last.CompareAndSwap(last, next) && next.page.body == nil && last != nil && last.page.body != nil {
		s.pages.Resize(at.key, at, pageOverhead)
	}
}

// cachedBody is what is kept of the answer of one page: its items and tail, as they are and compressed, each from
// when it is first asked for.
type cachedBody struct {
	slot *pageSlot

	mu       sync.Mutex
	text     []byte
	deflated *httpcache.Deflated
}

// plain returns the text of the items and the tail.
func (b *cachedBody) plain(p *Page) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text == nil {
		b.text = p.text()
		b.resize(p)
	}
	return b.text
}

// gzipped returns the same compressed, nil where that can't be done now.
func (b *cachedBody) gzipped(p *Page) *httpcache.Deflated {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deflated != nil {
		return b.deflated
	}
	x := p.service.responses.Compressors.Get()
	if x == nil {
		return nil
	}
	defer p.service.responses.Compressors.Put(x)
	write := p.write
	if p.projection != nil {
		write = func(to *httpcache.ChunkWriter) { to.WriteBytes(p.text()) }
	}
	made, err := x.Compress(write)
	if err != nil {
		klog.ErrorS(err, "cannot compress a page: it is sent as it is")
		return nil
	}
	b.deflated = &made
	b.resize(p)
	return b.deflated
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

// resize tells the cache what the page costs: its bytes, and its records, which it may keep alone.
func (b *cachedBody) resize(p *Page) {
	bytes := pageOverhead + p.bytes + int64(cap(b.text)) + int64(8*len(p.records))
	if b.deflated != nil {
		bytes += int64(cap(b.deflated.Blocks))
	}
	p.service.pages.Resize(b.slot.key, b.slot, bytes)
}
