package lockfree_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz/rbac/lockfree"
)

// Map behaves as a Go map does.
func TestItIsAMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var got lockfree.Map[int]
	want := map[string]int{}
	for n := range 20000 {
		key := fmt.Sprint(r.IntN(500))
		if r.IntN(3) == 0 {
			got.Delete(key)
			delete(want, key)
		} else {
			got.Put(key, n)
			want[key] = n
		}
		key = fmt.Sprint(r.IntN(500))
		v, ok := got.Get(key)
		if w, in := want[key]; v != w || ok != in {
			t.Fatalf("step %d: %q is %d %v, want %d %v", n, key, v, ok, w, in)
		}
	}
	all := map[string]int{}
	got.All(func(key string, v int) bool { all[key] = v; return true })
	if !maps.Equal(all, want) || got.Len() != len(want) {
		t.Errorf("%d entries, Len %d, want %d", len(all), got.Len(), len(want))
	}
	seen := 0
	got.All(func(string, int) bool { seen++; return false })
	if seen != 1 {
		t.Errorf("All went on %d times after false", seen)
	}
}
