package watch

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
	"kapis.dev/ks-apiserver/pkg/resource/table"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// ViewLive is the value of the parameter view that asks for a page that is kept up to date.
const ViewLive = "live"

const (
	// pageEvery is how often a live page is sent at most.
	pageEvery = 200 * time.Millisecond
	// maxLive is the longest live page: all of it is compared at every change.
	maxLive = 500
)

// Live is a page of a list that is kept up to date: a stream.Source that sends the page, and then the differences, exactly
// as List would answer each time.
type Live struct {
	streams    *Streams
	kind       *store.Kind
	scope      plan.Scope
	query      *query.Query           // without projection: items are identified by fields that they don't show, too
	projection *projection.Projection // nil for whole objects
	printer    *table.Printer         // nil for objects as they are; else items are rows of a Table
	from       *store.Watch

	lifetime                time.Duration
	last                    shownPage
	first                   message // the page that it begins with, reserved until it is sent
	flight                  httpcache.Reservation
	sums                    bool // items are compared by sums: they are not the texts of the cache
	Wake, Page, Check, Beat time.Duration
}

// shownPage is the page that the client has. It refers to cached objects, and holds no copies of their texts.
type shownPage struct {
	*page.Page
	keys []string
	sums []httpcache.Digest // of the items, nil where they are the texts of the cache
}

// message is one message to the client, in pieces. The bytes of pieces that are made for it are counted.
type message struct {
	parts  []string
	flight *httpcache.Reservation
	err    error
}

// add appends pieces, or records that they are too many bytes.
func (m *message) add(parts ...string) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if m.err == nil {
		m.err = m.flight.Add(int64(n))
	}
	if m.err == nil {
		m.parts = append(m.parts, parts...)
	}
}

// list appends a list of n values.
func (m *message) list(name string, n int, value func(i int) string) {
	m.add(`,"`, name, `":[`)
	for i := 0; i < n && m.err == nil; i++ {
		if i > 0 {
			m.add(",")
		}
		m.add(value(i))
	}
	m.add("]")
}

// Live opens a live page.
func (s *Streams) Live(ctx context.Context, k *store.Kind, scope plan.Scope, q *query.Query) (*Live, error) {
	return s.live(ctx, k, scope, q, nil)
}

