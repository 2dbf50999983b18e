package merge

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/stream"
)

const (
	// beatEvery is how often a watch says up to which versions everything was sent, and looks which clusters there are.
	beatEvery = 5 * time.Second
	// minLifetime is the shortest time of a watch without timeoutSeconds; the longest is twice that.
	minLifetime = 30 * time.Minute
)

// The annotations of bookmarks, each with names of clusters.
const (
	// AnnotationMissing names those that can't be followed at the moment: of what happens there nothing is sent until they are back.
	AnnotationMissing = "kapis.dev/clusters-missing"
	// AnnotationResetBegins and AnnotationResetEnds are around the objects of a cluster that is sent anew.
	AnnotationResetBegins = "kapis.dev/cluster-reset-begins"
	AnnotationResetEnds   = "kapis.dev/cluster-reset-ends"
)

// Watch is a watch of one list over clusters. It is a stream.Source.
type Watch struct {
	// Clusters returns the clusters to follow, as the caller. It is called again and again.
	Clusters func(context.Context) ([]Source, error)
	// Closed is called when the watch is over; nil for nothing.
	Closed func()

	options  *Options
	header   http.Header
	values   url.Values
	versions versions
	reset    bool
	lifetime time.Duration

	messages chan message
	wait     sync.WaitGroup
	follows  map[string]*followed
	kind     string // members of a bookmark, as objects of the clusters have them
	said     string // the last bookmark
	columns  row.Columns
}

// followed is a cluster whose stream is read.
type followed struct {
	source *Source
	cancel context.CancelFunc
	// lost says why there is nothing of it at the moment; resets that it is being sent anew.
	lost   bool
	resets bool
}

var _ stream.Source = (*Watch)(nil)

// Watch opens a watch. After is the id of the last event that the client has, "" for none. The error is a 400.
func (q *List) Watch(o *Options, after string) (*Watch, error) {
	v := o.values
	version := o.version
	if after != "" {
		version = after
	}
	seen, err := parseVersions(version)
	if err != nil {
		return nil, err
	}
	w := &Watch{options: o, header: q.Header, values: url.Values{}, versions: seen, follows: map[string]*followed{},
		messages: make(chan message)}
	for k, values := range v {
		w.values[k] = values
	}
	if w.lifetime, err = lifetime(w.values.Get("timeoutSeconds")); err != nil {
		return nil, err
	}
	switch text := w.values.Get("partialReset"); text {
	case "", "false":
	case "true":
		w.reset = true
	default:
		return nil, query.Invalid("partialReset", text, "true or false")
	}
	for _, refused := range []string{"sendInitialEvents", "resourceVersionMatch", "managedFields"} {
		if text := w.values.Get(refused); text != "" {
			return nil, query.Invalid(refused, text, "a watch of several clusters without it")
		}
	}
	if o.facets != "" || o.byCluster || o.next != "" || o.limited {
		return nil, query.Invalid("limit", "", "no limit, page, next and facets together with watch: view=live follows a page")
	}
	for _, own := range []string{"timeoutSeconds", "partialReset", "allowWatchBookmarks", "watch", "sortBy", "ascending"} {
		w.values.Del(own)
	}
	return w, nil
}

func lifetime(text string) (time.Duration, error) {
	if text == "" {
		return minLifetime + rand.N(minLifetime), nil
	}
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err != nil || seconds == 0 {
		return 0, query.Invalid("timeoutSeconds", text, "a number of seconds")
	}
	return time.Duration(seconds) * time.Second, nil //nolint:gosec // 31 bits
}

// Head implements stream.Source.
func (*Watch) Head(http.Header) {}

// Close implements stream.Source.
func (w *Watch) Close() {
	if w.Closed != nil {
		w.Closed()
	}
}

// Stream implements stream.Source.
func (w *Watch) Stream(ctx context.Context, out *stream.Writer) {
	ctx, cancel := context.WithTimeout(ctx, w.lifetime)
	defer w.wait.Wait()
	defer cancel()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	if w.refresh(ctx) != nil {
		return
	}
	for {
		select {
		case m := <-w.messages:
			if err := w.handle(ctx, m, out); err != nil {
				out.Fail(err)
				out.Flush()
				return
			}
			if len(w.messages) > 0 && !out.Full() {
				continue
			}
		case <-beat.C:
			if w.refresh(ctx) != nil {
				return
			}
			w.bookmark(out, "", "")
			out.Beat("")
		case <-ctx.Done():
			w.bookmark(out, "", "")
			out.Flush()
			return
		}
		if !out.Flush() {
			return
		}
	}
}

