package index

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// titled is a kind whose title is searched like its name.
var titled = &Schema{Fields: 2, Searched: []int{1}, Extract: func(json string, v []string) {
	v[1] = rawjson.GetText(json, "spec", "title")
}}

// searchable returns an object with texts drawn from few syllables, so that searches match some.
func searchable(t testing.TB, r *rand.Rand, name, uid string, version int) *Incoming {
	word := func() string {
		var b strings.Builder
		for range 1 + r.IntN(5) {
			b.WriteString([]string{"Shop", "web", "Ä", "ä-ß", "db", "İx", "x", "日本", "-7", " ", "\\\"q\\\""}[r.IntN(11)])
		}
		return b.String()
	}
	alias := ""
	if r.IntN(2) == 0 {
		alias = `"kubesphere.io/alias-name":"` + word() + `",`
	}
	return decodeText(t, titled, fmt.Sprintf(`{"kind":"Thing","apiVersion":"x/v1","metadata":{"name":%q,"uid":%q,"resourceVersion":"%d",`+
		`"labels":{"app":"%s"},"annotations":{%s"note":"%s"}},"spec":{"title":"%s"}}`, name, uid, version, word(), alias, word(), word()))
}

// small makes the indexes of a collection serve few objects, and builds them at once.
func small(c *Collection) {
	for _, f := range []*textIndex{&c.searches.names, &c.searches.words} {
		f.least, f.aside = 10, func(build func()) { build() }
	}
}

// found collects the results of a search, and checks that they are of the snapshot, each object once.
func found(t testing.TB, s *Snapshot, search func(string, func(*Ref) bool) bool, text string) (map[string]bool, bool) {
	t.Helper()
	out := map[string]bool{}
	ok := search(text, func(ref *Ref) bool {
		if r, there := s.Get(ref.Namespace, ref.Name); !there || r.Ref != ref {
			t.Errorf("%s is not of the snapshot", ref.Name)
		}
		if out[ref.Name] {
			t.Errorf("%s is given twice", ref.Name)
		}
		out[ref.Name] = true
		return true
	})
	if !ok && len(out) > 0 {
		t.Fatal("an index that can't tell gave objects")
	}
	return out, ok
}

func containsFold(text string, in ...string) bool {
	for _, s := range in {
		if strings.Contains(s, text) || strings.Contains(strings.ToLower(s), strings.ToLower(text)) {
			return true
		}
	}
	return false
}

// checkSearch compares both searches with a test of all objects. It returns how many searches the indexes answered.
func checkSearch(t *testing.T, s *Snapshot, text string) (answered int) {
	t.Helper()
	names, ok := found(t, s, s.Containing, text)
	words, also := found(t, s, s.Mentioning, text)
	s.ByName(All()).Walk(0, false, func(ref *Ref) bool {
		r := s.Record(ref)
		if ok && !names[r.Name] && containsFold(text, r.Name, r.Alias, r.Fields[1]) {
			t.Errorf("%q is not found in %q, %q, %q", text, r.Name, r.Alias, r.Fields[1])
		}
		all := []string{r.Name}
		pair := func(k, v string) bool {
			all = append(all, k+"="+v)
			return true
		}
		r.Labels.All(pair)
		r.Annotations.All(pair)
		if also && !words[r.Name] && containsFold(text, all...) {
			t.Errorf("%q is not found in %q", text, all)
		}
		return true
	})
	if ok {
		answered++
	}
	if also {
		answered++
	}
	return answered
}

var searched = []string{
	"web", "WEB", "Shop", "shopweb", "webdb-7", "äß", "Ä-ß", "日本", "日本日", "İxİ", "ixi", "-7-7", `"q"`, "app=web", "note=shop", "thing-11",
	"nothing like it", "xx", "", "web\xff", "\x9c\xac", "x x x", strings.Repeat("web", 40),
}

