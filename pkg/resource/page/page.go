package page

import (
	"net/http"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/inflight"
	"kapis.dev/ks-apiserver/pkg/query"
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
	// Last is the position after the last object, nil where that was not asked for.
	Last *query.Cursor

	Cache      *Cache
	Kind       *store.Kind
	Records    []*index.Record
	Facets     string // members of the answer, empty for none
	Projection *projection.Projection
	digest     httpcache.Digest  // of the records and insertions
	Bytes      int64             // of their JSON
	Body       *cachedBody       // the cached answer, nil for none
	complete   bool              // the records are those of Complete
	reduced    bool              // the records are those of Reduce
	Insertions []Insertion       // one for each record, nil for none
	insert     func(*Page) *Page // makes the Insertions of a page with the same objects
}

// Len returns how many objects the page has.
func (p *Page) Len() int { return len(p.Records) }

// Reduce cuts the objects of the page down to its projection for good: no form of the answer, annotation or entity tag has anything else of
// them. A page has no entity tag before.
func (p *Page) Reduce() {
	for i, r := range p.Records {
		shown := string(p.Projection.Append(nil, r.JSON.String()))
		p.Records[i] = &index.Record{Ref: r.Ref, JSON: r.JSON.Replace(0, r.JSON.Len(), shown)} // without a version, its tag is made of its text
	}
	p.reduced, p.Projection = true, nil
}

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
	f := p.Cache.responses.Reserve(r.Context())
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

// NewCache returns an empty cache, for answers of at most maxOne bytes each and maxInFlight bytes that are written at a
// time.
func NewCache(maxInFlight, maxOne int64) *Cache {
	return &Cache{slots: lru.New[*Slot](pageCacheBounds), responses: httpcache.NewResponses(maxInFlight, maxOne),
		reads: inflight.NewByUser(readersOfAll, readers)}
}
