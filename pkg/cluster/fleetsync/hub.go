package fleetsync

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/cluster"
	"kapis.dev/ks-apiserver/pkg/cluster/exchange"
)

const (
	// compareEvery is how often everything is compared, debounce how long changes are gathered, and retryEvery when a failure is tried
	// again.
	compareEvery = 5 * time.Minute
	debounce     = 200 * time.Millisecond
	retryEvery   = 5 * time.Second
	// pendingEvery is how long what a member could not take waits: its webhooks may not have been there.
	pendingEvery = 30 * time.Second
	// boundEvery is how often a member is asked whom its own bindings name.
	boundEvery = 10 * time.Second
	// aboutEvery is how long what a member says of itself is not asked again: nodes come and go.
	aboutEvery = 30 * time.Second
	// askTimeout bounds one request to a member, batch the objects in it, and batchBytes their bytes. A longer object is sent alone: none
	// that kube-apiserver stores comes near what a member takes (maxBody).
	askTimeout = 60 * time.Second
	batch      = 200
	batchBytes = 8 << 20
	// maxAnswer bounds an answer of a member, in bytes.
	maxAnswer = 16 << 20
	// maxAbout bounds what a member says of itself, in bytes: it is kept.
	maxAbout = 64 << 10
	// mostBound bounds the users whom a member names, and mostBoundBytes their names together: other replicas are told them.
	mostBound, mostBoundBytes = 100_000, 4 << 20
)

// Syncer tells members what is to be there.
type Syncer struct {
	Source *Source
	// Known returns nil while Source has all that there is, as it is now: what it has not seen yet would be deleted in members.
	Known func() error
	// Hub is the UID of this cluster's kube-system.
	Hub string
	// Current returns the member of a UID as it is now, nil for none.
	Current func(uid string) *cluster.Member
}

// round is what is known of one member while it is linked.
type round struct {
	*Syncer
	uid     string
	bound   Bound
	version uint64
	// compared says that everything was compared since the link was opened, for a member with labels.
	compared bool
	labels   map[string]string
	// at is when that was.
	at time.Time
	// introduced is when the member was asked what it is.
	introduced time.Time
	// creator is who the member was told made its Cluster, nil for nothing yet, and ungiven why they have no role there for it.
	creator *string
	ungiven []cluster.Pending
}

// Follow keeps a member as it is to be, until ctx ends. It is called when the first link of a member is open.
func (s *Syncer) Follow(ctx context.Context, m *cluster.Member) {
	r := &round{Syncer: s, uid: m.UID}
	m.SetSyncedWhile(ctx, false, nil)
	compare := time.NewTicker(compareEvery)
	defer compare.Stop()
	bound := time.NewTicker(boundEvery)
	defer bound.Stop()
	for told := ""; ; {
		changed := s.Source.wait()
		err := r.run(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case err == nil:
			m.SetUntold("")
		case !errors.Is(err, errUnknown): // what this server lacks itself is not the member's trouble
			m.SetUntold(err.Error())
		}
		if err != nil && err.Error() != told {
			klog.ErrorS(err, "A member cluster is not told what has changed; it is tried again", "cluster", m.Name)
		}
		told = ""
		var retry <-chan time.Time
		if err != nil {
			told, retry, changed = err.Error(), time.After(retryEvery), nil
		}
		select {
		case <-ctx.Done():
			return
		case <-retry:
		case <-compare.C:
			r.compared = false
		case <-bound.C:
		case <-changed:
			select {
			case <-ctx.Done():
				return
			case <-time.After(debounce):
			}
		}
	}
}

// errUnknown says that this server does not know all that is to be in members, as it is now.
var errUnknown = errors.New("know what is to be in member clusters")

