package index

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSearch searches 100 000 pods by name, and by any of their texts.
func BenchmarkSearch(b *testing.B) {
	c := filled(b, 100_000)
	s := c.current.Load()
	for _, kind := range []struct {
		name   string
		finder *textIndex
	}{{"names", &c.searches.names}, {"words", &c.searches.words}} {
		f := kind.finder
		b.Run(kind.name+"/make", func(b *testing.B) {
			var t *trigrams
			for b.Loop() {
				t = newTrigrams(s, f.texts, 1<<30)
			}
			b.ReportMetric(float64(t.size())/float64(s.Len()), "B/object")
		})
		f.aside = func(build func()) { build() }
		s.searchWith(f, "web-777", func(*Ref) bool { return true }) // makes the index
		for _, text := range []string{"web-77777", "web-777", "web-77"} {
			b.Run(kind.name+"/"+text, func(b *testing.B) {
				b.ReportAllocs()
				n := 0
				for b.Loop() {
					n = 0
					search(b, s, f, text, func(*Ref) bool { n++; return true })
				}
				b.ReportMetric(float64(n), "candidates")
			})
		}
	}
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("names/web-777-after-%d-changes", n), func(b *testing.B) { benchAfter(b, c, n) })
	}
}

func search(b *testing.B, s *Snapshot, f *textIndex, text string, each func(*Ref) bool) {
	if !s.searchWith(f, text, each) {
		b.Fatal("not answered")
	}
}

// benchAfter searches after changes, a third of which create or delete a pod.
func benchAfter(b *testing.B, c *Collection, changes int) {
	version, pods := 1_000_000, make([]*Incoming, 0, 2*changes)
	for b.Loop() {
		b.StopTimer()
		pods = pods[:0]
		for i := range changes {
			version++
			if i%3 == 0 {
				pods = append(pods, decodeText(b, benchSchema, strings.Replace(benchPod(version), `"env":[`, `"none":[`, 1)))
			} else {
				pods = append(pods, decodeText(b, benchSchema, strings.Replace(benchPod(i), "Running", fmt.Sprint(version), 1)))
			}
		}
		for _, p := range pods {
			c.Set(p)
		}
		c.Flush()
		s := c.current.Load()
		b.StartTimer()
		search(b, s, &c.searches.names, "web-777", func(*Ref) bool { return true })
	}
}

// BenchmarkSearchWithoutIndex is BenchmarkSearch without its index: all names are tested.
func BenchmarkSearchWithoutIndex(b *testing.B) {
	s := filled(b, 100_000).current.Load()
	for b.Loop() {
		n := 0
		s.ByCreated(All()).Walk(0, false, func(ref *Ref) bool {
			if strings.Contains(ref.Name, "web-777") {
				n++
			}
			return true
		})
		if n == 0 {
			b.Fatal("nothing matches")
		}
	}
}
