package resource

import (
	"io"
	"net/http"
	"strconv"
	"sync"

	"kapis.dev/ks-apiserver/pkg/store"
)

// Page is one page of a list. It is written by Items or List, which differ in their form.
type Page struct {
	// Total is the number of matches on all pages, Remaining of those behind this one.
	Total, Remaining int
	// ResourceVersion and Generation are those of the moment that the page shows.
	ResourceVersion string
	Generation      uint64
	// Partial says that the caller may see only a part of the objects, which is what the page is of. An answer
	// says so with HeaderPartial.
	Partial bool

	kind  *store.Kind
	items []string
}

// Len is how many objects the page has.
func (p *Page) Len() int { return len(p.items) }

// Item returns the JSON of one object of the page.
func (p *Page) Item(i int) string { return p.items[i] }

// Answer is a page in one of its forms. It is a web.Responder.
type Answer struct {
	head  string
	items []string
	tail  string
}

// Items writes the page as {"items":[...],"totalItems":N}, the form of the resources routes.
func (p *Page) Items() *Answer {
	tail := append([]byte(`],"totalItems":`), strconv.Itoa(p.Total)...)
	tail = strconv.AppendQuote(append(tail, `,"metadata":{"resourceVersion":`...), p.ResourceVersion)
	return &Answer{head: `{"items":[`, items: p.items, tail: string(append(tail, `}}`...))}
}

// List writes the page as a list of Kubernetes: kind and metadata, whose continue is the total, as
// clients of KubeSphere read it.
func (p *Page) List() *Answer {
	total := strconv.Itoa(p.Total)
	head := make([]byte, 0, 192)
	head = strconv.AppendQuote(append(head, `{"kind":`...), p.kind.Kind+"List")
	head = strconv.AppendQuote(append(head, `,"apiVersion":`...), p.kind.GVR.GroupVersion().String())
	head = strconv.AppendQuote(append(head, `,"metadata":{"resourceVersion":`...), p.ResourceVersion)
	head = append(head, `,"continue":"`+total+`","remainingItemCount":`...)
	head = append(strconv.AppendInt(head, int64(p.Remaining), 10), `},"items":[`...)
	return &Answer{head: string(head), items: p.items, tail: `],"totalItems":` + total + `}`}
}

// Respond implements web.Responder.
func (a *Answer) Respond(w http.ResponseWriter, r *http.Request) {
	n := len(a.head) + len(a.tail)
	for _, item := range a.items {
		n += len(item)
	}
	if len(a.items) > 1 {
		n += len(a.items) - 1
	}
	if !start(w, r, n) {
		return
	}
	out := writer(w)
	defer out.free()
	out.write(a.head)
	for i, item := range a.items {
		if i > 0 {
			out.write(",")
		}
		out.write(item)
	}
	out.write(a.tail)
	out.flush()
}

// Object is one object.
type Object struct {
	// JSON is the object, ResourceVersion its version.
	JSON, ResourceVersion string
}

// Respond implements web.Responder.
func (o *Object) Respond(w http.ResponseWriter, r *http.Request) {
	if start(w, r, len(o.JSON)) {
		_, _ = io.WriteString(w, o.JSON) // the client is gone: nobody is left to tell
	}
}

// Values of headers that every answer shares; net/http copies them.
var contentType, nosniff = []string{"application/json"}, []string{"nosniff"}

// start writes the head of an answer of n bytes, and tells whether the bytes are wanted.
func start(w http.ResponseWriter, r *http.Request, n int) bool {
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = contentType, nosniff
	h["Content-Length"] = []string{strconv.Itoa(n)}
	w.WriteHeader(http.StatusOK)
	return r.Method != http.MethodHead
}

// chunk is how much is written at once: enough that a system call costs little.
const chunk = 64 << 10

// chunks collects small texts into large writes.
type chunks struct {
	to  io.Writer
	buf []byte
	err error
}

var buffers = sync.Pool{New: func() any { return &chunks{buf: make([]byte, 0, chunk)} }}

func writer(w io.Writer) *chunks {
	c := buffers.Get().(*chunks)
	c.to, c.buf, c.err = w, c.buf[:0], nil
	return c
}

func (c *chunks) free() {
	c.to = nil
	buffers.Put(c)
}

func (c *chunks) write(s string) {
	for len(s) > 0 {
		n := copy(c.buf[len(c.buf):cap(c.buf)], s)
		c.buf, s = c.buf[:len(c.buf)+n], s[n:]
		if len(c.buf) == cap(c.buf) {
			c.flush()
		}
	}
}

func (c *chunks) flush() {
	if c.err == nil && len(c.buf) > 0 {
		_, c.err = c.to.Write(c.buf)
	}
	c.buf = c.buf[:0]
}