func (r *round) know() error {
	if err := r.Known(); err != nil {
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	return nil
}

// run brings a member up to date.
func (r *round) run(ctx context.Context) error {
	m := r.Current(r.uid)
	if m == nil || m.Leaving {
		return nil
	}
	if err := r.know(); err != nil {
		return err
	}
	bound := Bound{}
	if err := r.ask(ctx, m, http.MethodGet, PathBound, nil, &bound); err != nil {
		return err
	}
	if bound.Version != r.bound.Version { // until it was compared, whatever fails before that
		r.compared = false
	}
	r.bound = bound
	bytes := 0
	for _, name := range r.bound.Users {
		bytes += len(name)
	}
	if len(r.bound.Users) > mostBound || bytes > mostBoundBytes {
		return fmt.Errorf("the cluster's bindings name %d users, in %d bytes: %d, in %d bytes, are the most that this server keeps; remove"+
			" bindings of users who are gone there", len(r.bound.Users), bytes, mostBound, mostBoundBytes)
	}
	m.SetBound(r.bound.Users)
	if time.Since(r.introduced) > aboutEvery { // one of an older release does not say
		about := cluster.About{}
		if err := r.ask(ctx, m, http.MethodGet, PathAbout, nil, &about); err == nil {
			m.SetAbout(about)
		}
		r.introduced = time.Now()
	}
	if _, pending := m.SyncedHere(); slices.ContainsFunc(pending, mayPass) && time.Since(r.at) > pendingEvery {
		r.compared = false
	}
	if err := r.know(); err != nil { // the member may have taken its time
		return err
	}
	if err := r.tellCreator(ctx, m); err != nil {
		return err
	}
	t := &Target{Name: m.Name, Labels: m.Labels, Bound: r.bound.Users}
	if !r.compared || !maps.Equal(r.labels, m.Labels) {
		return r.compare(ctx, m, t)
	}
	refs, there, version, known := r.Source.since(r.version, t)
	if !known {
		return r.compare(ctx, m, t)
	}
	pending, err := r.send(ctx, m, refs, there)
	if err != nil {
		r.compared = false
		return err
	}
	r.version = version
	m.Settle(func(p cluster.Pending) bool { return isCreators(p) || slices.Contains(refs, Ref{p.Kind, p.Name}) },
		append(pending, r.ungiven...))
	return nil
}

// compare compares everything.
func (r *round) compare(ctx context.Context, m *cluster.Member, t *Target) error {
	all, held, version := r.Source.all(t)
	all.Hub = r.Hub
	missing := &Difference{}
	if err := r.ask(ctx, m, http.MethodPost, PathDigest, all, missing); err != nil {
		return err
	}
	refs, there := lacked(missing.Want, all.Objects)
	refs, unread := sendable(refs, held)
	pending, err := r.send(ctx, m, refs, there)
	if err != nil {
		return err
	}
	pending = slices.Concat(missing.Pending, pending, unread, r.ungiven)
	if synced, _ := m.SyncedHere(); !synced { // F25: what was taken away may still be there
		if err := cmp.Or(passing(pending), r.Source.confirmed()); err != nil {
			m.SetSyncedWhile(ctx, false, pending)
			return err
		}
	}
	m.SetSyncedWhile(ctx, true, pending)
	r.version, r.compared, r.labels, r.at = version, true, m.Labels, time.Now()
	return nil
}

// passing returns an error for what a member may take when it is told again; nil where it refuses, for good, all that is pending.
func passing(pending []cluster.Pending) error {
	all := slices.DeleteFunc(slices.Clone(pending), func(p cluster.Pending) bool { return !p.Passing })
	if len(all) == 0 {
		return nil
	}
	first := slices.MinFunc(all, func(a, b cluster.Pending) int { // the same one each time
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return fmt.Errorf("%s/%s: %s", first.Kind, first.Name, first.Reason)
}

// lacked returns what a member says that it lacks of all that is to be there, each once: it gets nothing else.
func lacked(want []Ref, all map[string]map[string]string) (refs []Ref, there map[Ref]bool) {
	there = map[Ref]bool{}
	for _, ref := range want {
		if _, wanted := all[ref.Kind][ref.Name]; wanted && !there[ref] {
			refs = append(refs, ref)
			there[ref] = true
		}
	}
	return refs, there
}

// unreadable is why a member keeps what it has.
const unreadable = "Unreadable: the hub can't read it, so what this cluster has of it stays as it is"

// mayPass reports whether what waits may have been taken meanwhile: what can't be read here is noted when it changes.
func mayPass(p cluster.Pending) bool { return p.Reason != unreadable }

// sendable returns what of what a member lacks it is sent, and what of the rest can't be read: see Source.all.
func sendable(refs []Ref, held map[Ref]bool) (sent []Ref, unread []cluster.Pending) {
	for _, ref := range refs {
		switch itself, isHeld := held[ref]; {
		case !isHeld:
			sent = append(sent, ref)
		case itself:
			unread = append(unread, cluster.Pending{Kind: ref.Kind, Name: ref.Name, Reason: unreadable})
		}
	}
	return sent, unread
}

// send sends objects, and what is to be deleted.
func (r *round) send(ctx context.Context, m *cluster.Member, refs []Ref, there map[Ref]bool) (pending []cluster.Pending, err error) {
	changes, err := r.Source.changes(ctx, refs, there)
	if err != nil {
		return nil, err
	}
	for some := range batches(changes) {
		out := &Outcome{}
		if err := r.ask(ctx, m, http.MethodPost, PathObjects, &Changes{Hub: r.Hub, Changes: some, Roles: rolesIn(some)}, out); err != nil {
			return nil, err
		}
		pending = cluster.AtMost(append(pending, out.Pending...)) // a member may say much for each batch
	}
	return pending, nil
}

// batches cuts changes into what is sent at once: as many as fit, and one at least. A role counts with each binding that gives it, which
// bounds what a member compares, too.
func batches(changes []Change) iter.Seq[[]Change] {
	return func(yield func([]Change) bool) {
		for len(changes) > 0 {
			n, size := 1, changes[0].size()
			for n < min(len(changes), batch) && size+changes[n].size() <= batchBytes {
				size += changes[n].size()
				n++
			}
			if !yield(changes[:n]) {
				return
			}
			changes = changes[n:]
		}
	}
}

// ask sends a request to a member, and reads its answer.
func (r *round) ask(ctx context.Context, m *cluster.Member, method, path string, body, into any) error {
	q := exchange.Request{Method: method, Path: path, Timeout: askTimeout, MaxAnswer: maxAnswer}
	if path == PathAbout {
		q.MaxAnswer = maxAbout
	}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode what a member cluster is asked: %w", err)
		}
		q.Body = raw
	}
	return q.Send(ctx, m, into)
}
