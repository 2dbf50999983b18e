package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/resource/page"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
	"kapis.dev/ks-apiserver/pkg/resource/table"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
	"kapis.dev/ks-apiserver/pkg/stream"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The intervals of a stream. A change is shown at once if there was none for wakeEvery, and otherwise within that time.
const (
	wakeEvery   = 40 * time.Millisecond
	beatEvery   = 15 * time.Second
	dependEvery = time.Second // of what a filter depends on
)

// aheadFor is how long an open stream waits for the version that its client continues from: kinds that seldom change reach it with a
// bookmark of kube-apiserver, which come every minute.
const aheadFor = 90 * time.Second

// initialTimeout is how long a client may take to receive the initial objects of a watch, since the snapshot is held so
// long.
const initialTimeout = 2 * time.Minute

// The types of events (metav1.WatchEvent).
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
	bookmark = "BOOKMARK"
)

// Watching is a watch of what a query matches: a stream.Source of the watch events of Kubernetes. An object that begins to
// match is ADDED to it; one that no longer matches is DELETED, in its last state.
//
// It stores a position in the history of the kind, and no object: a slow client costs no memory. Where the history no longer
// goes back that far, the watch ends with 410.
type Watching struct {
	plan    *plan.Builder
	options watchOptions
	printer *table.Printer // nil for objects as they are
	From    *store.Watch

	At      uint64 // position up to which the client has been told
	version string // what it has seen by that
	expired bool   // the client asked for changes that are no longer in the history
	ahead   bool   // the client has seen more than the cache: it is told nothing until the cache has that

	Wake, Beat, Check, Ahead time.Duration
}

// Watch opens a watch of the objects that a query matches in a scope. The query's order has no effect. after is the version
// after which a client that reconnects continues (Last-Event-ID), empty for none.
func (s *Streams) Watch(ctx context.Context, k *store.Kind, scope plan.Scope, q *query.Query, after string) (*Watching, error) {
	return s.watch(ctx, k, scope, q, after, false)
}

// watch is Watch. Where open is set, a client that continues from a version that the cache has not reached waits in its stream: an
// EventSource gives up for good after an answer that is no stream.
func (s *Streams) watch(ctx context.Context, k *store.Kind, scope plan.Scope, q *query.Query, after string, open bool) (*Watching, error) {
	if err := plan.CheckScope(k, scope); err != nil {
		return nil, err
	}
	o, err := watchOptionsOf(q, after)
	if err != nil {
		return nil, err
	}
	unsorted := *q
	unsorted.SortBy = nil
	b, err := s.planner.Plan(ctx, k, scope, &unsorted)
	if err != nil {
		return nil, err
	}
	if !open || o.initial {
		if err := s.reach(ctx, k, scope, o); err != nil {
			return nil, err
		}
	}
	from, err := s.planner.Watch(ctx, k, scope)
	if err != nil {
		return nil, err
	}
	x := &Watching{plan: b, options: o, From: from, Wake: wakeEvery, Beat: beatEvery, Check: dependEvery, Ahead: aheadFor}
	snap := from.Snapshot()
	x.At, x.version = snap.Position(), snap.ResourceVersion()
	if !o.initial && o.version != "" {
		at, ok := snap.After(o.version)
		x.At, x.version, x.expired, x.ahead = at, o.version, !ok, !snap.Reaches(o.version)
	}
	return x, nil
}

// reach waits until the cache has the version that a client continues from. It does not wait for one that is gone for good, too old or of
// a state before the restore of a backup: the watch will say so.
func (s *Streams) reach(ctx context.Context, k *store.Kind, scope plan.Scope, o watchOptions) error {
	if o.version == "" {
		return nil
	}
	if !o.initial {
		newest, err := s.planner.Snapshot(ctx, k, scope, "")
		if err != nil {
			return err
		}
		if _, known := newest.After(o.version); !known {
			return nil
		}
	}
	_, err := s.planner.Snapshot(ctx, k, scope, o.version)
	return err
}

// Head implements stream.Source.
func (x *Watching) Head(h http.Header) { markPartial(h, x.plan.Scope) }

func markPartial(h http.Header, scope plan.Scope) {
	if scope.PartialList != nil {
		h.Set(page.HeaderPartial, "true")
	}
}

