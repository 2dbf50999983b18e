package projection_test

import (
	"encoding/json"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/resource/projection"
)

func pathsOf(t testing.TB, list string) []query.Path {
	t.Helper()
	var out []query.Path
	for one := range strings.SplitSeq(list, ",") {
		p, err := query.ParsePath(one)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestProjectionShowsWhatIsAskedForWhereItStands(t *testing.T) {
	const object = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"a.b/c":"1","d":"2"}},` +
		`"spec":{"containers":[{"name":"x","image":"i","ports":[{"port":1,"name":"h"},{"port":2}]},{"name":"y","tty":true}],"args":["one","two"],"matrix":[[{"v":1,"w":2}],[{"v":3}]],"empty":{},"none":null},` +
		`"status":{"phase":"Running","0":"zero"}}`
	const always = `{"kind":"Pod","apiVersion":"v1"`
	for fields, want := range map[string]string{
		".metadata.name":                                  `,"metadata":{"name":"p"}}`,
		".status.phase,.metadata.name":                    `,"metadata":{"name":"p"},"status":{"phase":"Running"}}`,
		".metadata":                                       `,"metadata":{"name":"p","labels":{"a.b/c":"1","d":"2"}}}`,
		".metadata,.metadata.name":                        `,"metadata":{"name":"p","labels":{"a.b/c":"1","d":"2"}}}`,
		".metadata.labels['a.b/c']":                       `,"metadata":{"labels":{"a.b/c":"1"}}}`,
		".absent,.metadata.absent,.spec.args.x":           `}`,
		".spec.containers.name":                           `,"spec":{"containers":[{"name":"x"},{"name":"y"}]}}`,
		".spec.containers.image":                          `,"spec":{"containers":[{"image":"i"}]}}`,
		".spec.containers[1].name":                        `,"spec":{"containers":[{"name":"y"}]}}`,
		".spec.containers[1]":                             `,"spec":{"containers":[{"name":"y","tty":true}]}}`,
		".spec.containers[0].image,.spec.containers.name": `,"spec":{"containers":[{"name":"x","image":"i"},{"name":"y"}]}}`,
		".spec.containers.ports[1].port":                  `,"spec":{"containers":[{"ports":[{"port":2}]}]}}`,
		".spec.containers.ports.port":                     `,"spec":{"containers":[{"ports":[{"port":1},{"port":2}]}]}}`,
		".spec.args[1]":                                   `,"spec":{"args":["two"]}}`,
		".spec.args[7]":                                   `}`,
		".spec.matrix.v":                                  `,"spec":{"matrix":[[{"v":1}],[{"v":3}]]}}`,
		".spec.matrix[1].v":                               `,"spec":{"matrix":[[{"v":3}]]}}`,
		".spec.empty,.spec.none":                          `,"spec":{"empty":{},"none":null}}`,
		".spec.empty.x,.spec.none.x":                      `}`,
		".status['0']":                                    `,"status":{"0":"zero"}}`,
		".kind":                                           `}`,
	} {
		got := project(object, pathsOf(t, fields))
		if got != always+want {
			t.Errorf("%s:\ngot  %s\nwant %s", fields, got, always+want)
		}
	}
	if got := project(`{"a\"\u0062":{"x":1}}`, []query.Path{{`a"b`, "x"}}); got != `{"a\"b":{"x":1}}` {
		t.Error(got)
	}
	if got := project(`[]`, []query.Path{{"a"}}); got != `{}` {
		t.Error(got)
	}
	if project(object, nil) != object {
		t.Error("without fields, an object is not whole")
	}
}

func TestProjectionKeysAreEqualForEqualFields(t *testing.T) {
	key := func(list string) string { return projection.New(pathsOf(t, list)).Key }
	if key(".a.b,.c") != key("c,{.a.b},.c") || key(".a.b") == key(".a,.b") || key(".a['b.c']") == key(".a.b.c") {
		t.Error("keys differ, or do not")
	}
}

// model cuts a decoded value as the documentation of projection says.
func cut(v any, paths []query.Path) (any, bool) {
	for _, p := range paths {
		if len(p) == 0 {
			return v, true
		}
	}
	step := func(ok func(string) bool) (below []query.Path) {
		for _, p := range paths {
			if ok(p[0]) {
				below = append(below, p[1:])
			}
		}
		return below
	}
	number := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, m := range v {
			if got, ok := cut(m, step(func(s string) bool { return s == k })); ok {
				out[k] = got
			}
		}
		return out, len(out) > 0
	case []any:
		var out []any
		for i, e := range v {
			text, _ := json.Marshal(i)
			below := step(func(s string) bool { return s == string(text) })
			for _, p := range paths {
				if !number(p[0]) {
					below = append(below, p)
				}
			}
			if got, ok := cut(e, below); ok {
				out = append(out, got)
			}
		}
		return out, len(out) > 0
	}
	return nil, false
}

func FuzzProjectionIsThatOfTheModel(f *testing.F) {
	f.Add(`{"a":{"b":[{"c":1,"d":[1,2]},{"c":null}]},"kind":"K"}`, "a.b.c")
	f.Add(`{"a":[[{"b":1}],2,{"0":3}]}`, "a[0].b,a.0,['']")
	f.Add(`{"a":{"\u0061":"x","a":"y"}}`, "a.a")
	f.Fuzz(func(t *testing.T, object, list string) {
		var paths []query.Path
		for one := range strings.SplitSeq(list, ",") {
			if p, err := query.ParsePath(one); err == nil && len(paths) < 8 {
				paths = append(paths, p)
			}
		}
		var whole map[string]any
		if len(paths) == 0 || json.Unmarshal([]byte(object), &whole) != nil || whole == nil || repeats(object) {
			return
		}
		want, ok := cut(whole, append([]query.Path{{"kind"}, {"apiVersion"}}, paths...))
		if !ok {
			want = map[string]any{}
		}
		var got any
		text := project(object, paths)
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Errorf("%s of %s:\ngot  %s\nwant %s", list, object, a, b)
		}
	})
}

// repeats reports whether an object may have a member twice, or bytes that are no text: decoders differ there.
func repeats(object string) bool {
	var v any
	if json.Unmarshal([]byte(object), &v) != nil {
		return true
	}
	a, _ := json.Marshal(v)
	return strings.Count(string(a), ":") != strings.Count(object, ":") || strings.Contains(string(a), `\ufffd`) || strings.Contains(string(a), "\ufffd")
}

// project returns what paths name of an object.
func project(json string, paths []query.Path) string {
	p := projection.New(paths)
	if p == nil {
		return json
	}
	return string(p.Append(nil, json))
}
