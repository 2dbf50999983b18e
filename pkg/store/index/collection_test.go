package index

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func decodeText(t testing.TB, s *Schema, text string) *Incoming {
	d, err := NewDecoder(noKind, s, func() bool { return false }).Decode(text, "")
	if err != nil {
		t.Fatal(err)
	}
	return d.Incoming
}

var phase = &Schema{Fields: 2, Indexed: []int{0}, Ordered: []int{1}, Extract: func(json string, v []string) {
	v[0] = rawjson.GetText(json, "status", "phase")
	v[1] = rawjson.GetText(json, "status", "startTime")
}}

func compareStart(a, b *Incoming) int {
	if c := cmp.Compare(Seconds(a.Record.Fields[1]), Seconds(b.Record.Fields[1])); c != 0 {
		return c
	}
	return CompareKey(&a.Ref, &b.Ref)
}

// After any changes, ranges, counts and records equal those of a map with the same changes, and a snapshot that was taken
// before has not changed.
func TestCollectionFollowsAModel(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		c := NewCollection(phase, clock.RealClock{})
		model := map[string]*Incoming{}
		var old *Snapshot
		var oldKeys []string
		for step := range 1500 {
			ns, name := fmt.Sprintf("ns%d", r.IntN(4)), fmt.Sprintf("p%d", r.IntN(60))
			switch {
			case r.IntN(4) == 0:
				c.Delete(ns, name, "1")
				delete(model, ns+"/"+name)
			case r.IntN(200) == 0:
				var kept []*Incoming
				for key, o := range model {
					if r.IntN(3) == 0 {
						delete(model, key)
					} else {
						kept = append(kept, o)
					}
				}
				c.Replace(kept, "1")
			default:
				text := strings.ReplaceAll(storetest.Pod(ns, name, fmt.Sprintf(`"l":"%d","i":"%d"`, r.IntN(3), r.IntN(40)),
					fmt.Sprintf(`"phase":"%d","startTime":"2026-01-01T00:00:%02dZ"`, r.IntN(3), r.IntN(8))), "%RV%", fmt.Sprint(step))
				text = strings.Replace(text, "03:04:05Z", fmt.Sprintf("03:04:%02dZ", r.IntN(3)), 1)
				o := decodeText(t, phase, text)
				c.Set(o)
				model[ns+"/"+name] = o
			}
			if step%100 != 0 {
				continue
			}
			c.mu.Lock()
			c.publish()
			c.mu.Unlock()
			snap := c.current.Load()
			checkSnapshot(t, snap, model)
			if old != nil && !slices.Equal(names(old.ByCreated(All())), oldKeys) {
				t.Fatal("an old snapshot changed")
			}
			old, oldKeys = snap, names(snap.ByCreated(All()))
		}
	}
}

