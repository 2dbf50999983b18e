package fleetsync

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// remembered bounds the changes that can be told one by one: a member that has missed more compares everything. As many of what ended are
// known at least, and twice as many at most.
const remembered = 4096

// Snapshots returns the objects of a kind. store.Store is one.
type Snapshots interface {
	Snapshot(ctx context.Context, gvr schema.GroupVersionResource) (*index.Snapshot, error)
}

// Source knows what is to be in which member. Of each object it has a hash in memory; the objects themselves are those of the caches.
type Source struct {
	Caches Snapshots
	// Going tells deletions from the loss of a kind's definition; nil where every end is a deletion.
	Going Going

	mu      sync.Mutex
	objects map[string]map[string]*entry // kind, name
	// ends are not confirmed; unconfirmed is signalled with each.
	ends        map[Ref]*end
	unconfirmed chan struct{}
	// log are the last changes; the newest has the number version.
	log     []Ref
	version uint64
	changed chan struct{}
	// withdrawn is what is to go in members, however much it is.
	withdrawn withdrawals
}

// entry is what is known of an object.
type entry struct {
	hash string
	// workspace is that of a role or a binding of one.
	workspace string
	// subjects are the users whom a binding names, or the manager of a workspace.
	subjects []string
	// created is when a user was made.
	created time.Time
	// unread says that the object can't be read as it is now, or is gone, and was not deleted as far as is known. The rest is as it was
	// before; without a hash it never was anything.
	unread bool
	// placed are where a workspace is to be, ending says that it is being deleted, and propagation what then becomes of its namespaces.
	placed      *placement
	ending      bool
	propagation string
}

// placement is that of a WorkspaceTemplate.
type placement struct {
	clusters []string
	selector labels.Selector // nil for none
}

func (p *placement) has(cluster string, l labels.Set) bool {
	if len(p.clusters) > 0 || p.selector == nil {
		return slices.Contains(p.clusters, cluster)
	}
	return p.selector.Matches(l)
}

// NewSource returns a Source, which has to be fed by its Sinks.
func NewSource(caches Snapshots) *Source {
	s := &Source{Caches: caches, objects: map[string]map[string]*entry{}, changed: make(chan struct{}), withdrawn: newWithdrawals(),
		ends: map[Ref]*end{}, unconfirmed: make(chan struct{}, 1)}
	for _, k := range kinds {
		s.objects[k.Resource] = map[string]*entry{}
	}
	return s
}

// origin returns the kind that the objects of a kind are made of.
func origin(k schema.GroupVersionResource) schema.GroupVersionResource {
	if k.Resource == "workspaces" {
		return tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates")
	}
	return k
}

// Sinks returns the sinks that the store has to feed.
func (s *Source) Sinks() map[schema.GroupVersionResource]store.Sink {
	out := map[schema.GroupVersionResource]store.Sink{}
	for _, k := range kinds {
		out[origin(k)] = &sink{s, k}
	}
	return out
}

// sink takes the objects of one kind.
type sink struct {
	source *Source
	kind   schema.GroupVersionResource
}

// Set implements store.Sink.
func (s *sink) Set(o *store.Object) {
	c, err := contentOf(s.kind, o.Raw)
	switch r := (Ref{s.kind.Resource, o.Name}); {
	case err != nil:
		klog.ErrorS(err, "An object can't be read: what member clusters have of it stays as it is", "kind", s.kind.Resource, "name", o.Name)
		s.source.keep(r, c)
	case c == nil:
		s.source.ended(r, "")
	case c.ending:
		s.source.ended(r, c.propagation)
	default:
		s.source.set(r, &c.entry)
	}
}

// Delete implements store.Sink.
func (s *sink) Delete(_, name string) { s.source.ended(Ref{s.kind.Resource, name}, "") }

// keep records that an object can't be read as it is now, of which c is what could be, nil for nothing.
func (s *Source) keep(r Ref, c *content) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := entry{}
	if old := s.objects[r.Kind][r.Name]; old != nil {
		next = *old
	} else if s.withdrawn.gone.Has(r) { // the former one goes, whatever this is
		return
	} else if c != nil {
		next.subjects = c.subjects
	}
	next.unread = true
	s.objects[r.Kind][r.Name] = &next
}

