package resource

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// ViewLive is the value of the parameter view that asks for a page that is kept up to date.
const ViewLive = "live"

const (
	// pageEvery is how often a live page is sent at most.
	pageEvery = 200 * time.Millisecond
	// maxLive is the longest live page: it is looked at with every change.
	maxLive = 500
)

// Live is a page of a list that is kept up to date: a stream.Source that sends the page, and then what
// is different, exactly as List would answer at each of these moments.
type Live struct {
	service    *Service
	kind       *store.Kind
	scope      Scope
	query      *query.Query // without projection: items are told apart by what they don't show, too
	projection *projection  // nil for whole objects
	from       *store.Watch

	lifetime                time.Duration
	last                    shownPage
	wake, page, check, beat time.Duration
}

// shownPage is what the client has been shown.
type shownPage struct {
	*Page
	raw, items, keys []string
}

// IsLive tells whether a query asks for a live page.
func IsLive(q *query.Query) (bool, error) {
	v, _ := q.Param("view")
	if v != "" && v != ViewLive {
		return false, query.Invalid("view", v, ViewLive)
	}
	return v == ViewLive, nil
}

// Live begins a live page.
func (s *Service) Live(ctx context.Context, k *store.Kind, scope Scope, q *query.Query) (*Live, error) {
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
	var shows *projection
	if len(q.Project) > 0 { // the order names objects by their UIDs
		shows = newProjection(append(slices.Clip(q.Project), query.Path{"metadata", "uid"}))
	}
	plan := &builder{ctx: ctx, service: s, kind: k, own: s.own(k.GVR), scope: scope, query: &whole}
	if err := plan.build(); err != nil {
		return nil, err
	}
	x := &Live{
		service: s, kind: k, scope: scope, query: &whole, projection: shows, lifetime: lifetime,
		wake: wakeEvery, page: pageEvery, check: beatEvery, beat: beatEvery,
	}
	if len(plan.depends) > 0 || plan.own.remark != nil {
		x.check = dependEvery // nothing wakes it when those kinds change
	}
	if x.from, err = s.watchOf(ctx, k, scope); err != nil {
		return nil, err
	}
	x.from.Snapshot() // what follows is as new
	if x.last, err = x.now(ctx); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// Head implements stream.Source.
func (x *Live) Head(h http.Header) { markPartial(h, x.scope) }

// Close implements stream.Source.
func (x *Live) Close() { x.from.Close() }

// Stream implements stream.Source.
func (x *Live) Stream(ctx context.Context, out *stream.Writer) {
	ctx, cancel := context.WithTimeout(ctx, x.lifetime)
	defer cancel()
	out.Event("PAGE", "", string(x.last.whole()))
	if !out.Flush() {
		return
	}
	// What has changed since the page was made is sent without a pause.
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
			out.Event("CHANGE", "", string(page.since(&x.last)))
			x.last, sent, heard = page, time.Now(), time.Now()
		case time.Since(heard) >= x.beat:
			out.Beat("")
			heard = time.Now()
		default:
			pause(ctx, x.wake)
			continue
		}
		if !out.Flush() {
			return
		}
	}
}

// next waits until the page may be another one and may be sent, and returns it.
func (x *Live) next(ctx context.Context, sent time.Time) (shownPage, error) {
	until, cancel := context.WithTimeout(ctx, x.check)
	_, err := x.from.Next(until)
	cancel()
	if errors.Is(err, store.ErrGone) {
		return shownPage{}, err
	}
	pause(ctx, x.page-time.Since(sent))
	return x.now(ctx)
}

// now is the page of this moment.
func (x *Live) now(ctx context.Context) (shownPage, error) {
	p, err := x.service.List(ctx, x.kind, x.scope, x.query)
	if err != nil {
		return shownPage{}, err
	}
	s := shownPage{Page: p, raw: make([]string, p.Len())}
	for i := range s.raw {
		s.raw[i] = p.Item(i)
	}
	s.items, s.keys = s.raw, make([]string, len(s.raw))
	if x.projection != nil {
		s.items = make([]string, len(s.raw))
	}
	for i, raw := range s.raw {
		if i < len(x.last.raw) && x.last.raw[i] == raw { // the very same text, mostly
			s.keys[i], s.items[i] = x.last.keys[i], x.last.items[i]
			continue
		}
		s.keys[i] = keyOf(raw)
		if x.projection != nil {
			s.items[i] = string(x.projection.append(nil, raw))
		}
	}
	return s, nil
}

// keyOf is what an object is told apart by, as JSON: its UID, or its namespace and name where it has none.
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

// same tells whether a client that was shown t needs not be told of s.
func (s *shownPage) same(t *shownPage) bool {
	return s.Total == t.Total && slices.Equal(s.items, t.items) && slices.Equal(s.keys, t.keys)
}

// head is the beginning of a message.
func (s *shownPage) head() []byte {
	b := strconv.AppendUint([]byte(`{"generation":`), s.Generation, 10)
	b = strconv.AppendInt(append(b, `,"totalItems":`...), int64(s.Total), 10)
	return strconv.AppendQuote(append(b, `,"resourceVersion":`...), s.ResourceVersion)
}

// whole is the first message.
func (s *shownPage) whole() []byte {
	return append(appendList(append(s.head(), `,"items":`...), s.items), '}')
}

func appendList(b []byte, values []string) []byte {
	b = append(b, '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, v...)
	}
	return append(b, ']')
}

// since is the message for a client that was shown t: the order where it is another one, and the objects
// that came, changed, or left the page.
func (s *shownPage) since(t *shownPage) []byte {
	b := s.head()
	if !slices.Equal(s.keys, t.keys) {
		b = appendList(append(b, `,"order":`...), s.keys)
	}
	before := make(map[string]string, len(t.keys))
	for i, key := range t.keys {
		before[key] = t.items[i]
	}
	var changes []string
	change := func(typ, object string) {
		changes = append(changes, `{"type":"`+typ+`","object":`+object+`}`)
	}
	for i, key := range s.keys {
		old, was := before[key]
		delete(before, key)
		switch {
		case !was:
			change(added, s.items[i])
		case old != s.items[i]:
			change(modified, s.items[i])
		}
	}
	for i, key := range t.keys {
		if _, left := before[key]; left {
			change(deleted, identity(t.raw[i]))
		}
	}
	return append(appendList(append(b, `,"changes":`...), changes), '}')
}

// identity is what is said of an object that has left a page: which one it is.
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
