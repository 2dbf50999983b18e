package page

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// pageCacheBounds are those of the cached pages, and maxKeptBody the longest body that is cached.
var pageCacheBounds = lru.Bounds{Entries: 8192, Bytes: 32 << 20, One: 16 << 20, Idle: 2 * time.Minute}

const maxCachedBody = 4 << 20

// pageOverhead is roughly what a cached page costs besides its bytes.
const pageOverhead = 512

// Slot is the cache of one page of one query.
type Slot struct {
	key  string
	last atomic.Pointer[cachedPage]
}

func newPageSlot(key string) *Slot { return &Slot{key: key} }

// cachedPage is a page as it was shown. The first time, only its digest is cached; the second time, while its records are
// the same, the records and the bytes of the answer are. It does not change.
type cachedPage struct {
	position uint64
	page     Page
}

// Cache has pages and the bytes of their answers, and what answers share.
type Cache struct {
	slots     *lru.Cache[*Slot]
	responses *httpcache.Responses
	reads     *inflight.Limit[string] // of objects, by Complete
}

// Responses returns the writer that all answers share, with its bounds and compressors.
func (c *Cache) Responses() *httpcache.Responses { return c.responses }

// Slot returns the slot of a key.
func (c *Cache) Slot(key []byte) *Slot { return c.slots.Get(key, pageOverhead, newPageSlot) }

// Size returns roughly how many bytes the pages cost together.
func (c *Cache) Size() int64 { return c.slots.Size() }

// At returns the page as it is in snap if all of it is cached, and what was cached last.
func (s *Slot) At(snap *index.Snapshot) (*Page, *cachedPage) {
	last := s.last.Load()
	if !last.is(snap) {
		return nil, last
	}
	p := last.page
	p.ResourceVersion, p.Generation = snap.ResourceVersion(), snap.Generation()
	return &p, last
}

// is reports whether all of the page is as it is in snap.
func (s *cachedPage) is(snap *index.Snapshot) bool {
	return s != nil && s.page.Body != nil && s.position == snap.Position()
}

// Remember records that a page was shown, and gives it its cached bytes.
func (c *Cache) Remember(at *Slot, last *cachedPage, p *Page, snap *index.Snapshot) {
	next := &cachedPage{position: snap.Position()}
	if last != nil && last.page.Body != nil && slices.Equal(last.page.Records, p.Records) {
		p.digest, p.Bytes, p.Body = last.page.digest, last.page.Bytes, last.page.Body
		if p.besides() != last.page.besides() {
			p.Body.mu.Lock()
			p.Body.resize(p)
			p.Body.mu.Unlock()
		}
		next.page = *p
		at.last.Store(next)
		return
	}
	p.digest, p.Bytes = httpcache.DigestOf(p.Records)
	switch {
	case p.Bytes > maxCachedBody:
		return
	case last != nil && last.page.Body == nil && last.page.digest == p.digest:
		p.Body = &cachedBody{slot: at}
		p.Body.resize(p) // of the records, which are cached from now on
		next.page = *p
	default:
		next.page.digest = p.digest
	}
	if at.last.CompareAndSwap(last, next) && next.page.Body == nil && last != nil && last.page.Body != nil {
		c.slots.Resize(at.key, at, pageOverhead)
	}
}

// cachedBody is the cached answer of one page: its items and tail, plain and compressed, each made when it is first needed.
type cachedBody struct {
	slot *Slot

	mu       sync.Mutex
	Text     []byte
	Deflated *httpcache.Deflated
}

// plain returns the text of the items and the tail.
func (b *cachedBody) plain(p *Page) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Text == nil {
		b.Text = p.text()
		b.resize(p)
	}
	return b.Text
}

// gzipped returns the same compressed, or nil where no compressor is free.
func (b *cachedBody) gzipped(p *Page) *httpcache.Deflated {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Deflated != nil {
		return b.Deflated
	}
	x := p.Cache.responses.Compressors.Get()
	if x == nil {
		return nil
	}
	defer p.Cache.responses.Compressors.Put(x)
	write := p.write
	if p.Projection != nil {
		write = func(to *httpcache.ChunkWriter) { to.WriteBytes(p.text()) }
	}
	made, err := x.Compress(write)
	if err != nil {
		klog.ErrorS(err, "cannot compress a page: it is sent as it is")
		return nil
	}
	b.Deflated = &made
	b.resize(p)
	return b.Deflated
}

// text returns the items and the tail.
func (p *Page) text() []byte {
	var room []byte
	if p.Projection == nil {
		room = make([]byte, 0, p.length())
	}
	text, _ := p.appendItems(room, func(int64) error { return nil }) // nothing refuses
	if p.Projection != nil {
		text = slices.Clone(text)
	}
	return text
}

// besides returns what the page costs besides its bytes and those of its answer.
func (p *Page) besides() int64 {
	bytes := len(p.Facets) + 8*len(p.Records) + 16*len(p.Keys)
	if p.reduced {
		bytes += len(p.Records) * index.RecordBytes
	}
	for _, key := range p.Keys {
		bytes += len(key)
	}
	if p.Last != nil {
		bytes += len(p.Last.Key)
	}
	return int64(bytes)
}

// resize tells the cache what the page costs: its bytes, and its records, which it may be the last to use.
func (b *cachedBody) resize(p *Page) {
	bytes := pageOverhead + p.Bytes + int64(cap(b.Text)) + p.besides()
	if b.Deflated != nil {
		bytes += int64(cap(b.Deflated.Blocks))
	}
	p.Cache.slots.Resize(b.slot.key, b.slot, bytes)
}
