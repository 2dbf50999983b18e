package web_test

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/web"
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
			if got := web.HasTag(http.Header{"If-None-Match": c.list}, tag); got != c.want {
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
		web.HasTag(http.Header{"If-None-Match": {list}}, `W/"abc"`) // neither panics nor hangs
		if !web.HasTag(http.Header{"If-None-Match": {`"x", W/"abc", ` + list}}, `W/"abc"`) {
			t.Errorf("what follows a tag hides it: %q", list)
		}
	})
}