// After any changes, a search misses no object of the snapshot that is searched, older ones included, and returns none that
// is not there.
func TestSearchesFollowAModel(t *testing.T) {
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 3))
		c := NewCollection(titled, clock.RealClock{})
		small(c)
		c.Replace(nil, "1")
		answered, uid := 0, 0
		var old []*Snapshot
		for step := range 1500 {
			name := fmt.Sprintf("thing-%d", r.IntN(250))
			switch rec := c.get("", name); {
			case step > 400 && r.IntN(4) == 0:
				c.Delete("", name, fmt.Sprint(step))
			case rec == nil || r.IntN(6) == 0: // new, or created again
				uid++
				c.Set(searchable(t, r, name, fmt.Sprint(uid), step))
			default:
				c.Set(searchable(t, r, name, rec.UID, step))
			}
			if step%75 != 0 {
				continue
			}
			c.Flush()
			s := c.current.Load()
			old = append(old, s)
			for _, text := range searched {
				answered += checkSearch(t, s, text)
				checkSearch(t, old[r.IntN(len(old))], text)
			}
		}
		if answered < len(searched)*15 {
			t.Errorf("the indexes answered %d times: the test tests nothing", answered)
		}
		checkIndex(t, &c.searches.names, c.current.Load())
		checkIndex(t, &c.searches.words, c.current.Load())
	}
}

// checkIndex compares an updated index with a new one.
func checkIndex(t *testing.T, f *textIndex, s *Snapshot) {
	t.Helper()
	moved := f.current.Load()
	if !moved.advance(s) {
		t.Fatal("the index can't follow")
	}
	anew := newTrigrams(s, f.texts, 1<<30)
	words := 0
	for i := range moved.buckets {
		b := &moved.buckets[i]
		words += len(b.ids)
		for id := range uint32(len(s.chunks) * chunkSize) {
			if anew.shift == moved.shift && b.has(id) != anew.buckets[i].has(id) {
				t.Errorf("bucket %d, id %d: %v", i, id, b.has(id))
			}
		}
		if int(b.n) > 2*moved.dense()*32 {
			t.Errorf("bucket %d counts %d objects", i, b.n)
		}
	}
	if words != moved.words || moved.size() < 4*words {
		t.Errorf("%d words are counted as %d", words, moved.words)
	}
}

func manyThings(t testing.TB, n int, schema *Schema, now clock.WithTicker) *Collection {
	c := NewCollection(schema, now)
	r := rand.New(rand.NewPCG(1, 1))
	all := make([]*Incoming, n)
	for i := range all {
		all[i] = searchable(t, r, fmt.Sprintf("thing-%d", i), fmt.Sprint(i), 1)
	}
	c.Replace(all, "1")
	return c
}

func TestSearchIsLeftToTheCallerWhereAnIndexIsNoHelp(t *testing.T) {
	c := manyThings(t, 200, titled, clock.RealClock{})
	s := c.current.Load()
	none := func(*Ref) bool { t.Error("an object"); return false }
	if s.Containing("thing-11", none) || c.searches.names.current.Load() != nil {
		t.Error("a small kind has an index")
	}
	var waiting []func()
	small(c)
	c.searches.names.aside = func(f func()) { waiting = append(waiting, f) }
	for range 3 {
		if s.Containing("thing-11", none) {
			t.Error("an index that is not made answers")
		}
	}
	if len(waiting) != 1 {
		t.Errorf("%d indexes are made", len(waiting))
	}
	waiting[0]()
	if names, ok := found(t, s, s.Containing, "thing-11"); !ok || !names["thing-11"] || !names["thing-119"] {
		t.Errorf("found %v, %v", names, ok)
	}
	for _, text := range []string{"thing", "th", "", "web\xff"} { // all match; too short; no text
		if s.Containing(text, none) {
			t.Errorf("%q is answered", text)
		}
	}
	n := 0
	if !s.Containing("thing-1", func(*Ref) bool { n++; return n < 3 }) && n > 0 || n > 3 {
		t.Errorf("%d objects where 3 were wanted", n)
	}
}

