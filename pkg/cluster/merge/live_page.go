package merge

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/stream"
)

// liveEvery is how often a live page is made again at most.
const liveEvery = time.Second

// Live is a page of a list over clusters that is kept up to date: a stream.Source that sends the page, and then the differences, exactly as
// Answer would answer each time. Changes in the clusters say when to ask again.
type Live struct {
	watch   *Watch
	options *Options
	last    *Answer
	// pages answers one list; it counts what is answered at once.
	pages func(context.Context) (*Answer, error)
}

var _ stream.Source = (*Live)(nil)

// Live opens a live page. Pages answers the same list, each time from the clusters that there are then.
func (q *List) Live(ctx context.Context, o *Options, pages func(context.Context) (*Answer, error)) (*Live, error) {
	if o.facets != "" || o.byCluster || o.values.Get("managedFields") != "" {
		return nil, query.Invalid("facets", "", "no facets and no managedFields in a stream: a list has them")
	}
	if !o.limited {
		return nil, query.Invalid("limit", "", "at most 500 items on a live page: watch=true follows any number")
	}
	only := *o
	only.limited, only.form.Table, only.next, only.version = false, false, "", ""
	w, err := q.Watch(&only, "")
	if err != nil {
		return nil, err
	}
	w.values.Set("fields", ".metadata.uid,.metadata.name,.metadata.namespace") // that something has changed is enough
	first, err := pages(ctx)
	if err != nil {
		return nil, err
	}
	w.versions = first.seen
	return &Live{watch: w, options: o, last: first, pages: pages}, nil
}

// Source sets which clusters are followed, and what is called at the end.
func (l *Live) Source(clusters func(context.Context) ([]Source, error), closed func()) *Live {
	l.watch.Clusters, l.watch.Closed = clusters, closed
	return l
}

// Head implements stream.Source.
func (*Live) Head(http.Header) {}

// Close implements stream.Source.
func (l *Live) Close() { l.watch.Close() }

// Stream implements stream.Source.
func (l *Live) Stream(ctx context.Context, out *stream.Writer) {
	ctx, cancel := context.WithTimeout(ctx, l.watch.lifetime)
	defer l.watch.wait.Wait()
	defer cancel()
	out.Event("PAGE", "", l.message(l.last, true))
	if !out.Flush() || l.watch.refresh(ctx) != nil {
		return
	}
	again, beat := time.NewTicker(liveEvery), time.NewTicker(beatEvery)
	defer again.Stop()
	defer beat.Stop()
	for changed := false; ; {
		select {
		case m := <-l.watch.messages:
			changed = l.watch.moved(m) || changed
		case <-beat.C:
			if l.watch.refresh(ctx) != nil {
				return
			}
			out.Beat("")
			if !out.Flush() {
				return
			}
		case <-again.C:
			if !changed {
				continue
			}
			changed = false
			now, err := l.pages(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case apierrors.IsTooManyRequests(err): // as many are answered as can be: this page is made again a second later
				changed = true
				continue
			case err != nil:
				out.Fail(err)
				out.Flush()
				return
			}
			if now.tag() == l.last.tag() {
				continue
			}
			out.Event("CHANGE", "", l.message(now, false))
			if l.last = now; !out.Flush() {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// moved records what a message says of positions, and reports whether the page may be another one.
func (w *Watch) moved(m message) bool {
	f := w.follows[m.source.Name]
	if f == nil || f.source != m.source {
		return false
	}
	if m.version != "" {
		w.versions.Set(m.source.Name, m.source.UID, m.version)
	}
	was := f.lost
	f.lost = m.lost != nil
	return m.typ != "" || m.expired || was != f.lost
}

// message is what is sent of a page: all of it, or what differs from the last one.
func (l *Live) message(a *Answer, whole bool) string {
	b := strconv.AppendInt([]byte(`{"totalItems":`), int64(a.total), 10)
	b = rawjson.AppendString(append(b, `,"resourceVersion":`...), a.seen.String())
	b = append(append(b, `,"clusters":`...), a.Clusters()...)
	if whole {
		if l.options.form.Table {
			b = append(append(b, `,"columnDefinitions":`...), a.columnsOrNone()...)
		}
		b = append(b, `,"items":[`...)
		for i, item := range a.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.AppendTo(b)
		}
		return string(append(b, "]}"...))
	}
	now, before := a.itemKeys(), l.last.itemKeys()
	if !slices.Equal(now, before) {
		b = append(b, `,"order":[`...)
		for i, key := range now {
			if i > 0 {
				b = append(b, ',')
			}
			b = rawjson.AppendString(b, key)
		}
		b = append(b, ']')
	}
	b = append(b, `,"changes":[`...)
	separator := ""
	change := func(typ, object string) {
		b = append(append(append(append(append(b, separator...), `{"type":"`...), typ...), `","object":`...), object...)
		b = append(b, '}')
		separator = ","
	}
	for i, key := range now {
		switch old := slices.Index(before, key); {
		case old < 0:
			change("ADDED", a.items[i].String())
		case l.last.items[old] != a.items[i]:
			change("MODIFIED", a.items[i].String())
		}
	}
	for i, key := range before {
		if !slices.Contains(now, key) {
			change("DELETED", l.last.identity(i))
		}
	}
	return string(append(b, "]}"...))
}

// identity returns the members that identify an item that has left the page.
func (a *Answer) identity(i int) string {
	metadata := rawjson.Get(a.form.Object(a.items[i].String()), "metadata")
	b := []byte(`{"metadata":{"annotations":{`)
	cluster := rawjson.GetText(rawjson.Get(metadata, "annotations"), AnnotationCluster)
	b = rawjson.AppendString(append(rawjson.AppendString(b, AnnotationCluster), ':'), cluster)
	b = append(b, '}')
	for _, name := range []string{"name", "namespace", "uid"} {
		if value := rawjson.GetText(metadata, name); value != "" {
			b = append(rawjson.AppendString(append(b, ','), name), ':')
			b = rawjson.AppendString(b, value)
		}
	}
	return string(append(b, "}}"...))
}

// itemKeys returns the cluster and the UID of each item: what a live page tells them apart by. No name of a cluster has a slash, so that no
// UID of one cluster, whatever that says, makes the key of an item of another one.
func (a *Answer) itemKeys() []string {
	out := make([]string, len(a.items))
	for i, item := range a.items {
		metadata := rawjson.Get(a.form.Object(item.String()), "metadata")
		out[i] = rawjson.Text(rawjson.Get(rawjson.Get(metadata, "annotations"), AnnotationCluster)) + "/" + rawjson.GetText(metadata, "uid")
	}
	return out
}
