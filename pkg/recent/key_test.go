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
