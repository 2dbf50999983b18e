package chart_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"kapis.dev/ks-apiserver/pkg/chart"
)

const twoCharts = `apiVersion: v1
entries:
  shop:
  - apiVersion: v2
    created: "2026-11-21T00:00:00Z"
    description: |
      A text
        with: a colon
    digest: abc
    name: shop
    urls:
    - shop-1.1.0.tgz
    version: 1.1.0
  - name: shop
    urls:
    - https://elsewhere.example.com/shop-1.0.0.tgz
    version: 1.0.0
  "pay":
    - {name: pay, version: 2.0.0, urls: [pay.tgz]}
generated: "2026-11-21T00:00:00Z"
`

func all(string) bool { return true }

// described returns the entries of an index as a text.
func described(x *chart.Index, wanted func(string) bool) string {
	var out []string
	for e := range x.Entries(wanted) {
		text := e.Name
		for _, v := range e.Versions {
			text += fmt.Sprintf(" %s=%s@%s", v.Name, v.Version, strings.Join(v.URLs, ","))
		}
		if len(e.Errs) > 0 {
			text += " !" + errors.Join(e.Errs...).Error()
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

func TestAnIndexIsReadEntryByEntry(t *testing.T) {
	const want = "pay pay=2.0.0@pay.tgz; shop shop=1.1.0@shop-1.1.0.tgz shop=1.0.0@https://elsewhere.example.com/shop-1.0.0.tgz"
	const json = `{"apiVersion":"v1","entries":{"pay":[{"name":"pay","version":"2.0.0","urls":["pay.tgz"]}],"shop":[{"name":"shop","version":"1.1.0",` +
		`"urls":["shop-1.1.0.tgz"]},{"name":"shop","version":"1.0.0","urls":["https://elsewhere.example.com/shop-1.0.0.tgz"]}]}}`
	generated, before, _ := strings.Cut(twoCharts, "entries:")
	_, last, _ := strings.Cut(twoCharts, "generated:")
	for name, text := range map[string]string{
		"Helm's": twoCharts, "JSON": json, "Windows": strings.ReplaceAll(twoCharts, "\n", "\r\n"), "A document": "---\n# of ours\n" + twoCharts + "...\n",
		"Generated first":  generated + "generated:" + last + "entries:" + strings.TrimSuffix(before, "generated:"+last),
		"Flow":             "apiVersion: v1\ngenerated: x\nentries: " + json[len(`{"apiVersion":"v1","entries":`):len(json)-1] + "\n",
		"Wider":            strings.ReplaceAll(twoCharts, "\n  ", "\n      "),
		"A flow in braces": "{apiVersion: v1, generated: x, entries: " + json[len(`{"apiVersion":"v1","entries":`):len(json)-1] + "}",
	} {
		t.Run(name, func(t *testing.T) {
			x, err := chart.ReadIndex([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if got := described(x, all); got != want || !x.Complete || x.Len() != 2 {
				t.Errorf("%s, complete %v", got, x.Complete)
			}
			if got := described(x, func(name string) bool { return name == "pay" }); got != "pay pay=2.0.0@pay.tgz" {
				t.Errorf("wanted pay: %s", got)
			}
		})
	}
}

func TestTheTimeAloneIsNoChange(t *testing.T) { // X16
	of := func(text string) string {
		x, err := chart.ReadIndex([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return x.Digest
	}
	is := of(twoCharts)
	if of(strings.Replace(twoCharts, `generated: "2026`, `generated: "2027`, 1)) != is {
		t.Error("another time is another index")
	}
	if of(strings.Replace(twoCharts, "1.1.0", "1.2.0", 1)) == is || of(strings.Replace(twoCharts, "pay", "pax", 1)) == is {
		t.Error("another content is the same index")
	}
}

// Wherever an index is cut off, it is refused, or known to be incomplete.
func TestACutOffIndexIsNotComplete(t *testing.T) { // X16
	end := strings.Index(twoCharts, "generated:") + len("generated:")
	for i := range end {
		if x, err := chart.ReadIndex([]byte(twoCharts[:i])); err == nil && x.Complete {
			t.Fatalf("cut off after %q it is complete", twoCharts[max(0, i-20):i])
		}
	}
	for _, text := range []string{"apiVersion: v1\nentries:\n", "apiVersion: v1\nentries: {}\n", `{"apiVersion":"v1","entries":{"a":[]`} {
		if x, err := chart.ReadIndex([]byte(text)); err == nil && x.Complete {
			t.Errorf("%q is complete", text)
		}
	}
	if x, err := chart.ReadIndex([]byte("apiVersion: v1\nentries: {}\ngenerated: x\n")); err != nil || !x.Complete || x.Len() != 0 {
		t.Errorf("an empty one: %+v %v", x, err)
	}
}

func TestABadEntryStopsNoOther(t *testing.T) { // X16
	for name, c := range map[string]struct{ bad, say string }{
		"NoList":    {"  bad: text\n", "bad !it"},
		"Syntax":    {"  bad:\n  - [\n", "bad !it"},
		"OneOfTwo":  {"  bad:\n  - {name: bad, version: 1.0.0}\n  - {name: [], version: 2}\n", "bad bad=1.0.0@ !version 2 of 2"},
		"Time":      {"  bad:\n  - {name: bad, version: 1.0.0, created: yesterday}\n", "bad !version 1 of 1"},
		"Anchors":   {"  bad:\n  - *other\n", "bad !it"},
		"Bomb":      {"  bad:\n  - &a [x, x, x, x, x, x, x, x, x]\n  - &b [*a, *a, *a, *a, *a, *a, *a, *a]\n  - &c [*b, *b, *b, *b, *b, *b, *b, *b]\n", "bad !"},
		"TooLarge":  {"  bad:\n  - {name: bad, description: " + strings.Repeat("x", 5<<20) + "}\n", "bad !its versions have more than 4 MiB"},
		"TwoInOne":  {"  bad:\n  - {name: bad}\n   other: x\n", "bad !it"},
		"OtherName": {"  bad : [{name: x, version: 1.0.0}]\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := chart.ReadIndex([]byte(strings.Replace(twoCharts, "entries:\n", "entries:\n"+c.bad, 1)))
			if err != nil {
				t.Fatal(err)
			}
			got := described(x, all)
			if !strings.Contains(got, c.say) || !strings.Contains(got, "pay pay=2.0.0@pay.tgz") || !strings.Contains(got, "shop shop=1.1.0") {
				t.Errorf("%.300s, want %s", got, c.say)
			}
		})
	}
}

func TestWhatIsNoIndexIsRefused(t *testing.T) { // X17
	for name, text := range map[string]string{
		"Nothing": "", "HTML": "<!DOCTYPE html>\n<html>\n</html>\n", "Text": "hello", "List": "- a\n- b\n", "NoVersion": "entries:\n  a: []\ngenerated: x\n",
		"Twice":      "apiVersion: v1\nentries:\n  a: []\nentries:\n  b: []\n",
		"ChartTwice": "apiVersion: v1\nentries:\n  a: []\n  a: []\ngenerated: x\n",
		"NoEntries":  "apiVersion: v1\nkind: Other\n", "Large": strings.Repeat("#", chart.MaxIndex+1),
		"Many": "apiVersion: v1\nentries:\n" + manyCharts(20_001, "") + "generated: x\n",
	} {
		if x, err := chart.ReadIndex([]byte(text)); err == nil {
			t.Errorf("%s: it has %d entries", name, x.Len())
		}
	}
}

func manyCharts(n int, description string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  c%d:\n  - name: c%d\n    version: 1.0.0\n    description: %s\n    urls:\n    - c.tgz\n", i, i, description)
	}
	return b.String()
}

// X17: what an index takes to be read is a few times its size, however many charts it has.
func TestAnIndexTakesAFewTimesItsSize(t *testing.T) {
	text := []byte("apiVersion: v1\nentries:\n" + manyCharts(1_000, strings.Repeat("word ", 400)) + "generated: x\n")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x, err := chart.ReadIndex(text)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > int64(len(text)) {
		t.Errorf("an index of %d bytes keeps %d more", len(text), grown)
	}
	n := 0
	for e := range x.Entries(all) {
		if len(e.Errs) == 0 {
			n++
		}
	}
	if n != 1_000 {
		t.Errorf("%d entries", n)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(twoCharts))
	f.Add([]byte(`{"apiVersion":"v1","entries":{"a":[{"name":"a"}]}}`))
	f.Add([]byte("apiVersion: v1\nentries:\n  'a': [{name: a}]\n  b:\n   - x\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		x, err := chart.ReadIndex(raw)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for e := range x.Entries(all) {
			if seen[e.Name] {
				t.Fatalf("%q is there twice", e.Name)
			}
			seen[e.Name] = true
			if len(e.Errs) > 0 && e.Errs[0] == nil {
				t.Fatal("an error that is none")
			}
		}
		if again, err := chart.ReadIndex(raw); err != nil || again.Digest != x.Digest || again.Complete != x.Complete || len(seen) != x.Len() {
			t.Fatal("read again it is another one")
		}
	})
}

// X16: what is found elsewhere than in an index is one, whose digest is that of all that it says.
func TestAnIndexOfWhatWasFound(t *testing.T) {
	entries := func(digest string, errs ...error) []chart.Entry {
		return []chart.Entry{{Name: "pay"}, {Name: "shop", Versions: []chart.Version{{Name: "shop", Version: "1.0.0", Digest: digest}}, Errs: errs}}
	}
	x := chart.NewIndex(entries("a"))
	seen := map[string]string{}
	for name, other := range map[string]*chart.Index{"same": chart.NewIndex(entries("a")), "digest": chart.NewIndex(entries("b")),
		"error": chart.NewIndex(entries("a", errors.New("x"))), "fewer": chart.NewIndex(entries("a")[1:]), "none": chart.NewIndex(nil)} {
		if was, ok := seen[other.Digest]; ok || (other.Digest == x.Digest) != (name == "same") || !other.Complete {
			t.Errorf("%s has the digest of %q", name, was)
		}
		seen[other.Digest] = name
	}
	at := func(created time.Time, name, version string) string { // S62: times that have no text in JSON, and names that join to one text
		return chart.NewIndex([]chart.Entry{{Name: "shop", Versions: []chart.Version{{Name: name, Version: version, Created: created}}}}).Digest
	}
	for _, when := range []time.Time{{}, time.Unix(0, 0).In(time.FixedZone("far", 25*3600)), time.Unix(1<<60, 0), time.Unix(-1<<60, 0)} {
		one, again := at(when, "a", "b"), at(when, "a", "b")
		if at(when, "a b", "c") == at(when, "a", "b c") || one != again {
			t.Errorf("versions of %d are not told apart", when.Unix())
		}
	}
	for e := range x.Entries(func(name string) bool { return name == "shop" }) {
		if e.Name != "shop" || len(e.Versions) != 1 || x.Len() != 2 {
			t.Errorf("%+v of %d", e, x.Len())
		}
	}
}

func TestWhatAnIndexSaysForPeopleIsReadAsFarAsItGoes(t *testing.T) { // X32
	index, err := chart.ReadIndex([]byte("apiVersion: v1\nentries:\n  shop:\n  - {name: shop, version: 1.0.0, urls: [a], description: Sells, home: [1], " +
		"icon: i, maintainers: [{name: Ann, email: 7}]}\n  - {name: shop, version: 2.0.0, urls: [b], maintainers: nobody}\ngenerated: x\n"))
	if err != nil {
		t.Fatal(err)
	}
	for entry := range index.Entries(func(string) bool { return true }) {
		if len(entry.Versions) != 2 || len(entry.Errs) > 0 {
			t.Fatalf("%+v", entry)
		}
		one, other := entry.Versions[0].About(), entry.Versions[1].About()
		if one.Description != "Sells" || one.Home != "" || one.Icon != "i" || len(one.Maintainers) != 1 || one.Maintainers[0].Name != "Ann" {
			t.Errorf("%+v", one)
		}
		if other.Description != "" || len(other.Maintainers) > 0 {
			t.Errorf("%+v", other)
		}
	}
	if is := (&chart.Version{}).About(); is.Description != "" {
		t.Errorf("%+v", is)
	}
}

func TestWhatIsSaidOfEntriesIsBounded(t *testing.T) {
	bad := []string{"a\n\x00 b\xff"}
	for range 100 {
		bad = append(bad, strings.Repeat("é", 500))
	}
	got := chart.LeftOut(bad)
	if !strings.HasPrefix(got, "101 entries are left out: a") || !utf8.ValidString(got) || strings.Contains(got, "\n") || len(got) > 10*310+50 {
		t.Errorf("%d bytes: %.100q", len(got), got)
	}
	if got := chart.Clip("short", 5); got != "short" {
		t.Errorf("%q", got)
	}
}
