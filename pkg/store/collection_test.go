package store

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func decodeText(t testing.TB, s *Schema, text string) *incoming {
	d, err := newDecoder(noKind, s, func() bool { return false }).decode(text, "")
	if err != nil {
		t.Fatal(err)
	}
	return d.incoming
}

var phase = &Schema{Fields: 2, Indexed: []int{0}, Ordered: []int{1}, Extract: func(json string, v []string) {
	v[0] = rawjson.GetText(json, "status", "phase")
	v[1] = rawjson.GetText(json, "status", "startTime")
}}

func compareStart(a, b *incoming) int {
	if c := cmp.Compare(Seconds(a.rec.Fields[1]), Seconds(b.rec.Fields[1])); c != 0 {
		return c
	}
	return CompareKey(&a.ref, &b.ref)
}

// Whatever the changes, ranges, counts and records are those of a map that saw the same, and a snapshot
// that was taken before does not change.
func TestCollectionFollowsAModel(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		r := rand.New(rand.NewPCG(seed, 1))
		c := newCollection(phase, clock.RealClock{})
		model := map[string]*incoming{}
		var old *Snapshot
		var oldKeys []string
		for step := range 1500 {
			ns, name := fmt.Sprintf("ns%d", r.IntN(4)), fmt.Sprintf("p%d", r.IntN(60))
			switch {
			case r.IntN(4) == 0:
				c.delete(ns, name, "1")
				delete(model, ns+"/"+name)
			case r.IntN(200) == 0:
				var kept []*incoming
				for key, o := range model {
					if r.IntN(3) == 0 {
						delete(model, key)
					} else {
						kept = append(kept, o)
					}
				}
				c.replace(kept, "1")
			default:
				text := strings.ReplaceAll(testPod(ns, name, fmt.Sprintf(`"l":"%d","i":"%d"`, r.IntN(3), r.IntN(40)),
					fmt.Sprintf(`"phase":"%d","startTime":"2026-01-01T00:00:%02dZ"`, r.IntN(3), r.IntN(8))), "%RV%", fmt.Sprint(step))
				text = strings.Replace(text, "03:04:05Z", fmt.Sprintf("03:04:%02dZ", r.IntN(3)), 1)
				o := decodeText(t, phase, text)
				c.set(o)
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

func checkSnapshot(t *testing.T, s *Snapshot, model map[string]*incoming) {
	t.Helper()
	var bytes int64
	for key, o := range model {
		ns, name, _ := strings.Cut(key, "/")
		got, ok := s.Get(ns, name)
		if !ok || got.JSON != o.rec.JSON {
			t.Fatalf("%s: %v", key, got)
		}
		bytes += int64(o.rec.JSON.Len())
	}
	if s.Len() != len(model) || s.Bytes() != bytes {
		t.Fatalf("%d objects, %d bytes; the model has %d, %d", s.Len(), s.Bytes(), len(model), bytes)
	}
	check := func(what string, r Range, compare func(a, b *Ref) int, holds func(*incoming) bool) {
		t.Helper()
		var want []*Ref
		for _, o := range model {
			if holds(o) {
				want = append(want, &o.ref)
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
	check("all by time", s.ByCreated(All()), CompareCreated, func(*incoming) bool { return true })
	check("all by name", s.ByName(All()), CompareName, func(*incoming) bool { return true })
	byTime := map[Term]func(*incoming) bool{
		All(): func(*incoming) bool { return true }, InNamespace("ns1"): func(o *incoming) bool { return o.ref.Namespace == "ns1" },
	}
	for term, holds := range byTime {
		var want []*incoming
		for _, o := range model {
			if holds(o) {
				want = append(want, o)
			}
		}
		slices.SortFunc(want, compareStart)
		var keys []string
		for _, o := range want {
			keys = append(keys, o.ref.Namespace+"/"+o.ref.Name)
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
		check("namespace", s.ByCreated(InNamespace("ns"+v)), CompareCreated, func(o *incoming) bool { return o.ref.Namespace == "ns"+v })
		check("namespace by name", s.ByName(InNamespace("ns"+v)), CompareName, func(o *incoming) bool { return o.ref.Namespace == "ns"+v })
		check("label", s.ByCreated(HasLabel("l", v)), CompareCreated, func(o *incoming) bool { got, _ := o.rec.Labels.Get("l"); return got == v })
		check("field", s.ByCreated(FieldIs(0, v)), CompareCreated, func(o *incoming) bool { return o.rec.Fields[0] == v })
	}
}

func TestSnapshotsArePublishedOnceForABurst(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Now())
	col := newCollection(phase, c)
	var waiting []func()
	col.later = func(d time.Duration, f func()) {
		if d <= 0 || d > publishEvery {
			t.Errorf("a snapshot is due in %v", d)
		}
		waiting = append(waiting, f)
	}
	col.replace(nil, "1")
	first := col.current.Load().Generation()
	for i := range 100 {
		col.set(decodeText(t, phase, testPod("a", fmt.Sprint(i))))
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
	col.set(decodeText(t, phase, testPod("a", "late")))
	if col.current.Load().Len() != 101 {
		t.Error("a change after a pause waits")
	}
}

func TestRangesThatASnapshotRemembersAreBounded(t *testing.T) {
	col := newCollection(phase, clock.RealClock{})
	col.replace([]*incoming{decodeText(t, phase, testPod("a", "x"))}, "1")
	s := col.current.Load()
	for i := range 3 * maxRanges {
		s.ByCreated(HasLabel("k", fmt.Sprint(i)))
	}
	if len(s.ranges) != maxRanges {
		t.Errorf("%d ranges", len(s.ranges))
	}
}

// U12, U13: what nobody reads is cut, and cutting again changes nothing.
func TestDecodingIsIdempotent(t *testing.T) {
	s := &Schema{Cut: rawjson.Cuts([]string{"data"}, []string{"spec", "connection", "token"})}
	for _, text := range []string{
		testPod("a", "b"),
		`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x","managedFields":[]},"data":{"a":"b"}}`,
		`{"apiVersion":"v1","metadata":{"name":"x"},"spec":{"connection":{"token":"t","type":"direct"}},"kind":"Cluster"}`,
	} {
		once := decodeText(t, s, text).rec.JSON.String()
		if twice := decodeText(t, s, once).rec.JSON.String(); once != twice {
			t.Errorf("%s\n%s", once, twice)
		}
		for _, cut := range []string{"managedFields", `"data"`, "last-applied", `"token"`} {
			if strings.Contains(once, cut) {
				t.Errorf("%s is left in %s", cut, once)
			}
		}
	}
}

func TestItemsOfAListCarryTheirKind(t *testing.T) {
	d := newDecoder(noKind, &Schema{}, func() bool { return false })
	l, err := d.list(rawjson.NewReader(strings.NewReader(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c",`+
		`"remainingItemCount":3},"items":[{"metadata":{"name":"a"}},{"kind":"Own","apiVersion":"x/v1","metadata":{"name":"b"}}]}`), 1<<20))
	if err != nil || l.ResourceVersion != "7" || l.Continue != "c" || *l.RemainingItemCount != 3 || len(l.Items) != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	for i, want := range []string{`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"}}`, `{"kind":"Own","apiVersion":"x/v1","metadata":{"name":"b"}}`} {
		if got := l.Items[i].(*decoded).rec.JSON.String(); got != want {
			t.Errorf("got %s", got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(testPod("a", "b"))
	f.Add(`{"metadata":{"name":"x","labels":{"a":null},"ownerReferences":[{"uid":7}],"creationTimestamp":"no"}}`)
	f.Add(`{"kind":"PodList","items":[{"metadata":{"name":"a"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = newDecoder(noKind, phase, func() bool { return true }).list(rawjson.NewReader(strings.NewReader(text), 1<<16))
		d, err := newDecoder(noKind, phase, func() bool { return true }).decode(text, `"kind":"A","apiVersion":"v1"`)
		if err != nil {
			return
		}
		if d.ref.Name == "" || !rawjson.Valid(d.rec.JSON.String(), 10_000) {
			t.Fatalf("%q was taken as %q", text, d.rec.JSON)
		}
		c := newCollection(phase, clock.RealClock{})
		c.set(d.incoming)
		c.set(decodeText(t, phase, d.rec.JSON.String()))
		c.delete(d.ref.Namespace, d.ref.Name, "")
		if c.count != 0 || c.bytes != 0 || c.created.Len() != 0 || c.names.Len() != 0 || c.times[0].Len() != 0 {
			t.Fatalf("%q leaves %d objects, %d bytes, %d entries", text, c.count, c.bytes, c.created.Len())
		}
	})
}
