package index

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"k8s.io/utils/clock"
)

// podAt is an object at a version. Its UID distinguishes objects of one name.
func podAt(t testing.TB, ns, name, uid string, version int, more string) *Incoming {
	text := storetest.Pod(ns, name, fmt.Sprintf(`"more":%q`, more), `"phase":"Running","startTime":"2026-01-01T00:00:00Z"`)
	text = strings.Replace(text, `"uid":"u-`+ns+`-`+name+`"`, `"uid":"`+uid+`"`, 1)
	return decodeText(t, phase, strings.ReplaceAll(text, "%RV%", fmt.Sprint(version)))
}

// kept is a copy of the objects of a snapshot, as a client has it that applies the changes.
type kept struct {
	position uint64
	version  int
	objects  map[string]string // key -> JSON
}

func keep(s *Snapshot) kept {
	k := kept{position: s.Position(), objects: map[string]string{}}
	s.ByName(All()).Walk(0, false, func(ref *Ref) bool {
		k.objects[ref.Namespace+"/"+ref.Name] = s.Record(ref).JSON.String()
		return true
	})
	return k
}

// follow applies the changes after k's position. Each must fit the objects that it changes.
func (k *kept) follow(t *testing.T, s *Snapshot) bool {
	t.Helper()
	ok := s.Changes(k.position, func(c *Change) bool {
		k.apply(t, c)
		return true
	})
	k.position = s.Position()
	return ok
}

func (k *kept) apply(t *testing.T, c *Change) {
	t.Helper()
	r := c.New
	if r == nil {
		r = c.Old
	}
	key := r.Namespace + "/" + r.Name
	switch have, ok := k.objects[key]; {
	case (c.Old != nil) != ok, ok && have != c.Old.JSON.String():
		t.Fatalf("a change of %s begins with what is not there", key)
	case c.Old != nil && c.New != nil && c.Old.Ref != c.New.Ref:
		t.Fatalf("%s was made anew in one change", key)
	case c.New == nil:
		delete(k.objects, key)
	default:
		k.objects[key] = c.New.JSON.String()
	}
}

// churn changes a collection as a reflector does, with versions that grow.
type churn struct {
	*rand.Rand

	t       testing.TB
	c       *Collection
	version int
	live    map[string]*Incoming
	uids    int
}

func newChurn(t testing.TB, seed uint64) *churn {
	h := &churn{Rand: rand.New(rand.NewPCG(seed, 7)), t: t, c: NewCollection(phase, clock.RealClock{}), version: 1000, live: map[string]*Incoming{}}
	h.c.Replace(nil, "1000")
	return h
}

func (h *churn) step() {
	h.version += 1 + h.IntN(3)
	ns, name := fmt.Sprintf("ns%d", h.IntN(3)), fmt.Sprintf("p%d", h.IntN(25))
	key := ns + "/" + name
	switch old, n := h.live[key], h.IntN(100); {
	case n < 20:
		h.c.Delete(ns, name, fmt.Sprint(h.version))
		delete(h.live, key)
	case n < 22:
		h.relist()
	case n < 27:
		h.c.Bookmark(fmt.Sprint(h.version))
	case old == nil || n < 32: // new, or created again without a deletion that was seen
		h.uids++
		h.set(key, podAt(h.t, ns, name, fmt.Sprint("uid", h.uids), h.version, ""))
	default:
		h.set(key, podAt(h.t, ns, name, old.Record.UID, h.version, fmt.Sprint(h.IntN(3))))
	}
}

func (h *churn) set(key string, o *Incoming) {
	h.c.Set(o)
	h.live[key] = o
}

// relist applies what was missed: some objects gone, some changed, some new.
func (h *churn) relist() {
	var all []*Incoming
	for key, o := range h.live {
		switch h.IntN(6) {
		case 0:
			delete(h.live, key)
			continue
		case 1:
			o = podAt(h.t, o.Ref.Namespace, o.Ref.Name, o.Record.UID, h.version, "relist")
		}
		again := *o // a list makes new records of everything
		rec := *o.Record
		again.Record, again.Ref = &rec, Ref{Created: o.Ref.Created, Namespace: o.Ref.Namespace, Name: o.Ref.Name}
		h.live[key] = &again
		all = append(all, &again)
	}
	h.c.Replace(all, fmt.Sprint(h.version))
}