// Close implements stream.Source.
func (x *Watching) Close() { x.From.Close() }

// Stream implements stream.Source.
func (x *Watching) Stream(ctx context.Context, out *stream.Writer) {
	timed, cancel := context.WithTimeout(ctx, x.options.lifetime)
	defer cancel()
	err := x.run(timed, out)
	switch end := stream.Ended(ctx); {
	case apierrors.IsResourceExpired(end): // the caller's rights have changed
		out.Fail(end)
	case errors.Is(err, store.ErrGone) || errors.Is(err, errClientGone):
	case err != nil:
		out.Fail(err)
	case ctx.Err() == nil:
		x.progress(out) // its time is up: the client goes on from here
	}
	out.Flush() // whether the client is there does not matter any more
}

// errExpired is the error for a client that has to start over.
func errExpired(why string) error {
	return apierrors.NewResourceExpired(why + ": list again")
}

// errForgotten is errExpired for a client that continues from a version that the history does not go back to.
func (x *Watching) errForgotten() error {
	return errExpired(fmt.Sprintf("the changes since resource version %q are not kept any more", x.options.version))
}

// run writes until ctx ends. Its error is for the client, except ErrGone and errClientGone.
func (x *Watching) run(ctx context.Context, out *stream.Writer) error {
	if x.expired {
		return x.errForgotten()
	}
	if x.options.initial {
		if err := x.sendInitial(ctx, out); err != nil {
			return err
		}
	}
	began := time.Now()
	for next := began.Add(x.Beat); ; {
		beat := x.Beat
		if x.ahead || len(x.plan.Depends) > 0 {
			beat = min(beat, x.Check)
		}
		until, cancel := context.WithTimeout(ctx, beat)
		err := x.follow(until, out)
		cancel()
		if err != nil || ctx.Err() != nil {
			return err
		}
		if x.plan.Outdated(ctx) {
			return errExpired("what the filter depends on has changed")
		}
		if x.ahead && time.Since(began) > x.Ahead {
			return errExpired(fmt.Sprintf("this server has not reached resource version %q", x.version))
		}
		if now := time.Now(); !now.Before(next) {
			next = now.Add(x.Beat)
			x.progress(out)
			if !out.Flush() {
				return errClientGone
			}
		}
	}
}

// follow writes changes until ctx ends, and at least one batch.
func (x *Watching) follow(ctx context.Context, out *stream.Writer) error {
	for {
		for more := true; more; {
			var kept bool
			if more, kept = x.Changes(out); x.expired {
				return x.errForgotten()
			} else if !kept {
				return errExpired("the client is too slow: changes that it has not seen are not kept any more")
			}
			if err := x.plan.Failed(); err != nil {
				return err
			}
			if !out.Flush() {
				return errClientGone
			}
			if more && isOver(ctx) { // a client that never catches up is not followed for ever
				return nil
			}
		}
		if !pause(ctx, x.Wake) {
			return nil
		}
		if _, err := x.From.Next(ctx); err != nil {
			return ending(err)
		}
	}
}

// errClientGone ends a stream without a further event: its client is gone, or its time was up before it began.
var errClientGone = errors.New("the stream is over")

// ending returns the error of a wait for a snapshot, nil where only the wait's time was up.
func ending(err error) error {
	if errors.Is(err, store.ErrGone) {
		return err
	}
	return nil
}

// isOver reports whether ctx has ended.
func isOver(ctx context.Context) bool { return ctx.Err() != nil }

// pause waits, and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Changes adds what has changed, until out is full: then there may be more. kept is false where the history no longer has
// all of it. Nothing is held when it returns, since the next call waits for the client.
func (x *Watching) Changes(out *stream.Writer) (more, kept bool) {
	snap := x.From.Snapshot()
	if x.ahead {
		if !snap.Reaches(x.version) {
			return false, true
		}
		// A list that was read meanwhile may not show what came and went before it: only the history knows whether it has all of it.
		at, ok := snap.After(x.version)
		if !ok {
			x.expired = true
			return false, false
		}
		x.At, x.ahead = at, false
	}
	var c index.Change // delayed by one, to see whether another of its version follows
	held := false
	kept = snap.Changes(x.At, func(next *index.Change) bool {
		if held {
			x.change(&c, c.Complete || next.Version != c.Version, out)
			if x.At++; out.Full() {
				more = true
				return false
			}
		}
		c, held = *next, true
		return true
	})
	if !kept || more {
		return more, kept
	}
	if held {
		x.change(&c, true, out)
	}
	x.At, x.version = snap.Position(), snap.ResourceVersion()
	return false, true
}