// set records an object as it is now. If it was made again, the former one has ended.
func (s *Source) set(r Ref, next *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.ends[r]; e != nil {
		delete(s.ends, r)
		s.change(r, nil, e.propagation)
	}
	s.change(r, next, "")
}

// change records an object as it is now, nil for one that was deleted. It is called with the lock held.
func (s *Source) change(r Ref, next *entry, propagation string) {
	of := s.objects[r.Kind]
	old := of[r.Name]
	switch {
	case old == nil && next == nil, old != nil && next != nil && old.hash == next.hash && !old.unread:
		return
	case next == nil:
		delete(of, r.Name)
		s.withdrawn.gone.Set(r, propagation)
	default:
		s.leaves(r, old, next)
		of[r.Name] = next
		s.withdrawn.gone.Delete(r)
	}
	s.unname(old, next)
	s.note(r)
	// Users are where they are named.
	for _, e := range []*entry{old, next} {
		if e != nil {
			for _, name := range e.subjects {
				s.note(Ref{"users", name})
			}
		}
	}
	if r.Kind == "workspaces" { // what is of it comes and goes with it
		for _, kind := range []string{"workspaceroles", "workspacerolebindings"} {
			for name, e := range s.objects[kind] {
				if e.workspace == r.Name {
					s.note(Ref{kind, name})
					for _, subject := range e.subjects {
						s.note(Ref{"users", subject})
					}
				}
			}
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Source) note(r Ref) {
	s.version++
	if len(s.log) == remembered {
		s.log = append(s.log[:0], s.log[remembered/2:]...)
	}
	s.log = append(s.log, r)
}

// Target is a member, as far as what is to be there depends on it.
type Target struct {
	Name   string
	Labels map[string]string
	// Bound are the users whom bindings of its own name.
	Bound []string
}

// all returns a digest of everything that is to be in a member, but for the hub, and the version that this is of. Held is what of it is
// not sent, so that the member keeps what it has: true for what can't be read, and false for what is of that, which may not be to be there.
func (s *Source) all(t *Target) (d *Digest, held map[Ref]bool, version uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.relabel(t.Name, t.Labels) // the Cluster may have been read before its sink was told
	d, held = &Digest{Objects: map[string]map[string]string{}}, map[Ref]bool{}
	named := map[string]bool{} // users, and whether it is known that they are to be there
	for _, name := range t.Bound {
		named[name] = true
	}
	for _, k := range kinds {
		if k.Resource == "users" {
			continue
		}
		of := map[string]string{}
		for name, e := range s.objects[k.Resource] {
			is, known := s.in(t, e)
			if !is {
				continue
			}
			of[name] = e.hash
			if !known || e.unread {
				held[Ref{k.Resource, name}] = e.unread
			}
			for _, subject := range e.subjects {
				named[subject] = named[subject] || known
			}
		}
		d.Objects[k.Resource] = of
	}
	of := map[string]string{}
	for name, known := range named {
		if e := s.objects["users"][name]; e != nil {
			of[name] = e.hash
			if !known || e.unread {
				held[Ref{"users", name}] = e.unread
			}
		}
	}
	d.Objects["users"] = of
	d.Gone = s.goneIn(t, named)
	return d, held, s.version
}

// in reports whether an object other than a user is to be in a member, and whether that is known: what can't be read, and never could be,
// stays where it is.
func (s *Source) in(t *Target, e *entry) (is, known bool) {
	if e.workspace != "" {
		w := s.objects["workspaces"][e.workspace]
		if w == nil {
			return false, true
		}
		e = w
	}
	if e.placed == nil {
		return true, e.hash != ""
	}
	return e.placed.has(t.Name, t.Labels), true
}

// since returns what has changed after a version, each once, and the version then; false if that is not known any more. Of users it
// returns those who are to be in the member only: those whom nothing names any more are found by comparing everything.
func (s *Source) since(version uint64, t *Target) (refs []Ref, there map[Ref]bool, now uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.version - version
	if n > uint64(len(s.log)) {
		return nil, nil, s.version, false
	}
	there = map[Ref]bool{}
	for _, r := range s.log[len(s.log)-int(n):] { //nolint:gosec // it is at most the length of the log
		if _, seen := there[r]; seen {
			continue
		}
		e := s.objects[r.Kind][r.Name]
		switch {
		case e == nil:
			there[r] = false
		case e.unread:
			continue
		case r.Kind != "users":
			is, known := s.in(t, e)
			if !known {
				continue
			}
			there[r] = is
		case s.names(t, r.Name):
			there[r] = true
		default:
			continue
		}
		refs = append(refs, r)
	}
	return refs, there, s.version, true
}

// names reports whether anything that is to be in a member names a user. It takes time linear in the number of bindings.
func (s *Source) names(t *Target, user string) bool {
	if slices.Contains(t.Bound, user) {
		return true
	}
	for _, kind := range []string{"globalrolebindings", "workspacerolebindings", "workspaces"} {
		for _, e := range s.objects[kind] {
			if slices.Contains(e.subjects, user) {
				if is, known := s.in(t, e); is && known {
					return true
				}
			}
		}
	}
	return false
}

// wait returns a channel that is closed with the next change.
func (s *Source) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// changes returns objects as they are to be, in the order of the kinds, after what is to be deleted.
func (s *Source) changes(ctx context.Context, refs []Ref, there map[Ref]bool) ([]Change, error) {
	var out []Change
	s.mu.Lock()
	gone := maps.Collect(s.withdrawn.gone.All())
	s.mu.Unlock()
	for _, k := range slices.Backward(kinds) {
		for _, r := range refs {
			if r.Kind == k.Resource && !there[r] {
				out = append(out, Change{Ref: r, Propagation: gone[r]})
			}
		}
	}
	read := &reading{Source: s, deadline: time.Now().Add(behindAtMost)}
	given := &givenRoles{read: reading{Source: s, deadline: read.deadline}, known: map[Ref]*content{}}
	for _, k := range kinds {
		read.snap, given.read.snap = nil, nil
		for _, r := range refs {
			if r.Kind != k.Resource || !there[r] {
				continue
			}
			c, err := read.content(ctx, k, r)
			if err != nil {
				return nil, err
			}
			if c == nil {
				continue
			}
			gives, err := given.of(ctx, k, c)
			if err != nil {
				return nil, err
			}
			out = append(out, Change{Ref: r, Hash: c.hash, Object: c.object, gives: gives})
		}
	}
	return out, nil
}

const (
	// behindAtMost is how long caches may be behind what this Source was told of them, or before it: they publish a few milliseconds later.
	// What is sent as it was before a change is not sent again before everything is compared. behindPause is when they are read again.
	behindAtMost = time.Second
	behindPause  = 5 * time.Millisecond
)

// reading reads objects of one kind.
type reading struct {
	*Source
	snap     *index.Snapshot
	deadline time.Time
}

// content returns an object as this Source was told of it; nil for one that is gone, of which it was told, too.
func (r *reading) content(ctx context.Context, k schema.GroupVersionResource, ref Ref) (*content, error) {
	for {
		if r.snap == nil {
			var err error
			if r.snap, err = r.Caches.Snapshot(ctx, origin(k)); err != nil {
				return nil, err
			}
		}
		var c *content
		if record, found := r.snap.Get("", ref.Name); found {
			c, _ = contentOf(k, []byte(record.JSON.String())) //nolint:errcheck // the sink has said so
		}
		r.mu.Lock()
		told := r.objects[ref.Kind][ref.Name]
		r.mu.Unlock()
		switch {
		case told == nil, told.unread: // its end, or its next version, is the next change
			return nil, nil
		case c != nil && c.hash == told.hash, !time.Now().Before(r.deadline):
			return c, nil
		}
		r.snap = nil
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(behindPause):
		}
	}
}

// refsOf returns what a digest is of.
func refsOf(of map[string]map[string]string) (out []Ref) {
	for _, k := range kinds {
		for _, name := range slices.Sorted(maps.Keys(of[k.Resource])) {
			out = append(out, Ref{k.Resource, name})
		}
	}
	return out
}
