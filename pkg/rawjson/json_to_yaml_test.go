package rawjson_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

func TestYAMLIsReadable(t *testing.T) {
	const document = `{"kind":"List","items":[{"metadata":{"name":"a","labels":{"app.kubernetes.io/name":"web"}},"ports":[80,[],{}],"on":"yes"},[]],"text":"two\nlines","no":null}`
	const want = `kind: List
items:
  - metadata:
      name: a
      labels:
        app.kubernetes.io/name: web
    ports:
      - 80
      - []
      - {}
    "on": "yes"
  - []
text: "two\nlines"
"no": null
`
	got, err := rawjson.YAML([]byte(document), len(want))
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestWhatIsNoJSONIsNoYAML(t *testing.T) {
	for _, text := range []string{"", "{", `{"a":1`, `{"a":1}}`, `{"a":1} {"b":2}`, "x", `{"a" 1}`} {
		if got, err := rawjson.YAML([]byte(text), 1<<10); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
}

// A deep document is short in JSON and long in YAML: no more is written of it than the limit and a line.
func TestYAMLIsBounded(t *testing.T) {
	deep := func(levels int, inner string) string {
		return strings.Repeat(`{"a":`, levels) + inner + strings.Repeat("}", levels)
	}
	for name, tc := range map[string]struct {
		document string
		limit    int
		fits     bool
	}{
		"Fits":             {`{"a":[1]}`, len("a:\n  - 1\n"), true},
		"OneByteTooLong":   {`{"a":[1]}`, len("a:\n  - 1\n") - 1, false},
		"Empty":            {`[]`, 1, false},
		"ManyBelowOneDeep": {deep(2000, "["+strings.Repeat("1,", 20_000)+"1]"), 4 << 20, false},
		"ManyEmpty":        {deep(2000, "["+strings.Repeat("[],", 20_000)+"1]"), 4 << 20, false},
		"TooDeep":          {strings.Repeat("[", 1<<20), 64 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := rawjson.YAML([]byte(tc.document), tc.limit)
			if tc.fits != (err == nil) || !tc.fits && !errors.Is(err, rawjson.ErrLongYAML) {
				t.Errorf("got %d bytes, %v", len(text), err)
			}
		})
	}
}

// Whatever a document says in JSON, it says in YAML.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2,3.5,1e3,true,null,"x",{"b":[]}]}`, `[[[]],[{}],{"a":{"b":{"c":[{"d":"e"}]}}}]`, `"no"`, `12345678901234567890`, `{"":""}`,
		`{"a":"\u0000\u0007\u007f\u0085\u2028\ufeff","~":"~","-":"- x","0":"0x1","2026-01-01":"2026-01-01",":":": "}`, `{"Y":"NULL","a b":"#","é":"\ud83d\ude00"}`,
		`{"a":" b ","b":"|","c":">\n x","d":"%","e":"@","f":"` + "`" + `","g":"\t"}`, `{".inf":".nan","<<":"<<","=":"=","1_000":"1_000","0b1":"0o7"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		var want any
		if err := yaml.Unmarshal([]byte(document), &want); err != nil || !json.Valid([]byte(document)) {
			return
		}
		text, err := rawjson.YAML([]byte(document), 1<<20)
		if errors.Is(err, rawjson.ErrLongYAML) {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", document, err)
		}
		var got any
		if err := yaml.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %q: got %#v, %v; want %#v", document, text, got, err, want)
		}
	})
}
