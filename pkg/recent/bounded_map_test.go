package recent_test

import (
	"maps"
	"testing"

	"kapis.dev/ks-apiserver/pkg/recent"
)

func TestMapIsBounded(t *testing.T) {
	m := recent.NewMap[int, string](100)
	m.Set(-1, "used")
	m.Set(-2, "read")
	for i := range 1000 {
		m.Set(i, "x")
		if v, ok := m.Use(-1); !ok || v != "used" {
			t.Fatalf("after %d keys: a key in use was forgotten", i)
		}
		if i >= 40 && (!m.Has(i-40) || !m.Has(i)) {
			t.Fatalf("after %d keys: one of the latest 41 was forgotten", i)
		}
		if _, ok := m.Get(-2); ok && i > 100 {
			t.Fatalf("after %d keys: reading a key has kept it", i)
		}
		if n := m.Len(); n > 100 {
			t.Fatalf("%d keys, want at most 100", n)
		}
	}
}

func TestMapCountsEachKeyOnce(t *testing.T) {
	m := recent.NewMap[int, int](10)
	for i := range 100 {
		m.Set(1, i)
		m.Set(2, i)
	}
	if v, ok := m.Get(1); !ok || v != 99 || m.Len() != 2 {
		t.Errorf("got %d, %v and %d keys, want 99 and 2 keys", v, ok, m.Len())
	}
	for i := range 100 {
		m.Delete(2)
		m.Set(2, i)
	}
	if all := maps.Collect(m.All()); len(all) != 2 || all[1] != 99 || all[2] != 99 {
		t.Errorf("all are %v, want 99 twice", all)
	}
	m.Delete(1)
	if m.Len() != 1 || m.Has(1) || !m.Has(2) {
		t.Errorf("%d keys, want only 2", m.Len())
	}
	if m.Clear(); m.Len() != 0 {
		t.Errorf("%d keys after Clear", m.Len())
	}
}
