package rawjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

const maxDepth = 10_000 + 16 // levels of nesting that Valid accepts

const pod = `{"kind":"Pod","metadata":{"name":"a","labels":{"x\"y":"1"},"managedFields":[{"a":1}],` +
	`"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","k":"v"}},` +
	`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"n":null}}`

func TestGetFindsWhatLiesAtAPath(t *testing.T) {
	for _, c := range []struct {
		path []string
		want string
	}{
		{nil, pod},
		{[]string{"kind"}, `"Pod"`},
		{[]string{"metadata", "labels", `x"y`}, `"1"`},
		{[]string{"status", "conditions", "0", "type"}, `"Ready"`},
		{[]string{"status", "conditions", "1"}, ""},
		{[]string{"status", "conditions", "-1"}, ""},
		{[]string{"status", "conditions", "type"}, ""},
		{[]string{"status", "n"}, "null"},
		{[]string{"status", "phase", "x"}, ""},
		{[]string{"nothing"}, ""},
	} {
		if got := rawjson.Get(pod, c.path...); got != c.want {
			t.Errorf("Get(%q) = %s, want %s", c.path, got, c.want)
		}
	}
}

func TestTextOfScalars(t *testing.T) {
	for in, want := range map[string]string{
		`"a"`: "a", `""`: "", `"a\"\u00e9\/"`: `a"é/`, `12.5`: "12.5", `true`: "true", `null`: "", `{"a":1}`: `{"a":1}`, "": "",
	} {
		if got := rawjson.Text(in); got != want {
			t.Errorf("Text(%s) = %q, want %q", in, got, want)
		}
	}
}

func TestBrokenObjectsSayErr(t *testing.T) {
	for _, in := range []string{"", "[]", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":01}`} {
		m := rawjson.Object(in)
		for m.Next() {
			continue
		}
		if m.Err() == nil {
			t.Errorf("%s: no error", in)
		}
	}
}

func TestEmptyObjectHasNoMembersAndNoError(t *testing.T) {
	m := rawjson.Object(" { } ")
	for range 2 { // the end is the end
		if m.Next() || m.Err() != nil {
			t.Error("an empty object has members, or an error")
		}
	}
}