// refresh follows clusters that have come, and no longer those that have gone.
func (w *Watch) refresh(ctx context.Context) error {
	now, err := w.Clusters(ctx)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for i := range now {
		s := &now[i]
		keep[s.Name] = true
		if old := w.follows[s.Name]; old != nil {
			if old.source.UID == s.UID {
				continue
			}
			old.cancel() // another cluster of the name
		}
		w.follow(ctx, s)
	}
	for name, f := range w.follows {
		if !keep[name] {
			f.cancel()
			delete(w.follows, name)
		}
	}
	return nil
}

func (w *Watch) follow(ctx context.Context, s *Source) {
	ctx, cancel := context.WithCancel(ctx)
	w.follows[s.Name] = &followed{source: s, cancel: cancel, lost: s.Missing != nil}
	f := &follower{source: s, parameters: w.values, header: w.header, options: w.options, version: w.versions.of(s), to: w.messages}
	w.wait.Go(func() {
		defer cancel()
		f.run(ctx)
	})
}

// handle sends what a message says. The error ends the watch.
func (w *Watch) handle(_ context.Context, m message, out *stream.Writer) error {
	f := w.follows[m.source.Name]
	if f == nil || f.source != m.source {
		return nil // it is not followed any more
	}
	switch {
	case m.lost != nil:
		if !f.lost {
			f.lost = true
			w.bookmark(out, "", "")
		}
		return nil
	case m.expired:
		delete(w.versions, sumOf(m.source))
		if !w.reset {
			return apierrors.NewResourceExpired("the changes of the cluster " + m.source.Name +
				" since the resource version are not kept any more: list again")
		}
		f.resets = true
		w.bookmark(out, AnnotationResetBegins, m.source.Name)
		return nil
	}
	back := f.lost
	f.lost = false
	if m.typ != "" {
		out.Event(m.typ, "", `{"type":"`, m.typ, `","object":`, w.object(m), `}`)
	}
	if m.version != "" {
		w.versions.set(m.source, m.version)
		if f.resets {
			f.resets = false
			w.bookmark(out, AnnotationResetEnds, m.source.Name)
		}
	}
	if back {
		w.bookmark(out, "", "")
	}
	return nil
}

// object returns the object of an event: an object, or a Table of one row, of which the first has the columns of all.
func (w *Watch) object(m message) string {
	if !w.options.form.Table {
		w.seeKind(m.object)
		return m.object
	}
	shown := "null"
	if w.columns.None() && !m.columns.None() {
		w.columns = m.columns
		shown = w.columns.Shown()
		w.kind = `"kind":"Table","apiVersion":"meta.k8s.io/v1",`
	}
	return `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":` + shown + `,"rows":[` +
		m.columns.As(w.columns, m.object) + `]}`
}

// seeKind remembers the kind of the objects, which bookmarks have.
func (w *Watch) seeKind(object string) {
	if w.kind != "" {
		return
	}
	kind, version := rawjson.Get(object, "kind"), rawjson.Get(object, "apiVersion")
	if kind != "" && version != "" {
		w.kind = `"kind":` + kind + `,"apiVersion":` + version + `,`
	}
}

// bookmark says up to which versions everything was sent, which clusters are lost, and, with a key, something of one of them. One that says
// what the last one said is not sent.
func (w *Watch) bookmark(out *stream.Writer, key, value string) {
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(w.follows)) {
		if w.follows[name].lost {
			lost = append(lost, name)
		}
	}
	version := w.versions.String()
	set := rawjson.AppendString(append(rawjson.AppendString(nil, AnnotationMissing), ':'), strings.Join(lost, ","))
	if key != "" {
		set = rawjson.AppendString(append(rawjson.AppendString(append(set, ','), key), ':'), value)
	}
	text := `{"type":"BOOKMARK","object":{` + w.kind + `"metadata":{"resourceVersion":"` + version + `","annotations":{` + string(set) + `}}}}`
	if text == w.said {
		return
	}
	w.said = text
	out.Event("BOOKMARK", version, text)
}