func checkSnapshot(t *testing.T, s *Snapshot, model map[string]*Incoming) {
	t.Helper()
	var bytes int64
	for key, o := range model {
		ns, name, _ := strings.Cut(key, "/")
		got, ok := s.Get(ns, name)
		if !ok || got.JSON != o.Record.JSON {
			t.Fatalf("%s: %v", key, got)
		}
		bytes += int64(o.Record.JSON.Len())
	}
	if s.Len() != len(model) || s.Bytes() != bytes {
		t.Fatalf("%d objects, %d bytes; the model has %d, %d", s.Len(), s.Bytes(), len(model), bytes)
	}
	check := func(what string, r Range, compare func(a, b *Ref) int, holds func(*Incoming) bool) {
		t.Helper()
		var want []*Ref
		for _, o := range model {
			if holds(o) {
				want = append(want, &o.Ref)
			}
		}
		slices.SortFunc(want, compare)
		var keys []string
		for _, ref := range want {
			keys = append(keys, ref.Namespace+"/"+ref.Name)
		}
		if r.Len() != len(keys) || !slices.Equal(names(r), keys) {
			t.Fatalf("%s: %v\nthe model has %v", what, names(r), keys)
		}
		for i := range keys { // every index, downwards
			r.Walk(i, true, func(ref *Ref) bool {
				if got := ref.Namespace + "/" + ref.Name; got != keys[i] {
					t.Fatalf("%s: at %d is %s, want %s", what, i, got, keys[i])
				}
				return false
			})
		}
	}
	check("all by time", s.ByCreated(All()), CompareCreated, func(*Incoming) bool { return true })
	check("all by name", s.ByName(All()), CompareName, func(*Incoming) bool { return true })
	byTime := map[Term]func(*Incoming) bool{
		All(): func(*Incoming) bool { return true }, InNamespace("ns1"): func(o *Incoming) bool { return o.Ref.Namespace == "ns1" },
	}
	for term, holds := range byTime {
		var want []*Incoming
		for _, o := range model {
			if holds(o) {
				want = append(want, o)
			}
		}
		slices.SortFunc(want, compareStart)
		var keys []string
		for _, o := range want {
			keys = append(keys, o.Ref.Namespace+"/"+o.Ref.Name)
		}
		if got := names(s.ByTime(0, term)); !slices.Equal(got, keys) || s.ByTime(0, term).Len() != len(keys) {
			t.Fatalf("by start time: %v, the model has %v", got, keys)
		}
		s.ByTime(0, term).Walk(0, false, func(ref *Ref) bool {
			if r := s.Record(ref); r.Name != ref.Name || r.Namespace != ref.Namespace {
				t.Fatal("a ref leads to another object")
			}
			return true
		})
	}
	for _, v := range []string{"0", "1", "2"} {
		check("namespace", s.ByCreated(InNamespace("ns"+v)), CompareCreated, func(o *Incoming) bool { return o.Ref.Namespace == "ns"+v })
		check("namespace by name", s.ByName(InNamespace("ns"+v)), CompareName, func(o *Incoming) bool { return o.Ref.Namespace == "ns"+v })
		check("label", s.ByCreated(HasLabel("l", v)), CompareCreated, func(o *Incoming) bool { got, _ := o.Record.Labels.Get("l"); return got == v })
		check("field", s.ByCreated(FieldIs(0, v)), CompareCreated, func(o *Incoming) bool { return o.Record.Fields[0] == v })
	}
}

func TestSnapshotsArePublishedOnceForABurst(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	col := NewCollection(phase, c)
	var waiting []func()
	col.later = func(d time.Duration, f func()) {
		if d <= 0 || d > publishEvery {
			t.Errorf("a snapshot is due in %v", d)
		}
		waiting = append(waiting, f)
	}
	col.Replace(nil, "1")
	first := col.current.Load().Generation()
	for i := range 100 {
		col.Set(decodeText(t, phase, storetest.Pod("a", fmt.Sprint(i))))
	}
	if got := col.current.Load(); got.Len() != 0 || len(waiting) != 1 {
		t.Fatalf("%d objects before the pause ended, %d timers", got.Len(), len(waiting))
	}
	c.Step(publishEvery)
	waiting[0]()
	if got := col.current.Load(); got.Len() != 100 || got.Generation() != first+1 {
		t.Errorf("%d objects in generation %d after %d", got.Len(), got.Generation(), first)
	}
	c.Step(time.Second)
	col.Set(decodeText(t, phase, storetest.Pod("a", "late")))
	if col.current.Load().Len() != 101 {
		t.Error("a change after a pause waits")
	}
}

func TestRangesThatASnapshotRemembersAreBounded(t *testing.T) {
	col := NewCollection(phase, clock.RealClock{})
	var labels []string
	for i := range 3 * maxRanges {
		labels = append(labels, fmt.Sprintf(`"k%d":"v"`, i))
	}
	col.Replace([]*Incoming{decodeText(t, phase, storetest.Pod("a", "x", strings.Join(labels, ",")))}, "1")
	s := col.current.Load()
	// What nothing matches may be any text of a caller's, of any length.
	if n := s.ByCreated(HasLabel("k", strings.Repeat("v", 1<<20))).Len(); n != 0 || len(s.ranges) != 0 {
		t.Errorf("%d objects, and %d ranges without any", n, len(s.ranges))
	}
	for i := range 3 * maxRanges {
		if n := s.ByCreated(HasLabel(fmt.Sprint("k", i), "v")).Len(); n != 1 {
			t.Fatalf("%d objects", n)
		}
	}
	if len(s.ranges) != maxRanges {
		t.Errorf("%d ranges", len(s.ranges))
	}
}

