package index

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/store/storetest"

	"k8s.io/utils/clock"
)

func TestSetsAreThoseOfAModel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := NewCollection(phase, clock.RealClock{})
	c.Replace(nil, "1")
	for i := range 900 {
		if i%5 == 4 { // ids are used again, and some are of nothing
			c.Delete("a", fmt.Sprint("p", r.IntN(i)), fmt.Sprint(i))
		}
		labels := fmt.Sprintf(`"app":"%d"`, r.IntN(3))
		if r.IntN(2) == 0 {
			labels += `,"app2":"x"`
		}
		c.Set(decodeText(t, phase, strings.ReplaceAll(storetest.Pod("a", fmt.Sprint("p", i), labels), "%RV%", fmt.Sprint(i))))
	}
	c.Flush()
	s := c.current.Load()
	label := func(key string, values ...string) func(*Record) bool {
		return func(r *Record) bool {
			got, ok := r.Labels.Get(key)
			return ok && (len(values) == 0 || strings.Contains(strings.Join(values, ","), got))
		}
	}
	check := func(what string, x Set, holds func(*Record) bool) {
		t.Helper()
		n := 0
		s.ByName(All()).Walk(0, false, func(ref *Ref) bool {
			if x.Has(ref) != holds(s.Record(ref)) {
				t.Fatalf("%s: %s", what, ref.Name)
			}
			if x.Has(ref) {
				n++
			}
			return true
		})
		walked := 0
		s.Walk(x, func(ref *Ref) bool { walked++; return x.Has(ref) })
		if x.Len() != n || walked != n {
			t.Errorf("%s: %d objects, %d are walked, of %d", what, x.Len(), walked, n)
		}
	}
	check("all", s.Set(All()), func(*Record) bool { return true })
	check("none", s.Set(), func(*Record) bool { return false })
	check("one value", s.Set(HasLabel("app", "1")), label("app", "1"))
	check("any value of two", s.Set(HasLabel("app", "1"), HasLabel("app", "2")), label("app", "1", "2"))
	check("a key", s.SetOfLabel("app2"), label("app2"))
	check("a key that is the begin of another", s.SetOfLabel("app"), label("app"))
	check("a key that nobody has", s.SetOfLabel("ap"), label("ap"))
	if n := s.CountLabel("app2"); n != s.SetOfLabel("app2").Len() {
		t.Errorf("%d objects are counted", n)
	}
	both := s.Set(HasLabel("app", "1"))
	both.Intersect(s.SetOfLabel("app2"))
	check("and", both, func(r *Record) bool { return label("app", "1")(r) && label("app2")(r) })
	both = s.Set(All())
	both.Subtract(s.SetOfLabel("app2"))
	check("not", both, func(r *Record) bool { return !label("app2")(r) })
	n := 0
	s.Walk(s.Set(All()), func(*Ref) bool { n++; return n < 5 })
	if n != 5 {
		t.Errorf("%d objects where 5 were wanted", n)
	}
}
