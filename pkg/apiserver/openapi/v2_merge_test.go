package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
)

func TestSplice(t *testing.T) {
	add := []members{{"paths", []byte(`"/own":{}`)}, {"definitions", []byte(`"own":{"a":[1,"}"]}`)}}
	for name, c := range map[string]struct{ in, want string }{
		"Both":    {`{"paths":{"/a":{}},"definitions":{"d":{}}}`, `{"paths":{"/own":{},"/a":{}},"definitions":{"own":{"a":[1,"}"]},"d":{}}}`},
		"Empty":   {`{ "paths" : { } ,"definitions":{}}`, `{ "paths" : {"/own":{} } ,"definitions":{"own":{"a":[1,"}"]}}}`},
		"Missing": {`{"swagger":"2.0"}`, `{"paths":{"/own":{}},"definitions":{"own":{"a":[1,"}"]}},"swagger":"2.0"}`},
		"Nothing": {`{}`, `{"paths":{"/own":{}},"definitions":{"own":{"a":[1,"}"]}}}`},
		"Deeper": {`{"x":{"paths":{"\"}":1}},"y":"{\\","z":[{"definitions":{}}],"paths":{},"definitions":{}}`,
			`{"x":{"paths":{"\"}":1}},"y":"{\\","z":[{"definitions":{}}],"paths":{"/own":{}},"definitions":{"own":{"a":[1,"}"]}}}`},
		"OtherTypes": {`{"n":1,"t":true,"z":null,"paths":{},"definitions":{}}`, `{"n":1,"t":true,"z":null,"paths":{"/own":{}},"definitions":{"own":{"a":[1,"}"]}}}`},
		"Twice": {`{"paths":{"/a":{"/own":1}, "/own" : {"x":[2]}},"definitions":{"own":{}}}`,
			`{"paths":{"/a":{"/own":1}, "/own" : {"x":[2]}},"definitions":{"own":{}}}`},
		"OneOfTwo": {`{"paths":{},"definitions":{},"parameters":{"b":{}}}`,
			`{"paths":{"/own":{}},"definitions":{"own":{"a":[1,"}"]}},"parameters":{"a":{"b":0},"c":1,"b":{}}}`},
	} {
		add := add
		if name == "OneOfTwo" {
			add = append(slices.Clone(add), members{"parameters", []byte(`"a":{"b":0},"b":{"c":0},"c":1`)})
		}
		got, err := splice([]byte(c.in), add)
		if err != nil || string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s:\n got %s %v\nwant %s", name, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "[]", "null", `{"a"`, `{"a":`, `{`, `{"a" 1}`} {
		if out, err := splice([]byte(bad), add); err == nil && json.Valid(out) {
			t.Errorf("%q becomes %s", bad, out)
		}
	}
}

func FuzzSpliceKeepsWhatWasThere(f *testing.F) {
	for _, s := range []string{`{}`, `{"paths":{"/a":1},"x":[{"paths":{}}]}`, `{"paths":3}`, `{"a":"\\\"{"}`, `{"paths":{}, "paths":{"b":1}}`,
		"{\n\"definitions\"\t:\r{\"a\":{}}}"} {
		f.Add(s)
	}
	add := []members{{"paths", []byte(`"/own":1`)}, {"definitions", []byte(`"own":2`)}}
	f.Fuzz(func(t *testing.T, s string) {
		out, err := splice([]byte(s), add)
		var before map[string]json.RawMessage
		if json.Unmarshal([]byte(s), &before) != nil || before == nil {
			return // not valid input; that it returns is enough
		}
		if err != nil || !json.Valid(out) {
			t.Fatalf("%q becomes %q: %v", s, out, err)
		}
		var after map[string]json.RawMessage
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatal(err)
		}
		for k, v := range before {
			if k != "paths" && k != "definitions" && !bytes.Equal(v, after[k]) {
				t.Fatalf("%q: member %q becomes %s", s, k, after[k])
			}
		}
	})
}