// Changes that arrive together have the effect of the same changes one by one, but for the snapshots in between.
func TestABatchIsItsChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	one, all := NewCollection(phase, clock.RealClock{}), NewCollection(phase, clock.RealClock{})
	one.Begin(0)
	all.Begin(0)
	for _, c := range []*Collection{one, all} {
		c.later = nil // see below: nothing is published by itself
		c.Replace(nil, "0")
	}
	type change struct {
		object *Incoming
		gone   bool
	}
	for round := range 200 {
		var b []change
		for i := range 1 + r.IntN(32) {
			name, version := fmt.Sprintf("p%d", r.IntN(20)), fmt.Sprint(round*32+i+1)
			text := strings.ReplaceAll(storetest.Pod("a", name, fmt.Sprintf(`"l":"%d"`, r.IntN(3)), fmt.Sprintf(`"phase":"%d"`, r.IntN(3))), "%RV%", version)
			b = append(b, change{decodeText(t, phase, text), r.IntN(4) == 0})
		}
		one.armed, all.armed = true, true
		for _, e := range b {
			o := decodeText(t, phase, e.object.Record.JSON.String()) // the collections share no records
			if e.gone {
				one.Delete(o.Ref.Namespace, o.Ref.Name, o.Record.ResourceVersion)
			} else {
				one.Set(o)
			}
		}
		all.Apply(func(yield func(*Incoming, bool) bool) {
			for _, e := range b {
				if !yield(e.object, e.gone) {
					return
				}
			}
		})
		one.Flush()
		all.Flush()
		a, z := one.current.Load(), all.current.Load()
		if a.ResourceVersion() != z.ResourceVersion() || a.position != z.position || !slices.Equal(names(a.ByCreated(All())), names(z.ByCreated(All()))) {
			t.Fatalf("round %d: %v at %s, %d;\ntogether %v at %s, %d", round, names(a.ByCreated(All())), a.version, a.position,
				names(z.ByCreated(All())), z.version, z.position)
		}
	}
}

// In any order, a first list is stored like the same objects stored one by one.
func TestAFirstListIsTheSameAsItsObjects(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := NewCollection(phase, clock.RealClock{})
	model := map[string]*Incoming{}
	var list []*Incoming
	for i := range 3000 {
		ns, name := fmt.Sprintf("ns%d", r.IntN(4)), fmt.Sprintf("p%d", r.IntN(2000)) // some twice: the last one counts
		text := strings.ReplaceAll(storetest.Pod(ns, name, fmt.Sprintf(`"l":"%d","i":"%d"`, r.IntN(3), r.IntN(40)),
			fmt.Sprintf(`"phase":"%d","startTime":"2026-01-01T00:00:%02dZ"`, r.IntN(3), r.IntN(8))), "%RV%", fmt.Sprint(i))
		o := decodeText(t, phase, strings.Replace(text, "03:04:05Z", fmt.Sprintf("03:04:%02dZ", r.IntN(60)), 1))
		list = append(list, o)
		model[ns+"/"+name] = o
	}
	if gone := c.Replace(list, "9999"); len(gone) != 0 {
		t.Errorf("gone: %v", gone)
	}
	checkSnapshot(t, c.current.Load(), model)
	for key, o := range model { // and it changes like any other
		if r.IntN(2) == 0 {
			c.Delete(o.Ref.Namespace, o.Ref.Name, "2")
			delete(model, key)
		}
	}
	c.Flush()
	checkSnapshot(t, c.current.Load(), model)
}

func names(r Range) []string {
	var out []string
	r.Walk(0, false, func(ref *Ref) bool {
		out = append(out, ref.Namespace+"/"+ref.Name)
		return true
	})
	return out
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
