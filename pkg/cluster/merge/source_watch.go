package merge

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"time"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/eventstream"
	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
)

const (
	// The pauses between two streams of one cluster.
	minPause, maxPause = 200 * time.Millisecond, 5 * time.Second
	eventStream        = "text/event-stream"
)

// message is something that happened in a cluster, or to its stream.
type message struct {
	source *Source
	// typ and object are those of an event, "" for none.
	typ, object string
	// columns are those of the object, which is a row of a Table.
	columns row.Columns
	// kind is that of the object, or of a bookmark, as members of an object; "" where it is not known.
	kind string
	// version is up to which everything was told, "" where that is not known.
	version string
	// lost says why there is no stream any more, and expired that the changes since the version are not known any more.
	lost    *outcome
	expired bool
}

// follower reads the stream of one cluster, again and again, and hands on what it says.
type follower struct {
	source     *Source
	parameters url.Values
	header     http.Header
	options    *Options
	columns    row.Columns // of the stream
	version    string
	// initial has a stream without a version begin with the objects that there are, of a state that has reached atLeast.
	initial bool
	atLeast string
	// fromNow has a stream without a version begin with the changes after the state that the cluster has when it is first asked.
	fromNow bool
	to      chan<- message
}

// run follows the cluster until ctx ends.
func (f *follower) run(ctx context.Context) {
	pause := minPause
	for ctx.Err() == nil {
		began := time.Now()
		err := guarded(f.source, func() error { return f.stream(ctx) })
		if ctx.Err() != nil {
			return
		}
		var o *outcome
		if err != nil && !errors.As(err, &o) {
			o = &outcome{reason: Faulty}
		}
		if o != nil && !f.send(ctx, message{lost: o}) {
			return
		}
		if pause = min(2*pause, maxPause); err == nil || time.Since(began) > maxPause {
			pause = minPause
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
		}
	}
}

func (f *follower) send(ctx context.Context, m message) bool {
	m.source = f.source
	select {
	case f.to <- m:
		return true
	case <-ctx.Done():
		return false
	}
}

// errExpired says that the stream has to begin again.
var errExpired = errors.New("the changes since the version are not known any more")

// stream follows the cluster as long as one stream lasts. The error is an *outcome, or nil where it may go on at once.
func (f *follower) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if f.fromNow && f.version == "" {
		if err := f.begin(ctx); err != nil {
			return err
		}
	}
	v := maps.Clone(f.parameters)
	v.Set("watch", "true")
	switch {
	case f.version != "":
		v.Set("resourceVersion", f.version)
	case f.initial:
		v.Set("sendInitialEvents", "true")
		v.Set("resourceVersionMatch", "NotOlderThan")
		if f.atLeast != "" {
			v.Set("resourceVersion", f.atLeast)
		}
	}
	h := f.header.Clone()
	h.Set("Accept", eventStream)
	if f.options.form.Table {
		h.Set("Accept", eventStream+","+row.AcceptTable)
	}
	resp, err := f.source.Ask(ctx, v, h)
	if err != nil {
		return unanswered(ctx)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusGone {
		return f.expire(ctx)
	}
	if resp.StatusCode != http.StatusOK {
		return refused(resp)
	}
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != eventStream || resp.Header.Get("Content-Encoding") != "" {
		return faulty()
	}
	r := eventstream.NewReader(resp.Body)
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, eventstream.ErrLong):
			return faulty()
		case err != nil:
			return &outcome{reason: Unreachable}
		}
		if err := f.event(ctx, e); errors.Is(err, errExpired) {
			return f.expire(ctx)
		} else if err != nil {
			return err
		}
	}
}

// begin finds the version of the state that the cluster has. A stream without a version would begin with all objects, and one that begins
// at no known version could not go on where it broke off.
func (f *follower) begin(ctx context.Context) error {
	v := maps.Clone(f.parameters)
	v.Set("view", query.ViewKeys)
	v.Set("limit", "0")
	v.Del("fields")
	return f.source.read(ctx, v, f.header, maxHead, nil, func(text string) error {
		page, err := row.ParsePage(text, maxTotal, 0)
		switch {
		case err == nil && page.Rows == "":
			return &outcome{reason: Unsupported}
		case err != nil || !isVersion(page.Version):
			return faulty()
		}
		f.version = page.Version
		f.send(ctx, message{version: page.Version})
		return nil
	})
}

func (f *follower) expire(ctx context.Context) error {
	f.version, f.fromNow = "", false // all that there is, is sent again
	f.send(ctx, message{expired: true})
	return nil
}

// event hands on one event.
func (f *follower) event(ctx context.Context, e eventstream.Event) error {
	if e.ID != "" && !isVersion(e.ID) {
		return faulty()
	}
	m := message{version: e.ID}
	if e.Data != "" {
		if !rawjson.Valid(e.Data, row.MaxDepth) {
			return faulty()
		}
		typ, err := row.Only(e.Data, "type")
		if err != nil {
			return err
		}
		object, err := row.Only(e.Data, "object")
		if err != nil {
			return err
		}
		m.kind = row.KindOf(object)
		switch m.typ = rawjson.Text(typ); m.typ {
		case "ADDED", "MODIFIED", "DELETED":
			var of row.Columns
			if m.object, of, err = f.options.form.Event(object, f.source.Name); err != nil {
				return err
			}
			if !of.None() {
				f.columns = of
			}
			m.columns = f.columns
		case "BOOKMARK":
			m.typ = ""
		case "ERROR":
			var s struct{ Code int }
			if json.Unmarshal([]byte(object), &s) == nil && s.Code == http.StatusGone {
				return errExpired
			}
			return &outcome{reason: NotReady}
		default:
			return faulty()
		}
	}
	if !f.send(ctx, m) {
		return ctx.Err()
	}
	if m.version != "" {
		f.version = m.version
	}
	return nil
}