func TestAnIndexThatIsTooLargeIsNotMade(t *testing.T) {
	c := manyThings(t, 200, titled, clock.RealClock{})
	s := c.current.Load()
	if full := newTrigrams(s, namesOf(titled), 1<<30); newTrigrams(s, namesOf(titled), full.words-1) != nil ||
		newTrigrams(s, namesOf(titled), full.words) == nil {
		t.Error("the bound is not kept")
	}
	small(c)
	made := 0
	c.searches.names.refused.Store(150)
	c.searches.names.aside = func(func()) { made++ }
	s.Containing("thing-11", func(*Ref) bool { return true })
	if made != 0 {
		t.Error("it is made again for a kind of the same size")
	}
	c.searches.names.refused.Store(50)
	s.Containing("thing-11", func(*Ref) bool { return true })
	if made != 1 {
		t.Error("it is not tried again where the kind has another size")
	}
}

func TestAnIndexThatNobodyAsksIsDropped(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	c := manyThings(t, 200, titled, now)
	small(c)
	s := c.current.Load()
	ask := func() { s.Containing("thing-11", func(*Ref) bool { return true }) }
	ask()
	now.Step(searchIdle)
	c.Bookmark("2")
	if c.searches.names.current.Load() == nil {
		t.Error("it is dropped too early")
	}
	now.Step(2 * time.Second)
	c.Bookmark("3")
	if c.searches.names.current.Load() != nil {
		t.Error("it is kept")
	}
	ask()
	if c.searches.names.current.Load() == nil {
		t.Error("it is not made again")
	}
	for i := range 196 {
		c.Delete("", fmt.Sprintf("thing-%d", i), fmt.Sprint(4+i))
	}
	now.Step(publishEvery)
	c.Flush()
	if c.searches.names.current.Load() != nil {
		t.Error("a kind with few objects has an index")
	}
}

// The writer updates an index before the history loses the changes.
func TestAnIndexIsNotLeftBehind(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	c := manyThings(t, 200, titled, now)
	small(c)
	s := c.current.Load()
	s.Containing("thing-11", func(*Ref) bool { return true })
	made := c.searches.names.current.Load()
	r := rand.New(rand.NewPCG(2, 2))
	for i := range 2 * maxChanges {
		c.Set(searchable(t, r, "thing-7", "7", i))
		now.Step(publishEvery)
	}
	checkSearch(t, c.current.Load(), "web")
	if c.searches.names.current.Load() != made {
		t.Error("it was made anew")
	}
	if s.Containing("thing-11", func(*Ref) bool { return true }) {
		t.Error("a snapshot whose changes are lost is answered")
	}
}

func TestSearchesRunWhileTheKindChanges(t *testing.T) {
	c := manyThings(t, 300, titled, clock.RealClock{})
	for _, f := range []*textIndex{&c.searches.names, &c.searches.words} {
		f.least = 10
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
					checkSearch(t, c.current.Load(), searched[n%len(searched)])
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(4, 4))
	for i := range 1500 {
		name := fmt.Sprintf("thing-%d", r.IntN(300))
		if r.IntN(3) == 0 {
			c.Delete("", name, fmt.Sprint(i))
		} else {
			c.Set(searchable(t, r, name, fmt.Sprint(r.IntN(3)), i))
		}
	}
	close(stop)
	readers.Wait()
}

func FuzzContaining(f *testing.F) {
	for _, text := range searched {
		f.Add(text)
	}
	c := manyThings(f, 300, titled, clock.RealClock{})
	small(c)
	f.Fuzz(func(t *testing.T, text string) { checkSearch(t, c.current.Load(), text) })
}

// size returns roughly how many bytes the index has.
func (t *trigrams) size() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return 4*t.words + 32*len(t.buckets)
}
