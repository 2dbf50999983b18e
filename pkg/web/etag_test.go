package httpcache

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/store/index"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// RFC 9110, 13.1.2 and 8.8.3.
func TestIfNoneMatch(t *testing.T) {
	const tag = `W/"abc"`
	for _, c := range []struct {
		name string
		list []string
		want bool
	}{
		{"None", nil, false},
		{"Same", []string{`W/"abc"`}, true},
		{"StrongIsComparedWeakly", []string{`"abc"`}, true},
		{"Other", []string{`W/"abd"`}, false},
		{"Any", []string{`*`}, true},
		{"AnyAmongSpaces", []string{` * `}, true},
		{"InAList", []string{`"x", W/"y" ,W/"abc","z"`}, true},
		{"InAnotherLine", []string{`"x"`, `"abc"`}, true},
		{"CommaInATag", []string{`"x,W/", "abc"`}, true},
		{"InsideOfAnother", []string{`"xabc"`}, false},
		{"NoQuotes", []string{`abc`}, false},
		{"NoEnd", []string{`"abc`}, false},
		{"NoEndBehindAnother", []string{`"x", W/`}, false},
		{"LowerCaseMarkIsNone", []string{`w/"abc"`}, false},
		{"Empty", []string{""}, false},
		{"Commas", []string{",,,"}, false},
		{"EmptyTag", []string{`""`}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := matchesTag(http.Header{"If-None-Match": c.list}, tag); got != c.want {
				t.Errorf("%q: %v", c.list, got)
			}
		})
	}
}

func FuzzIfNoneMatch(f *testing.F) {
	for _, s := range []string{`*`, `W/"abc"`, `"a", "b`, `W/`, `"`, `,"",`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		matchesTag(http.Header{"If-None-Match": {list}}, `W/"abc"`) // neither panics nor hangs
		if !matchesTag(http.Header{"If-None-Match": {`"x", W/"abc", ` + list}}, `W/"abc"`) {
			t.Errorf("what follows a tag hides it: %q", list)
		}
	})
}

func TestTagsDifferWhereAnyPartDoes(t *testing.T) {
	seen := map[string]bool{}
	for _, parts := range [][]string{{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a"}, {"a", "b", ""}, {"a", "c"}} {
		tag := Tag(parts...)
		if len(tag) != 28 || seen[tag] || tag != Tag(parts...) {
			t.Errorf("%q: %s", parts, tag)
		}
		seen[tag] = true
	}
}

func TestDigestIsThatOfTheVersionsInTheirOrder(t *testing.T) {
	record := func(uid, version, json string) *index.Record {
		return &index.Record{JSON: textOf(t, json), UID: uid, ResourceVersion: version}
	}
	a, b := record("a", "1", "x"), record("b", "2", "yy")
	of := func(r ...*index.Record) Digest {
		d, _ := DigestOf(r)
		return d
	}
	if of(a, b) == of(b, a) || of(a) == of(a, b) || of(a) == of(record("a", "2", "x")) || of(nil...) == of(a) {
		t.Error("different pages have one digest")
	}
	if of(record("a", "1", "x,y")) != of(record("a", "1", "y,x")) {
		t.Error("the same version has another digest where the order of its fields differs")
	}
	if of(a) == of(record("a", "1", "x and data")) {
		t.Error("an object with its data has the digest of that without")
	}
	if of(record("", "1", "x")) == of(record("", "1", "y")) {
		t.Error("objects without a UID are told by nothing")
	}
	var many []*index.Record
	for range 1000 {
		many = append(many, a, b)
	}
	if _, n := DigestOf(many); n != 3000 || of(many...) == of(many[2:]...) {
		t.Errorf("%d bytes", n)
	}
}

// textOf is the text of an object of a kind without hidden fields.
func textOf(t testing.TB, text string) redaction.Shown {
	t.Helper()
	shown, err := redaction.Received(text).Shown(schema.GroupResource{Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}