func (h *churn) publish() *Snapshot {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.c.publish()
	return h.c.current.Load()
}

// unseen reports whether changes after a version are not known: it is of a gap, or before the history.
func (h *history) unseen(version int) bool {
	v := uint64(version) //nolint:gosec // small
	return v < h.since || slices.ContainsFunc(h.gaps, func(g gap) bool { return g.from < v && v < g.to })
}

// The objects of any position with the changes since applied are those of the newest snapshot.
func TestChangesLeadFromAnyPositionToTheSnapshot(t *testing.T) {
	for seed := range uint64(4) {
		h := newChurn(t, seed)
		copies := []kept{keep(h.publish())}
		for step := range 1200 {
			h.step()
			if step%9 != 0 {
				continue
			}
			s := h.publish()
			now := keep(s)
			for i := range copies {
				if i%5 != step%5 {
					continue // the others fall behind further
				}
				if !copies[i].follow(t, s) {
					t.Fatal("the history is not kept")
				}
				if !maps.Equal(copies[i].objects, now.objects) {
					t.Fatalf("at step %d, a copy has %d objects of %d", step, len(copies[i].objects), len(now.objects))
				}
			}
			if step%90 == 0 {
				copies = append(copies, now)
			}
		}
	}
}

// After finds the position after a version: a client that has the objects of that version and applies what follows misses no
// change, and gets none twice.
func TestAfterSkipsNoChange(t *testing.T) {
	for seed := range uint64(4) {
		h := newChurn(t, seed)
		var copies []kept
		for range 800 {
			h.step()
			k := keep(h.publish())
			k.version = h.version
			copies = append(copies, k)
		}
		s := h.publish()
		now := keep(s)
		for _, k := range copies {
			for _, version := range []int{k.version, k.version + 1} { // one that no change has, but others of the cluster
				at, ok := s.After(fmt.Sprint(version))
				if !ok && h.c.history.unseen(version) {
					continue // between two versions of which the later one is that of a list
				}
				if !ok {
					t.Fatalf("version %d is refused", version)
				}
				again := kept{position: at, objects: maps.Clone(k.objects)}
				if version > k.version {
					if want, _ := s.After(fmt.Sprint(k.version)); want != at {
						continue // there is a change of that very version
					}
				}
				if !again.follow(t, s) || !maps.Equal(again.objects, now.objects) {
					t.Fatalf("from version %d on, %d objects of %d are seen", version, len(again.objects), len(now.objects))
				}
			}
		}
		if at, ok := s.After(fmt.Sprint(h.version + 10)); !ok || at != s.Position() {
			t.Error("a version that is still to come has a past")
		}
		for _, v := range []string{"999", "", "x", "0", "-1"} {
			if _, ok := s.After(v); ok {
				t.Errorf("After(%q) is known", v)
			}
		}
	}
}

func TestHistoryKeepsItsBounds(t *testing.T) {
	h := newChurn(t, 1)
	for h.c.history.next-h.c.history.base < 3*maxChanges {
		h.step()
	}
	s := h.publish()
	if n := h.c.history.next - h.c.history.first; n != maxChanges || len(h.c.history.ring) != maxChanges {
		t.Errorf("%d changes in a ring of %d", n, len(h.c.history.ring))
	}
	for _, at := range []uint64{0, h.c.history.base, h.c.history.first - 1, s.Position() + 1} {
		if s.Changes(at, func(*Change) bool { t.Error("a change of a lost position"); return false }) {
			t.Errorf("position %d of %d to %d is accepted", at, h.c.history.first, s.Position())
		}
	}
	if _, ok := s.After(fmt.Sprint(h.c.history.since - 1)); ok {
		t.Error("a version before the oldest change is accepted")
	}
	if _, ok := s.After(fmt.Sprint(h.c.history.since)); !ok {
		t.Error("the version of the oldest change that is lost is refused: all that came later are kept")
	}
	n := 0
	if !s.Changes(h.c.history.first, func(*Change) bool { n++; return true }) || n != maxChanges {
		t.Errorf("%d changes from the oldest position on", n)
	}
	if n = 0; !s.Changes(h.c.history.first, func(*Change) bool { n++; return n < 100 }) || n != 100 {
		t.Errorf("%d changes where 100 were wanted", n)
	}
}

