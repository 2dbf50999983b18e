package page

import (
	"strconv"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// Page is one page of a list. It is written by Items or List, which differ in their form.
type Page struct {
	// Total is the number of matches on all pages, Remaining of those behind this one.
	Total, Remaining int
	// ResourceVersion and Generation are those of the snapshot that the page is of.
	ResourceVersion string
	Generation      uint64
	// Partial says that the caller may see only a part of the objects, which is what the page is of. An answer
	// says so with HeaderPartial.
	Partial bool

	Cache      *Cache
	Kind       *store.Kind
	Records    []*index.Record
	Facets     string // members of the answer, empty for none
	Projection *projection.Projection
	digest     httpcache.Digest // of the records and notes
	Bytes      int64            // of their JSON
	Body       *cachedBody      // what is kept of the answer, nil for nothing
	complete   bool             // the records are those of Complete
	key        string           // of the annotation that notes set
	Insertions []Insertion      // one for each record, nil for none
}

// Len is how many objects the page has.
func (p *Page) Len() int { return len(p.Records) }

// Item returns the JSON of one object of the page: of the fields that the query asked for.
func (p *Page) Item(i int) string {
	json := p.Object(i).String()
	if p.Projection == nil {
		return json
	}
	return string(p.Projection.Append(nil, json))
}

// Items is the answer {"totalItems":N,"metadata":{...},"items":[...]}, the form of the resources routes.
func (p *Page) Items() *Answer {
	head := make([]byte, 0, 128+len(p.Facets))
	head = strconv.AppendInt(append(head, `{"totalItems":`...), int64(p.Total), 10)
	head = rawjson.AppendString(append(head, `,"metadata":{"resourceVersion":`...), p.ResourceVersion)
	return &Answer{page: p, form: "items", head: p.begin(append(head, '}'))}
}

// List is the answer as a list of Kubernetes: kind and metadata, whose continue is the total, as clients
// of KubeSphere read it.
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

// appendItems appends the items and the tail. add is told how much longer the text gets, and may refuse.
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