// change adds the event of one change, if it matches this watch. last says that no change of the same version follows, so
// that a client that has seen this version has seen all of it.
func (x *Watching) change(c *index.Change, last bool, out *stream.Writer) {
	before := c.Old != nil && x.plan.Matches(c.Old)
	after := c.New != nil && x.plan.Matches(c.New)
	switch {
	case after && before:
		x.event(out, modified, x.id(out, c, last), c.New.JSON)
	case after:
		x.event(out, added, x.id(out, c, last), c.New.JSON)
	case before:
		version := seenVersion(c.Version, last)
		x.event(out, deleted, version, atVersion(c.Old.JSON, version))
	}
}

// id returns the id of a change's event, or "".
func (x *Watching) id(out *stream.Writer, c *index.Change, last bool) string {
	if !out.Events() {
		return ""
	}
	return seenVersion(c.Version, last)
}

// seenVersion returns the version up to which a client has seen everything, once it has seen a change of version.
func seenVersion(version string, last bool) string {
	if last {
		return version
	}
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil || n == 0 {
		return version
	}
	return strconv.FormatUint(n-1, 10)
}

// atVersion returns an object with another resource version: that of its deletion, so that a client that continues from the
// last object it has seen does not go back.
func atVersion(object redaction.Shown, version string) redaction.Shown {
	start, end, ok := rawjson.Span(object.String(), "metadata", "resourceVersion")
	if _, err := strconv.ParseUint(version, 10, 64); err != nil || !ok {
		return object
	}
	return object.Replace(start, end, `"`+version+`"`)
}

// event adds an event about an object.
func (x *Watching) event(out *stream.Writer, typ, id string, object redaction.Shown) {
	shown := x.plan.Projected(object)
	if x.printer != nil {
		shown = x.printer.Event(object.String(), shown)
	}
	out.Event(typ, id, `{"type":"`, typ, `","object":`, shown, `}`)
}

// progress sends the client the version up to which it has seen everything.
func (x *Watching) progress(out *stream.Writer) {
	if x.options.bookmarks {
		x.bookmark(out, "")
	}
	out.Beat(x.version)
}

func (x *Watching) bookmark(out *stream.Writer, more string) {
	k := x.plan.Kind
	object := strconv.AppendQuote([]byte(`{"kind":`), k.Kind)
	object = strconv.AppendQuote(append(object, `,"apiVersion":`...), k.GVR.GroupVersion().String())
	object = strconv.AppendQuote(append(object, `,"metadata":{"resourceVersion":`...), x.version)
	if x.printer != nil {
		table := x.printer.Event(string(object)+more+"}}", string(object)+more+"}}")
		out.Event(bookmark, x.version, `{"type":"BOOKMARK","object":`, table, `}`)
		return
	}
	out.Event(bookmark, x.version, `{"type":"BOOKMARK","object":`, string(object), more, `}}}`)
}

// sendInitial sends all matching objects of one snapshot as ADDED.
func (x *Watching) sendInitial(ctx context.Context, out *stream.Writer) error {
	deadline := time.Now().Add(initialTimeout)
	snap := x.From.Snapshot()
	some := x.plan.Candidates(snap)
	for i := 0; i < some.Len(); {
		some.Walk(i, func(ref *index.Ref) bool {
			i++
			if o := snap.Record(ref); x.plan.Matches(o) {
				x.event(out, added, "", o.JSON)
			}
			return !out.Full()
		})
		if err := x.plan.Failed(); err != nil {
			return err
		}
		switch {
		case !out.Flush() || ctx.Err() != nil:
			return errClientGone
		case time.Now().After(deadline):
			return apierrors.NewTimeoutError("the client is too slow: it has not received all objects in "+initialTimeout.String(), 1)
		}
	}
	x.At, x.version = snap.Position(), snap.ResourceVersion()
	if x.options.endMark {
		x.bookmark(out, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
	}
	out.Beat(x.version)
	return nil
}
