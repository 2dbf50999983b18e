package recent

import "testing"

func TestWeightedMapIsBoundedByWeight(t *testing.T) {
	m := NewWeightedMap[int](100, func(v int) int { return v })
	for i := range 1000 {
		m.Set(i%77, 1+i%20)
		sum := 0
		for _, values := range []map[int]int{m.young, m.old} {
			for _, v := range values {
				sum += v
			}
		}
		if sum > 100 || m.Len() < 2 && i > 2 {
			t.Fatalf("%d keys that weigh %d, want at most 100", m.Len(), sum)
		}
	}
	m.Set(1, 1000)
	if !m.Has(1) {
		t.Error("a value that is too heavy was not kept at all")
	}
	if m.Set(2, 1); m.Len() != 2 {
		t.Errorf("%d keys beside a value that is too heavy", m.Len()-1)
	}
}
