package session

import (
	"slices"
	"strings"
	"testing"
)

// partsOfList splits a text into a list; the fuzzer chooses the length and the texts.
func partsOfList(s string) []string { return strings.Split(s, "|") }

// Lists from the pool equal the given ones, so that no session gets the groups of another.
func FuzzAPoolSharesEqualLists(f *testing.F) {
	f.Add("a\x00b", "a|b")
	f.Add("|a", "a|")
	f.Add("a\x01", "a")
	f.Fuzz(func(t *testing.T, one, other string) {
		var p pool
		p.texts, p.lists = map[string]string{}, map[string][]string{}
		for _, s := range []string{one, other, one} {
			if want, got := partsOfList(s), p.list(partsOfList(s)); !slices.Equal(want, got) {
				t.Fatalf("%q became %q", want, got)
			}
		}
	})
}
