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
	"kapis.dev/ks-apiserver/pkg/cluster/merge/version"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/stream"
)

const (
	// beatEvery is how often a watch sends a bookmark, and checks which clusters there are.
	beatEvery = 5 * time.Second
	// minLifetime is the shortest time of a watch without timeoutSeconds; the longest is twice that.
	minLifetime = 30 * time.Minute
	// initialWait is how long the end of the initial events waits for clusters: those that are slower are named as missing by it.
	initialWait = 30 * time.Second
)

// annotationInitialEnd marks, with the value true, the bookmark after the initial events.
const annotationInitialEnd = "k8s.io/initial-events-end"

// The annotations of bookmarks, each with names of clusters.
const (
	// AnnotationMissing names the clusters that can't be watched at the moment. Their changes are sent when they are back.
	AnnotationMissing = "kapis.dev/clusters-missing"
	// AnnotationResetBegins and AnnotationResetEnds mark the begin and the end of the objects of a cluster that are all sent again.
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
	versions version.Versions
	reset    bool
	lifetime time.Duration
	// initial says that the watch begins with the existing objects. marked is until when the bookmark after them waits for clusters; zero if
	// no such bookmark is due.
	initial bool
	marked  time.Time
	// fromNow says that only changes from now on are sent, so that the present versions have to be found first: by a list, and of clusters
	// that were too slow for it by those who follow them. Of a cluster that joins later, all objects are sent.
	fromNow bool

	messages chan message
	wait     sync.WaitGroup
	follows  map[string]*followed
	kind     string // members of a bookmark, as objects of the clusters have them
	said     string // the last bookmark
	columns  row.Columns
}

// followed is a cluster whose watch is read.
type followed struct {
	source *Source
	cancel context.CancelFunc
	// lost says that its watch is interrupted; resets that its objects are being sent again; told that all initial objects were sent.
	lost   bool
	resets bool
	told   bool
}

var _ stream.Source = (*Watch)(nil)

// Watch opens a watch. After is the id of the last event that the client has, "" for none. The error is a 400.
func (q *List) Watch(o *Options, after string) (*Watch, error) {
	v := o.values
	begin := o.version
	if after != "" {
		begin = after
	}
	seen, err := version.Parse(begin)
	if err != nil {
		return nil, err
	}
	w := &Watch{options: o, header: q.Header, values: url.Values{}, versions: seen, follows: map[string]*followed{},
		messages: make(chan message)}
	for k, values := range v {
		w.values[k] = values
	}
	if o.form.Table {
		w.kind = `"kind":"Table","apiVersion":"meta.k8s.io/v1",`
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
	if text := w.values.Get("managedFields"); text != "" {
		return nil, query.Invalid("managedFields", text, "a watch of several clusters without it")
	}
	if err := w.parseInitial(begin, after); err != nil {
		return nil, err
	}
	if o.facets != "" || o.byCluster || o.next != "" || o.limited {
		return nil, query.Invalid("limit", "", "no limit, page, next and facets together with watch: view=live follows a page")
	}
	for _, own := range ofWatches {
		w.values.Del(own)
	}
	return w, nil
}

// ofWatches are the parameters of watches that are changed for clusters, or that lists don't have.
var ofWatches = [...]string{"timeoutSeconds", "partialReset", "allowWatchBookmarks", "watch", "sortBy", "ascending", "sendInitialEvents",
	"resourceVersionMatch"}

// parseInitial reads whether the watch begins with the existing objects, as in one cluster (metav1.ListOptions). A client that continues
// an earlier watch gets what came after its last event.
func (w *Watch) parseInitial(version, after string) error {
	send, match := w.values.Get("sendInitialEvents"), w.values.Get("resourceVersionMatch")
	switch {
	case send != "true" && send != "false" && send != "":
		return query.Invalid("sendInitialEvents", send, "true or false")
	case send != "" && match != "NotOlderThan":
		return query.Invalid("resourceVersionMatch", match, "NotOlderThan together with sendInitialEvents")
	case send == "" && match != "":
		return query.Invalid("resourceVersionMatch", match, "sendInitialEvents together with it")
	case after != "":
	case send == "true":
		w.initial, w.marked = true, time.Now().Add(initialWait)
	case send == "false":
		w.fromNow = version == "" || version == "0"
	}
	return nil
}

// Versions returns the list whose versions a watch from now on begins at; nil for a watch that needs none.
func (w *Watch) Versions() *Options {
	if !w.fromNow {
		return nil
	}
	o := *w.options
	o.limit, o.page, o.version, o.values = 0, 1, "", w.values
	return &o
}

// Begin has the watch begin at the versions of a list.
func (w *Watch) Begin(a *Answer) { w.versions = a.seen }

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
	w.fromNow = false
	w.markInitial(out)
	if !out.Flush() {
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
			w.markInitial(out)
			if len(w.messages) > 0 && !out.Full() {
				continue
			}
		case <-beat.C:
			if w.refresh(ctx) != nil {
				return
			}
			w.markInitial(out)
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

// refresh begins to watch clusters that have come, and stops for those that have gone.
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
	f := &follower{source: s, parameters: w.values, header: w.header, options: w.options, version: w.versions.Of(s.Name, s.UID),
		fromNow: w.fromNow, to: w.messages}
	if w.initial {
		f.atLeast, f.initial, f.version = f.version, true, ""
	}
	w.wait.Go(func() {
		defer cancel()
		f.run(ctx)
	})
}

// handle sends the events of a message. Its error ends the watch.
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
		w.versions.Forget(m.source.Name, m.source.UID)
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
	w.seeKind(m.kind, m.source.Own)
	if m.typ != "" {
		out.Event(m.typ, "", `{"type":"`, m.typ, `","object":`, w.object(m), `}`)
	}
	if m.version != "" {
		w.versions.Set(m.source.Name, m.source.UID, m.version)
		f.told = true // what there was at first has no version
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
		return m.object
	}
	shown := "null"
	if w.columns.None() && !m.columns.None() {
		w.columns = m.columns
		shown = w.columns.Shown()
	}
	return `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":` + shown + `,"rows":[` +
		m.columns.As(w.columns, m.object) + `]}`
}

// seeKind remembers the kind of the objects, which bookmarks have: that of this cluster, or the first that another one says.
func (w *Watch) seeKind(kind string, own bool) {
	if kind != "" && !w.options.form.Table && (w.kind == "" || own) {
		w.kind = kind
	}
}

// markInitial sends the bookmark after the initial events, once: when each cluster has sent all of its own, or can't, or its time is up.
func (w *Watch) markInitial(out *stream.Writer) {
	if w.marked.IsZero() {
		return
	}
	if time.Now().Before(w.marked) {
		for _, f := range w.follows {
			if !f.told && !f.lost {
				return
			}
		}
	}
	w.marked = time.Time{}
	w.bookmark(out, annotationInitialEnd, "true")
}

// bookmark sends a bookmark: up to which versions everything was sent, which clusters are lost, and with a key an annotation about one of
// them. One that equals the last one is not sent.
func (w *Watch) bookmark(out *stream.Writer, key, value string) {
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(w.follows)) {
		if f := w.follows[name]; f.lost || key == annotationInitialEnd && !f.told {
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
