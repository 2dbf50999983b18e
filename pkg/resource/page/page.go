package page

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/web"
)

// Page is one page of a list. It is written by Items or List, which differ in their form.
type Page struct {
	// Total is the number of matches on all pages, Remaining of those after this one.
	Total, Remaining int
	// ResourceVersion and Generation are those of the snapshot that the page is of.
	ResourceVersion string
	Generation      uint64
	// Partial reports whether the page is of a partial list. The answer then has HeaderPartial.
	Partial bool
	// Start is how many matches are before this page. Keys are the sort values of its objects, nil where they were not asked for.
	Start int
	Keys  []string

	Cache      *Cache
	Kind       *store.Kind
	Records    []*index.Record
	Facets     string // members of the answer, empty for none
	Projection *projection.Projection
	digest     httpcache.Digest  // of the records and insertions
	Bytes      int64             // of their JSON
	Body       *cachedBody       // the cached answer, nil for none
	complete   bool              // the records are those of Complete
	Insertions []Insertion       // one for each record, nil for none
	insert     func(*Page) *Page // makes the Insertions of a page with the same objects
}

// Len returns how many objects the page has.
func (p *Page) Len() int { return len(p.Records) }

// Items returns the answer {"totalItems":N,"metadata":{...},"items":[...]}, the form of the resources routes.
func (p *Page) Items() *Answer {
	head := make([]byte, 0, 128+len(p.Facets))
	head = strconv.AppendInt(append(head, `{"totalItems":`...), int64(p.Total), 10)
	head = rawjson.AppendString(append(head, `,"metadata":{"resourceVersion":`...), p.ResourceVersion)
	return &Answer{page: p, form: "items", head: p.begin(append(head, '}'))}
}

// Counted returns the answer {"total_count":N,"items":[...]}, the form of resources.kubesphere.io/v1alpha2.
func (p *Page) Counted() *Answer {
	head := strconv.AppendInt(append(make([]byte, 0, 128+len(p.Facets)), `{"total_count":`...), int64(p.Total), 10)
	return &Answer{page: p, form: "counted", head: p.begin(head)}
}

// List returns the answer as a list of Kubernetes: kind and metadata, whose continue is the total, as clients of KubeSphere
// read it.
func (p *Page) List() *Answer {
	head := make([]byte, 0, 256+len(p.Facets))
	head = rawjson.AppendString(append(head, `{"kind":`...), p.Kind.Kind+"List")
	head = rawjson.AppendString(append(head, `,"apiVersion":`...), p.Kind.GVR.GroupVersion().String())
	head = rawjson.AppendString(append(head, `,"metadata":{"resourceVersion":`...), p.ResourceVersion)
	head = strconv.AppendInt(append(head, `,"continue":"`...), int64(p.Total), 10)
	head = strconv.AppendInt(append(head, `","remainingItemCount":`...), int64(p.Remaining), 10)
	head = strconv.AppendInt(append(head, `},"totalItems":`...), int64(p.Total), 10)
	return &Answer{page: p, form: "list", head: p.begin(head)}
}

// Native returns the answer as kube-apiserver lists objects: a client that follows continue, as kubectl does, gets all pages. next is what
// it says, empty on the last page.
func (p *Page) Native(next string) *Answer {
	head := make([]byte, 0, 256+len(p.Facets))
	head = rawjson.AppendString(append(head, `{"kind":`...), p.Kind.Kind+"List")
	head = rawjson.AppendString(append(head, `,"apiVersion":`...), p.Kind.GVR.GroupVersion().String())
	head = rawjson.AppendString(append(head, `,"metadata":{"resourceVersion":`...), p.ResourceVersion)
	if next != "" {
		head = rawjson.AppendString(append(head, `,"continue":`...), next)
		head = strconv.AppendInt(append(head, `,"remainingItemCount":`...), int64(p.Remaining), 10)
	}
	head = strconv.AppendInt(append(head, `},"totalItems":`...), int64(p.Total), 10)
	return &Answer{page: p, form: "native", head: p.begin(head)}
}

// begin appends what stands between the head of a form and the items.
func (p *Page) begin(head []byte) []byte {
	return append(append(head, p.Facets...), `,"items":[`...)
}

// tail ends the items and the answer.
const tail = "]}"

// length is that of the items and the tail, where no projection cuts the items.
func (p *Page) length() int64 {
	return p.Bytes + int64(max(0, len(p.Records)-1)) + int64(len(tail))
}

