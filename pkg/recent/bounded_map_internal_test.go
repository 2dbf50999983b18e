package recent

import (
	"slices"
	"strings"
	"testing"
)

// partsOf splits a text into parts; the fuzzer chooses their number and content.
func partsOf(s string) []string { return strings.Split(s, "|") }

// Joining never makes equal keys of different parts, whatever bytes a user types as a name.
func FuzzPartsOfALimitAreToldApart(f *testing.F) {
	f.Add("password|name x|10.0.0.1", "password|name x\x0010.0.0.1")
	f.Add("a\x00b", "a|b")
	f.Add("a\x01b|", "a\x01|b")
	f.Add("a\x01\x02", "a\x00")
	f.Add("|", "")
	f.Fuzz(func(t *testing.T, one, other string) {
		a, b := partsOf(one), partsOf(other)
		if slices.Equal(a, b) {
			return
		}
		if string(appendParts(nil, a...)) == string(appendParts(nil, b...)) || KeyOf(a...) == KeyOf(b...) {
			t.Errorf("%q and %q have one key", a, b)
		}
	})
}

// Stored keys were made with a zero byte after each part: plain parts keep their keys.
func TestKeysOfPlainPartsStayWhatTheyWere(t *testing.T) {
	if got := string(appendParts(nil, "password ldap", "10.0.0.1")); got != "password ldap\x0010.0.0.1\x00" {
		t.Errorf("%q", got)
	}
}

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