func TestHistoryKeepsItsBytes(t *testing.T) {
	h := newChurn(t, 1)
	h.c.history.spare = 20_000
	for range 2000 {
		h.step()
		var bytes int64
		for at := h.c.history.first; at < h.c.history.next; at++ {
			bytes += h.c.history.ring[h.c.history.at(at)].kept()
		}
		if bytes != h.c.history.bytes || bytes > 20_000 {
			t.Fatalf("%d bytes are kept, %d are counted", bytes, h.c.history.bytes)
		}
	}
	big := podAt(t, "a", "big", "u", h.version+1, strings.Repeat("x", 30_000))
	h.c.Set(big)
	at := h.publish().Position()
	h.c.Delete("a", "big", fmt.Sprint(h.version+2))
	if h.c.history.first != h.c.history.next || h.c.history.bytes != 0 {
		t.Error("a change that is larger than the history is kept")
	}
	if s := h.publish(); s.Changes(at, func(*Change) bool { return true }) {
		t.Error("a change that was not kept is not missed")
	}
}

// A cluster that was restored from a backup goes on with lower versions.
func TestVersionsThatGoBackAreNotMistaken(t *testing.T) {
	h := newChurn(t, 1)
	h.c.Set(podAt(t, "a", "x", "u1", 2000, ""))
	h.c.Set(podAt(t, "a", "y", "u2", 2010, ""))
	before := keep(h.publish())
	h.c.Replace([]*Incoming{podAt(t, "a", "x", "u1", 1500, "restored")}, "1500")
	h.c.Set(podAt(t, "a", "z", "u3", 1510, ""))
	s := h.publish()
	if !before.follow(t, s) || len(before.objects) != 2 {
		t.Error("positions don't lead over the restoration")
	}
	if _, ok := s.After("1400"); ok {
		t.Error("a version from before the restoration is accepted")
	}
	if at, ok := s.After("1500"); !ok || at != s.Position()-1 {
		t.Errorf("After: %d of %d, %v", at, s.Position(), ok)
	}
}

// A client continues at a replica that has read a list anew, or has seen every change, after what the other kind of replica told it, and
// misses nothing, or is told to list again.
func TestAClientChangesBetweenReplicasThatListedAndThatDidNot(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		listed, watched := NewCollection(phase, clock.RealClock{}), NewCollection(phase, clock.RealClock{})
		objects, uids := map[string]*Incoming{}, 0
		version := 100
		pod := func(name string) *Incoming {
			if old := objects[name]; old != nil && r.IntN(5) > 0 {
				return podAt(t, "a", name, old.Record.UID, version, fmt.Sprint(version))
			}
			uids++
			return podAt(t, "a", name, fmt.Sprint("u", uids), version, "")
		}
		list := func() (all []*Incoming) {
			for _, o := range objects { // in any order
				again, record := *o, *o.Record
				again.Record, again.Ref = &record, Ref{Created: o.Ref.Created, Namespace: "a", Name: o.Ref.Name}
				all = append(all, &again)
			}
			return all
		}
		for i := range 6 {
			version++
			objects[fmt.Sprint(i)] = pod(fmt.Sprint(i))
		}
		version += r.IntN(2)
		for _, c := range []*Collection{listed, watched} {
			c.Replace(list(), fmt.Sprint(version))
		}
		start, from := keep(listed.Snapshot()), version
		states := map[int]kept{version: start}
		for range 1 + r.IntN(8) {
			version += 1 + r.IntN(2)
			name := fmt.Sprint(r.IntN(8))
			if objects[name] != nil && r.IntN(3) == 0 {
				delete(objects, name)
				watched.Delete("a", name, fmt.Sprint(version))
			} else {
				objects[name] = pod(name)
				watched.Set(objects[name])
			}
			watched.Flush()
			states[version] = keep(watched.Snapshot())
		}
		listed.Replace(list(), fmt.Sprint(version))
		want := keep(watched.Snapshot())
		goOn := func(what string, at *Collection, after string, state map[string]string) {
			t.Helper()
			s := at.Snapshot()
			position, ok := s.After(after)
			n, _ := strconv.Atoi(after)
			if ok && at == listed && n > from && n < version {
				t.Fatalf("seed %d, %s, after %s: it may have objects that came and went meanwhile", seed, what, after)
			}
			if !ok && at.history.unseen(n) {
				return
			}
			s.Changes(position, func(c *Change) bool {
				if c.New == nil {
					delete(state, "a/"+c.Old.Name)
				} else {
					state["a/"+c.New.Name] = c.New.JSON.String()
				}
				return true
			})
			if !ok || !maps.Equal(state, want.objects) {
				t.Fatalf("seed %d, %s, after %s: %v, %d objects of %d", seed, what, after, ok, len(state), len(want.objects))
			}
		}
		for at := from; at <= version; at++ {
			if k, ok := states[at]; ok {
				goOn("from a replica that watched to one that listed", listed, fmt.Sprint(at), maps.Clone(k.objects))
			}
		}
		var told []Change
		listed.Snapshot().Changes(start.position, func(c *Change) bool { told = append(told, *c); return true })
		state := maps.Clone(start.objects)
		for i, c := range told {
			seen := c.Version
			if i+1 < len(told) && told[i+1].Version == seen && !c.Complete { // as watches say it
				seen = fmt.Sprint(number(seen) - 1)
			}
			if c.New == nil {
				delete(state, "a/"+c.Old.Name)
			} else {
				state["a/"+c.New.Name] = c.New.JSON.String()
				goOn("after the object's own version", watched, c.New.ResourceVersion, maps.Clone(state))
			}
			goOn("from a replica that listed to one that watched", watched, seen, maps.Clone(state))
			goOn("at the same replica", listed, seen, maps.Clone(state))
		}
	}
}