// write writes the items, where no projection cuts them, and the tail.
func (p *Page) write(to *httpcache.ChunkWriter) {
	for i, r := range p.Records {
		if i > 0 {
			to.WriteText(",")
		}
		if p.Insertions == nil {
			to.WriteText(r.JSON.String())
			continue
		}
		n, json := &p.Insertions[i], r.JSON.String()
		to.WriteText(json[:n.at])
		to.WriteText(n.text)
		to.WriteText(json[n.at:])
	}
	to.WriteText(tail)
}

// appendItems appends the items and the tail. add is told how much longer the text becomes, and may refuse.
func (p *Page) appendItems(dst []byte, add func(n int64) error) ([]byte, error) {
	counted := len(dst)
	for i := range p.Records {
		if i > 0 {
			dst = append(dst, ',')
		}
		if p.Projection != nil {
			dst = p.Projection.Append(dst, p.Object(i).String())
		} else {
			dst = append(dst, p.Object(i).String()...)
		}
		if len(dst)-counted > httpcache.ChunkSize {
			if err := add(int64(len(dst) - counted)); err != nil {
				return dst, err
			}
			counted = len(dst)
		}
	}
	dst = append(dst, tail...)
	return dst, add(int64(len(dst) - counted))
}

// Answer is a page in one of its forms. It is a web.Responder.
//
// Its head has what changes between answers: the resource version, totals, facets. After it come the items, whose bytes are
// those of the cache, or, for a page that is requested again, joined and compressed already.
type Answer struct {
	page *Page
	form string
	head []byte
}

// Respond implements web.Responder.
func (a *Answer) Respond(w http.ResponseWriter, r *http.Request) {
	p := a.page
	if p.Partial {
		w.Header()[HeaderPartial] = partial
	}
	tag := a.tag()
	if httpcache.NotModified(w, r, tag) {
		return
	}
	f := p.Cache.responses.Reserve()
	defer f.Release()
	c, err := a.content(&f, p.Bytes > httpcache.MinGzip && httpcache.AcceptsGzip(r.Header))
	if err != nil {
		web.WriteError(w, r, err)
		return
	}
	httpcache.SetHeaders(w.Header(), tag)
	p.Cache.responses.Send(w, r, &c)
}

// tag returns the entity tag. The list's resource version, which other objects move too, is not part of it.
func (a *Answer) tag() string {
	p := a.page
	fields := ""
	if p.Projection != nil {
		fields = p.Projection.Key
	}
	if p.complete {
		fields += "\x00complete"
	}
	return httpcache.Tag(a.form, string(p.digest[:]), strconv.Itoa(p.Total), p.Facets, fields)
}

// content prepares the bytes of the answer, as far as that is needed before it begins, and counts them.
func (a *Answer) content(f *httpcache.Reservation, zip bool) (httpcache.Content, error) {
	p := a.page
	c := httpcache.Content{Before: a.head}
	switch {
	case p.Body != nil:
		if zip {
			if kept := p.Body.gzipped(p); kept != nil {
				c = kept.After(a.head)
				return c, f.Add(c.Length())
			}
		}
		c.Items = p.Body.plain(p)
		return c, f.Add(c.Length())
	case p.Projection != nil:
		text, err := p.appendItems(nil, f.Add)
		if err != nil {
			return c, err
		}
		c.Items = text
		zip = zip && len(text) > httpcache.MinGzip
	default:
		c.Write, c.More = p.write, p.length()
		if err := f.Add(c.Length()); err != nil {
			return c, err
		}
	}
	if zip {
		return p.Cache.responses.Compress(c), nil
	}
	return c, nil
}

// partial is the value of HeaderPartial; answers share it, and net/http copies it.
var partial = []string{"true"}

// HeaderPartial is the header, with the value true, of an answer that is a partial list: Page.Partial.
const HeaderPartial = "X-Kapis-Partial"

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
}

// NewCache returns an empty cache, for answers of at most maxOne bytes each and maxInFlight bytes that are written at a
// time.
func NewCache(maxInFlight, maxOne int64) *Cache {
	return &Cache{slots: lru.New[*Slot](pageCacheBounds), responses: httpcache.NewResponses(maxInFlight, maxOne)}
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

// resize tells the cache what the page costs: its bytes, and its records, which it may be the last to use.
func (b *cachedBody) resize(p *Page) {
	bytes := pageOverhead + p.Bytes + int64(cap(b.Text)) + int64(8*len(p.Records))
	if b.Deflated != nil {
		bytes += int64(cap(b.Deflated.Blocks))
	}
	p.Cache.slots.Resize(b.slot.key, b.slot, bytes)
}
