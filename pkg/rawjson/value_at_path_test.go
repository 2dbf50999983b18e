package rawjson_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

func TestSpanFindsWhereAValueStands(t *testing.T) {
	const s = ` { "a" : {"b":1, "c" : [ {"b":2} ] } , "b":{"b" : "x"}}`
	for _, c := range []struct {
		want string
		ok   bool
		path []string
	}{
		{"1", true, []string{"a", "b"}},
		{`"x"`, true, []string{"b", "b"}},
		{`{"b" : "x"}`, true, []string{"b"}},
		{s, true, nil},
		{"", false, []string{"c"}},
		{"", false, []string{"a", "c", "0"}},
		{"", false, []string{"a", "b", "c"}},
	} {
		start, end, ok := rawjson.Span(s, c.path...)
		if ok != c.ok || s[start:end] != c.want {
			t.Errorf("%v: %q %v", c.path, s[start:end], ok)
		}
	}
}

func FuzzSpanIsGet(f *testing.F) {
	f.Add(`{"metadata":{"resourceVersion":"5","labels":{"resourceVersion":"6"}}}`)
	f.Add(`{"metadata":{"a":"\\"resourceVersion\\":\\"5\\""},"x":1}`)
	f.Add(`{"metadata":[]}`)
	f.Fuzz(func(t *testing.T, s string) {
		start, end, ok := rawjson.Span(s, "metadata", "resourceVersion")
		want := ""
		if m := rawjson.Get(s, "metadata"); m != "" && m[0] == '{' {
			want = rawjson.Get(m, "resourceVersion")
		}
		if s[start:end] != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", s, s[start:end], ok, want)
		}
	})
}