var standard = rawjson.Cuts([]string{"metadata", "managedFields"},
	[]string{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"}, []string{"data"})

func TestAppendWithoutCutsExactlyWhatIsNamed(t *testing.T) {
	for _, c := range []struct{ name, in, front, want string }{
		{"Nested", pod, "", `{"kind":"Pod","metadata":{"name":"a","labels":{"x\"y":"1"},"annotations":{"k":"v"}},` +
			`"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}],"n":null}}`},
		{"First", `{"data":{"a":"b"},"type":"x"}`, "", `{"type":"x"}`},
		{"Last", `{"type":"x","data":{"a":"b"}}`, "", `{"type":"x"}`},
		{"Only", `{"data":1}`, "", `{}`},
		{"Front", `{"data":1}`, `"kind":"A"`, `{"kind":"A"}`},
		{"FrontAndMore", `{"b":1}`, `"kind":"A"`, `{"kind":"A","b":1}`},
		{"EscapedNameIsTheSameName", `{"dat\u0061":"secret"}`, "", `{}`},
		{"CutOfAScalarParentKeepsIt", `{"metadata":null}`, "", `{"metadata":null}`},
		{"SpaceAround", " {\n\"a\" : 1 , \"data\" : 2 }\n", "", `{"a" : 1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := rawjson.AppendWithout(nil, c.in, c.front, standard)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestWiderCutWins(t *testing.T) {
	for _, c := range []rawjson.Cut{rawjson.Cuts([]string{"a"}, []string{"a", "b"}), rawjson.Cuts([]string{"a", "b"}, []string{"a"})} {
		if got, _ := rawjson.AppendWithout(nil, `{"a":{"b":1,"c":2}}`, "", c); string(got) != "{}" {
			t.Errorf("got %s", got)
		}
	}
}

// nested is a value in n arrays or objects.
func nested(n int, open, shut string) string {
	return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n)
}

// whole reports whether a walk over an object finds it valid.
func whole(s string, depth int) bool {
	m := rawjson.ObjectWithin(s, depth)
	for m.Next() { //nolint:revive // Next does it
	}
	return m.Whole()
}

// walkByName fails unless a walk that reads arrays of objects element by element finds what one that reads values does.
func walkByName(t *testing.T, s string) {
	t.Helper()
	m := rawjson.ObjectWithin(s, maxDepth)
	for m.NextName() {
		by, found := m, []string{}
		is := by.IsArray() && by.Objects(func(o *rawjson.Members) {
			if o.Text() != "" {
				t.Errorf("%q has a text before its end", o.Text())
			}
			for o.Next() { //nolint:revive // Next does it
			}
			found = append(found, o.Text())
		})
		valid, want, objects := m.Read(), []string{}, true
		for all := rawjson.Array(m.Value); all.Next(); {
			want = append(want, all.Value)
			objects = objects && all.Value[0] == '{'
		}
		if array := valid && m.IsArray() && objects; is != array || is && (by.Value != m.Value || !slices.Equal(found, want)) {
			t.Errorf("%q has the objects %q: %v, and is %q, with %q", s, found, is, m.Value, want)
		}
	}
	if m.Whole() != whole(s, maxDepth) {
		t.Errorf("a walk by names over %q finds it whole: %v", s, m.Whole())
	}
}

func TestAnArrayOfObjectsIsWalkedAsItIsRead(t *testing.T) {
	for _, s := range []string{`{}`, `{"a":[]}`, `{"a":[{}],"b":1}`, `{"a" : [ {"b":[{}]} , {"c":"\\"} ] , "d" : {} } `, `{"a":[1]}`, `{"a":[{},1]}`,
		`{"a":[{},]}`, `{"a":[{}`, `{"a":[{}]`, `{"a":[{"b"}]}`, `{"a":{}}`, `{"a":"["}`, `[{}]`, `{"a":[{}]}x`, `{"a":[{} {}]}`, pod} {
		walkByName(t, s)
	}
}

func TestDepthIsBounded(t *testing.T) {
	for _, b := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		for _, c := range []struct {
			n, depth int
			want     bool
		}{
			{100_000, 1_000_000, false}, {10_000, 10_000, true}, {10_001, 10_000, false}, {512, 512, true}, {513, 512, false}, {0, 0, true}, {1, 0, false},
		} {
			if got := rawjson.Valid(nested(c.n, b[0], b[1]), c.depth); got != c.want {
				t.Errorf("a value in %d of %s, where %d may be: %v", c.n, b, c.depth, got)
			}
			if got := whole(nested(c.n, b[0], b[1]), c.depth); b[0] != "[" && c.n > 0 && got != c.want {
				t.Errorf("a walk over a value in %d of %s, where %d may be: %v", c.n, b, c.depth, got)
			}
		}
	}
}

// kube-apiserver accepts objects that are nested 10000 deep: each of them can be read, in a list or an event too.
func TestObjectsAsDeepAsKubeAPIServerTakesThemAreRead(t *testing.T) {
	object := `{"metadata":{"name":"deep"},"spec":` + nested(9_999, `{"a":`, "}") + `}`
	if err := json.Unmarshal([]byte(object), new(any)); err != nil {
		t.Fatal("this is more than kube-apiserver takes:", err)
	}
	if json.Unmarshal([]byte("["+object+"]"), new(any)) == nil {
		t.Fatal("this is less than kube-apiserver takes")
	}
	if got, err := rawjson.AppendWithout(nil, object, "", standard); err != nil || string(got) != object {
		t.Errorf("%d of %d bytes, %v", len(got), len(object), err)
	}
	list := `{"object":{"kind":"Table","rows":[{"object":` + object + `}]},"z":1}`
	if got := rawjson.Get(list, "object", "rows", "0", "object"); got != object || rawjson.Get(list, "z") != "1" {
		t.Errorf("%d of %d bytes", len(got), len(object))
	}
}

func FuzzValidAgreesWithEncodingJSON(f *testing.F) {
	for _, s := range []string{pod, "", "1", "-0.5e+3", "01", `"\u12"`, "[1,[2,{}]]", "{\"a\":\x01}", "nul", `{"a":1}x`, "\"\xff\""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) < maxDepth && rawjson.Valid(s, maxDepth) != json.Valid([]byte(s)) {
			t.Errorf("Valid(%q) = %v", s, !json.Valid([]byte(s)))
		}
		if object := strings.HasPrefix(strings.TrimLeft(s, " \n\t\r"), "{"); len(s) < maxDepth && whole(s, maxDepth) != (object && json.Valid([]byte(s))) {
			t.Errorf("a walk over %q finds it whole: %v", s, whole(s, maxDepth))
		}
		walkByName(t, s)
	})
}

// Cutting twice is cutting once (U13), the cut members are gone, and the rest means what it meant.
func FuzzCutIsIdempotentAndCutsNothingElse(f *testing.F) {
	f.Add(pod)
	f.Add(`{"data":{"a":1},"data":2,"metadata":{"managedFields":[]}}`)
	f.Add(` { "a" : { } } `)
	f.Fuzz(func(t *testing.T, s string) {
		once, err := rawjson.AppendWithout(nil, s, "", standard)
		if err != nil {
			if len(s) < maxDepth && json.Valid([]byte(s)) && strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") {
				t.Fatalf("a valid object was refused: %q", s)
			}
			return
		}
		twice, err := rawjson.AppendWithout(nil, string(once), "", standard)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%q -> %q -> %q, %v", s, once, twice, err)
		}
		var before, after map[string]any
		if json.Unmarshal([]byte(s), &before) != nil {
			return // numbers out of range, say
		}
		if err := json.Unmarshal(once, &after); err != nil {
			t.Fatalf("%q -> %q: %v", s, once, err)
		}
		delete(before, "data")
		if bytes.Count([]byte(s), []byte(`"metadata"`)) <= 1 {
			if m, ok := before["metadata"].(map[string]any); ok {
				delete(m, "managedFields")
				if a, ok := m["annotations"].(map[string]any); ok {
					delete(a, "kubectl.kubernetes.io/last-applied-configuration")
				}
			}
			if !reflect.DeepEqual(before, after) && !strings.Contains(s, `\u`) && !duplicated(s) {
				t.Fatalf("%q -> %q", s, once)
			}
		}
	})
}

// duplicated reports whether s may name a member twice: encoding/json merges such members.
func duplicated(s string) bool { return strings.Count(s, ":") > 1 }

func TestReaderReadsValuesHoweverTheyArrive(t *testing.T) {
	stream := pod + "\n" + `{"a":"}\"]"}` + "  [1,[2]]\n\"x\\\"y\" 12 true"
	want := []string{pod, `{"a":"}\"]"}`, `[1,[2]]`, `"x\"y"`, "12", "true"}
	for name, in := range map[string]io.Reader{
		"AtOnce": strings.NewReader(stream), "ByteByByte": iotest.OneByteReader(strings.NewReader(stream)),
		"EOFWithData": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			r := rawjson.NewReader(in, 1<<20)
			for _, w := range want {
				if got, err := r.Value(); err != nil || got != w {
					t.Fatalf("got %q, %v, want %q", got, err, w)
				}
			}
			if _, err := r.Value(); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

func TestReaderRefuses(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     error
	}{
		{"HalfAnObject", `{"a":`, io.ErrUnexpectedEOF},
		{"HalfAString", `"a`, io.ErrUnexpectedEOF},
		{"AClosingBracket", `}`, rawjson.ErrSyntax},
		{"MoreThanItsLimit", `{"a":"` + strings.Repeat("x", 200) + `"}`, rawjson.ErrTooLong},
		{"ALongString", `"` + strings.Repeat("x", 200) + `"`, rawjson.ErrTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := rawjson.NewReader(strings.NewReader(c.in), 100).Value(); !errors.Is(err, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func FuzzReaderFindsTheValue(f *testing.F) {
	f.Add(pod)
	f.Add(`[1,"]"]`)
	f.Add("12")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := rawjson.NewReader(strings.NewReader(s+" {}"), 1<<20).Value()
		if json.Valid([]byte(s)) && (err != nil || got != strings.Trim(s, " \t\r\n")) {
			t.Errorf("%q: got %q, %v", s, got, err)
		}
	})
}