// live opens a live page whose items are what a printer makes of objects, if it is not nil.
func (s *Streams) live(ctx context.Context, k *store.Kind, scope plan.Scope, q *query.Query, printer *table.Printer) (*Live, error) {
	if q.Limit == query.All || q.Limit > maxLive {
		v, _ := q.Param("limit")
		return nil, query.Invalid("limit", v, "at most "+strconv.Itoa(maxLive)+" items on a live page: watch=true follows any number")
	}
	if err := static(q); err != nil {
		return nil, err
	}
	lifetime, err := lifetimeOf(q)
	if err != nil {
		return nil, err
	}
	whole := *q
	whole.Project = nil
	var shows *projection.Projection
	if len(q.Project) > 0 { // the order names objects by their UIDs
		shows = projection.New(append(slices.Clip(q.Project), query.Path{"metadata", "uid"}))
	}
	plan, err := s.planner.Plan(ctx, k, scope, &whole)
	if err != nil {
		return nil, err
	}
	x := &Live{
		streams: s, kind: k, scope: scope, query: &whole, projection: shows, printer: printer, lifetime: lifetime,
		Wake: wakeEvery, Page: pageEvery, Check: beatEvery, Beat: beatEvery,
	}
	x.sums = shows != nil || plan.Own.Completed()
	if len(plan.Depends) > 0 || plan.Own.Annotation != nil {
		x.Check = dependEvery // changes of those kinds do not wake it
	}
	if x.from, err = s.planner.Watch(ctx, k, scope); err != nil {
		return nil, err
	}
	x.from.Snapshot() // later pages are at least as new
	x.flight = s.responses.Reserve(ctx)
	if x.last, err = x.now(ctx); err == nil { // while it can still be refused with a status code
		x.first = x.whole(&x.last)
		err = x.first.err
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// Head implements stream.Source.
func (x *Live) Head(h http.Header) { markPartial(h, x.scope) }

// Close implements stream.Source.
func (x *Live) Close() {
	x.flight.Release()
	x.from.Close()
}

// Stream implements stream.Source.
func (x *Live) Stream(ctx context.Context, out *stream.Writer) {
	ctx, cancel := context.WithTimeout(ctx, x.lifetime)
	defer cancel()
	if !x.send(out, "PAGE", &x.first) {
		return
	}
	// Changes since the page was made are sent without a pause.
	var sent time.Time
	for heard := time.Now(); ; {
		page, err := x.next(ctx, sent)
		switch {
		case ctx.Err() != nil || errors.Is(err, store.ErrGone):
			return
		case err != nil:
			out.Fail(err)
			out.Flush()
			return
		case !page.same(&x.last):
			change := x.since(&page)
			if !x.send(out, "CHANGE", &change) {
				return
			}
			x.last, sent, heard = page, time.Now(), time.Now()
		case time.Since(heard) >= x.Beat:
			out.Beat("")
			if !out.Flush() {
				return
			}
			heard = time.Now()
		default:
			pause(ctx, x.Wake)
		}
	}
}

// send sends a message, or why it can't be sent, and reports whether the stream goes on. Its bytes stay reserved until the
// client has received it.
func (x *Live) send(out *stream.Writer, typ string, m *message) bool {
	defer x.flight.Release()
	if m.err != nil {
		x.flight.Release()
		out.Fail(m.err)
		out.Flush()
		return false
	}
	out.Event(typ, "", m.parts...)
	*m = message{}
	return out.Flush()
}

// next waits until the page may have changed and may be sent again, and returns it.
func (x *Live) next(ctx context.Context, sent time.Time) (shownPage, error) {
	until, cancel := context.WithTimeout(ctx, x.Check)
	_, err := x.from.Next(until)
	cancel()
	if errors.Is(err, store.ErrGone) {
		return shownPage{}, err
	}
	pause(ctx, x.Page-time.Since(sent))
	return x.now(ctx)
}

// now returns the page as it is now.
func (x *Live) now(ctx context.Context) (shownPage, error) {
	p, err := x.streams.list(ctx, x.kind, x.scope, x.query)
	if err != nil {
		return shownPage{}, err
	}
	p.Body = nil // only answers use it
	s := shownPage{Page: p, keys: make([]string, p.Len())}
	if x.sums {
		s.sums = make([]httpcache.Digest, p.Len())
	}
	var room []byte
	for i, r := range p.Records {
		if x.last.has(p, i) { // mostly
			s.keys[i] = x.last.keys[i]
			if x.sums {
				s.sums[i] = x.last.sums[i]
			}
			continue
		}
		s.keys[i] = keyOf(r.JSON.String())
		if x.sums {
			room = x.appendItem(room[:0], p, i)
			s.sums[i] = sha256.Sum256(room)
		}
	}
	return s, nil
}

// appendItem appends an object of a page as it is shown.
func (x *Live) appendItem(dst []byte, p *page.Page, i int) []byte {
	if x.projection == nil {
		return append(dst, p.Object(i).String()...)
	}
	return x.projection.Append(dst, p.Object(i).String())
}

// item returns an object of a page as it is shown, without a copy where it is the text of the cache.
func (x *Live) item(p *page.Page, i int) string {
	if x.printer != nil {
		object := p.Object(i).String()
		return x.printer.Row(p.Records[i], object, string(x.appendItem(nil, p, i)))
	}
	if x.projection == nil {
		return p.Object(i).String()
	}
	return string(x.projection.Append(nil, p.Object(i).String()))
}

// has reports whether s has the same object as p at the same index.
func (s *shownPage) has(p *page.Page, i int) bool {
	return i < len(s.keys) && s.Records[i].JSON == p.Records[i].JSON && s.InsertionAt(i) == p.InsertionAt(i)
}

// keyOf returns the identity of an object, as JSON: its UID, or its namespace and name where it has none.
func keyOf(object string) string {
	meta := rawjson.Get(object, "metadata")
	if uid := rawjson.Get(meta, "uid"); len(uid) > 2 {
		return uid
	}
	key, err := json.Marshal(rawjson.GetText(meta, "namespace") + "/" + rawjson.GetText(meta, "name"))
	if err != nil {
		return `""`
	}
	return string(key)
}

// same reports whether a client that was shown t needs no message about s.
func (s *shownPage) same(t *shownPage) bool {
	if s.Total != t.Total || !slices.Equal(s.keys, t.keys) {
		return false
	}
	for i := range s.keys {
		if !s.equal(i, t, i) {
			return false
		}
	}
	return true
}

// equal reports whether the item i of s is the item j of t.
func (s *shownPage) equal(i int, t *shownPage, j int) bool {
	if s.sums != nil {
		return s.sums[i] == t.sums[j]
	}
	return s.Records[i].JSON == t.Records[j].JSON
}

// message begins a message about a page.
func (x *Live) message(s *shownPage) message {
	b := strconv.AppendUint([]byte(`{"generation":`), s.Generation, 10)
	b = strconv.AppendInt(append(b, `,"totalItems":`...), int64(s.Total), 10)
	b = strconv.AppendQuote(append(b, `,"resourceVersion":`...), s.ResourceVersion)
	m := message{flight: &x.flight}
	m.add(string(b))
	return m
}

// whole returns the first message.
func (x *Live) whole(s *shownPage) message {
	m := x.message(s)
	if x.printer != nil {
		m.add(`,"columnDefinitions":`, x.printer.Columns())
	}
	m.list("items", s.Len(), func(i int) string { return x.item(s.Page, i) })
	m.add("}")
	return m
}

// since returns the message about the next page: the order where it has changed, and the objects that came, changed, or left
// the page.
func (x *Live) since(s *shownPage) message {
	t, m := &x.last, x.message(s)
	if !slices.Equal(s.keys, t.keys) {
		m.list("order", len(s.keys), func(i int) string { return s.keys[i] })
	}
	before := make(map[string]int, len(t.keys))
	for i, key := range t.keys {
		before[key] = i
	}
	m.add(`,"changes":[`)
	separator := ""
	change := func(typ, object string) {
		m.add(separator, `{"type":"`, typ, `","object":`, object, "}")
		separator = ","
	}
	for i, key := range s.keys {
		old, was := before[key]
		delete(before, key)
		switch {
		case m.err != nil:
		case !was:
			change(added, x.item(s.Page, i))
		case !s.equal(i, t, old):
			change(modified, x.item(s.Page, i))
		}
	}
	for i, key := range t.keys {
		if _, left := before[key]; left {
			change(deleted, identity(t.Records[i].JSON.String()))
		}
	}
	m.add("]}")
	return m
}

// identity returns the JSON members by which a message names an object that has left the page.
func identity(object string) string {
	var b []byte
	for m := rawjson.Object(object); m.Next(); {
		if m.Key == "kind" || m.Key == "apiVersion" {
			b = append(append(append(append(b, '"'), m.Key...), `":`...), m.Value...)
			b = append(b, ',')
		}
	}
	b = append(b, `"metadata":{`...)
	n := len(b)
	for m := rawjson.Object(rawjson.Get(object, "metadata")); m.Next(); {
		if m.Key == "name" || m.Key == "namespace" || m.Key == "uid" {
			if len(b) > n {
				b = append(b, ',')
			}
			b = append(append(append(append(b, '"'), m.Key...), `":`...), m.Value...)
		}
	}
	return "{" + string(b) + "}}"
}
