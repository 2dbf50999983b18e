package table

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/recent"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// mostDefinitions is how many layouts of custom resources are cached.
const mostDefinitions = 512

// Printers has the columns of all kinds.
type Printers struct {
	store   *store.Store
	planner *plan.Planner

	mu      sync.Mutex
	defined *recent.Map[schema.GroupVersionResource, *definedLayout]
}

// NewPrinters returns the printers of the kinds of a store.
func NewPrinters(s *store.Store, p *plan.Planner) *Printers {
	return &Printers{store: s, planner: p, defined: recent.NewMap[schema.GroupVersionResource, *definedLayout](mostDefinitions)}
}

// For returns the printer of a kind's objects as a scope shows them: with the columns of built-in kinds that kubectl's users know, with
// those that the definition of a custom resource names, or with the name and the age.
func (p *Printers) For(ctx context.Context, k *store.Kind, scope plan.Scope, form *Form) *Printer {
	l := layouts[k.GVR.GroupResource()]
	if l == nil {
		l = p.custom(ctx, k)
	}
	out := &Printer{layout: l, form: *form, row: row{now: time.Now(), dataHidden: p.planner.HasData(k) && !p.planner.WithData(k, scope)}}
	if scope.KeyCount {
		out.keyCount = p.planner.KindOf(k.GVR).KeyCount
	}
	return out
}

// Answer returns the answer to a request for one object: the object, or a Table where the client prefers that. The error is that of FormOf.
func (p *Printers) Answer(r *http.Request, k *store.Kind, scope plan.Scope, o *page.Object) (any, error) {
	if !Requested(r.Header) {
		return o, nil
	}
	form, err := FormOf(r.URL.Query().Get(ParamInclude))
	if err != nil {
		return nil, err
	}
	return p.For(r.Context(), k, scope, form).Object(o), nil
}

// Printer writes the objects of one answer as rows of a Table. One goroutine uses it.
type Printer struct {
	*layout
	form Form
	row  row
	// keyCount is plan.Kind.KeyCount where rows show what it says.
	keyCount int
	// titled says that an event of the answer had the columns.
	titled bool
}

// Columns returns the JSON of the columns.
func (p *Printer) Columns() string {
	text, err := json.Marshal(p.columns)
	if err != nil {
		return "[]" // texts and numbers can always be encoded
	}
	return string(text)
}

// appendRow appends the row of an object. shown is what the row has of it where the client asked for whole objects.
func (p *Printer) appendRow(dst []byte, object, shown string) []byte {
	o := value(object)
	p.row.cells = p.row.cells[:0]
	p.cells(&p.row, o)
	dst = append(dst, `{"cells":[`...)
	dst = append(dst, p.row.cells...)
	dst = append(dst, ']')
	switch p.form.Object {
	case Whole:
		dst = append(append(dst, `,"object":`...), shown...)
	case Metadata:
		dst = append(dst, `,"object":{"kind":"PartialObjectMetadata","apiVersion":"`+apiVersion+`","metadata":`...)
		meta := o.at("metadata")
		if meta == "" {
			meta = "{}"
		}
		dst = append(append(dst, meta...), '}')
	case Nothing:
		dst = append(dst, `,"object":null`...)
	}
	return append(dst, '}')
}

// of prepares the row of an object of the cache.
func (p *Printer) of(r *index.Record) {
	p.row.keyCount = ""
	if p.keyCount > 0 && p.keyCount <= len(r.Fields) { // an object that was read at kube-apiserver has no fields
		p.row.keyCount = r.Fields[p.keyCount-1]
	}
}

// Row returns the row of an object, as an item of a live page.
func (p *Printer) Row(r *index.Record, object, shown string) string {
	p.row.now = time.Now()
	p.of(r)
	return string(p.appendRow(nil, object, shown))
}

// Event returns the Table of the object of one event of a watch. The first one has the columns, and no other, as kube-apiserver sends them.
func (p *Printer) Event(object, shown string) string {
	p.row.now = time.Now()
	dst := make([]byte, 0, 1024)
	dst = append(dst, `{"kind":"Table","apiVersion":"`+apiVersion+`","metadata":{"resourceVersion":`...)
	version := value(object).at("metadata", "resourceVersion")
	if version == "" {
		version = `""`
	}
	dst = append(append(dst, version...), `},"columnDefinitions":`...)
	if p.titled {
		dst = append(dst, "null"...)
	} else {
		dst, p.titled = append(dst, p.Columns()...), true
	}
	dst = p.appendRow(append(dst, `,"rows":[`...), object, shown)
	return string(append(dst, "]}"...))
}