func TestOldGapsAreForgottenWithWhatIsBeforeThem(t *testing.T) {
	h := newChurn(t, 1)
	for i := range 3 * maxGaps {
		h.c.Replace([]*Incoming{podAt(t, "a", "x", "u", 2000+100*i, fmt.Sprint(i))}, fmt.Sprint(2050+100*i))
	}
	s := h.publish()
	if n := len(h.c.history.gaps); n != maxGaps {
		t.Errorf("%d gaps", n)
	}
	for i := range 3 * maxGaps {
		in, at := 2020+100*i, 2050+100*i
		if _, ok := s.After(fmt.Sprint(in)); ok {
			t.Errorf("version %d, in the gap before %d, is accepted", in, at)
		}
		if position, ok := s.After(fmt.Sprint(at)); ok != (i >= 2*maxGaps-1) || ok && s.Position()-position != uint64(3*maxGaps-1-i) { //nolint:gosec // small
			t.Errorf("version %d: %v, %d changes since", at, ok, s.Position()-position)
		}
	}
	h.c.Replace([]*Incoming{podAt(t, "a", "x", "u", 1100, "restored")}, "1100")
	h.c.Set(podAt(t, "a", "x", "u", 6000, "later"))
	if h.publish(); len(h.c.history.gaps) != 0 {
		t.Error("there are gaps between versions that never were")
	}
}

func TestVersionsThatAreNoNumbersTellNothing(t *testing.T) {
	c := NewCollection(phase, clock.RealClock{})
	c.Replace(nil, "b7")
	for i, v := range []string{"x1", "x2", "12", "x3"} {
		c.Set(decodeText(t, phase, strings.ReplaceAll(storetest.Pod("a", fmt.Sprint(i)), "%RV%", v)))
	}
	c.Flush()
	s := c.current.Load()
	for _, v := range []string{"x1", "x2", "11", "12", "13"} {
		if _, ok := s.After(v); ok {
			t.Errorf("After(%q) is known", v)
		}
	}
	if at, ok := s.After("x3"); !ok || at != s.Position() {
		t.Error("the version of the snapshot itself is refused")
	}
	if !s.Reaches("x3") || s.Reaches("x2") || s.Reaches("5") || !s.Reaches("") || !s.Reaches("0") {
		t.Error("Reaches")
	}
}

func TestChangesAreReadWhileOthersAreWritten(t *testing.T) {
	h := newChurn(t, 3)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			k := keep(h.c.current.Load())
			for running := true; running; {
				select {
				case <-stop:
					running = false
				default:
				}
				s := h.c.current.Load()
				if s.Position() == k.position && running {
					continue
				}
				if !k.follow(t, s) {
					k = keep(s) // it was too slow
				}
				if now := keep(s); !maps.Equal(now.objects, k.objects) {
					t.Errorf("a reader has %d objects of %d", len(k.objects), len(now.objects))
					return
				}
			}
		})
	}
	for range 3000 {
		h.step()
	}
	h.c.Flush()
	close(stop)
	readers.Wait()
}
