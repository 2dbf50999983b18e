package boundedyaml_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/boundedyaml"
)

// levels is a document whose every line says the one before it n times.
func levels(depth, n int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := 1; i <= depth; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), n), ","))
	}
	return b.String()
}

// bombs are documents of less than 1 MiB that are gigabytes once they are read.
func bombs() map[string]string {
	long, many := strings.Repeat("x", 300<<10), strings.TrimSuffix(strings.Repeat("*a,", 100<<10), ",")
	return map[string]string{
		"a long text, often":               "a: &a " + long + "\nb: [" + many + "]\n",
		"in quotation marks":               `{"a":&a "` + long + `","b":[` + many + "]}",
		"as a block":                       "a: &a |\n  " + long + "\nb: [" + many + "]\n",
		"as bytes":                         "a: &a !!binary " + base64.StdEncoding.EncodeToString([]byte(long)) + "\nb: [" + many + "]\n",
		"as a key":                         "a: &a " + long + "\nb:\n" + strings.Repeat("- {*a : 1}\n", 50<<10),
		"merged":                           "a: &a {k: " + long + "}\nb:\n" + strings.Repeat("- {<<: *a}\n", 50<<10),
		"of few, of few, of few":           levels(12, 10),
		"of two, forty times":              levels(40, 2),
		"with line breaks of another kind": "a:\u2028&a " + long + "\nb:\u2028[" + many + "]\n",
		"in UTF-16":                        utf16("a: &a " + long[:100<<10] + "\nb: [" + many + "]\n"),
	}
}

func utf16(s string) string {
	out := []byte{0xff, 0xfe}
	for _, c := range []byte(s) {
		out = append(out, c, 0)
	}
	return string(out)
}

func TestWhatGrowsIsRefusedBeforeItIsMade(t *testing.T) { // S56
	for name, text := range bombs() {
		for how, read := range map[string]func([]byte) error{
			"Unmarshal":       func(raw []byte) error { return boundedyaml.Unmarshal(raw, new(any)) },
			"UnmarshalStrict": func(raw []byte) error { return boundedyaml.UnmarshalStrict(raw, new(any)) },
			"ToJSON":          func(raw []byte) error { _, err := boundedyaml.ToJSON(raw); return err },
			"ToJSONStrict":    func(raw []byte) error { _, err := boundedyaml.ToJSONStrict(raw); return err },
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := read([]byte(text))
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Errorf("%s, %s: it is read", name, how)
			}
			if made := after.TotalAlloc - before.TotalAlloc; made > 200<<20 {
				t.Errorf("%s, %s: %d MiB were made of %d KiB, and then %v", name, how, made>>20, len(text)>>10, err)
			}
		}
	}
	if err := boundedyaml.Check([]byte("a: &a [*a]\n")); !errors.Is(err, boundedyaml.ErrExpands) {
		t.Errorf("a value that has itself: %v", err)
	}
}

// What the parser refuses by its own count of aliases is said in the same words, and nothing of a document is.
func TestTheCauseIsSaid(t *testing.T) { // S56
	counted := "a: &a [" + strings.Repeat("x,", 300) + "]\nb: [" + strings.Repeat("*a,", 350) + "]\n"
	if err := boundedyaml.Check([]byte(counted)); err != nil {
		t.Fatalf("the parser has nothing to count: %v", err)
	}
	for name, text := range map[string]string{"the parser's count": counted, "the weight": levels(12, 10)} {
		err := boundedyaml.Unmarshal([]byte(text), new(any))
		if !errors.Is(err, boundedyaml.ErrExpands) || !errors.Is(boundedyaml.Why(err, "no list"), boundedyaml.ErrExpands) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := boundedyaml.Unmarshal([]byte("a: [secret"), new(any))
	if errors.Is(err, boundedyaml.ErrExpands) || boundedyaml.Why(err, "no list").Error() != "no list" {
		t.Error(err)
	}
}

func TestWhatDoesNotGrowIsReadAsItIs(t *testing.T) { // S56
	for _, text := range []string{
		"", "a: 1", "a: {b: [1, 2]}", "a & b: c * d", "text: '*a and &a'", "a: &a {b: 1}\nc: *a\n", "base: &base {x: 1, y: z}\nof: {<<: *base, y: w}\n",
		"a: &a " + strings.Repeat("x", 10<<10) + "\nb: [" + strings.TrimSuffix(strings.Repeat("*a,", 20), ",") + "]\n", levels(4, 5),
		"cron: \"*/5 * * * *\"\nurl: http://a/?b&c=*\n", "# *a &a\na: b\n",
	} {
		var want, got any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if err := boundedyaml.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.60q is %v, want %v: %v", text, got, want, err)
		}
		if raw, err := boundedyaml.ToJSON([]byte(text)); err != nil || len(raw) == 0 {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	if err := boundedyaml.UnmarshalStrict([]byte("{a: 1, a: 2}"), new(any)); err == nil {
		t.Error("a key that is there twice is read strictly")
	}
}

// Whatever is read is not much larger than what it was read of: the parser that makes values sees no alias that the check has not seen.
func FuzzWhatIsReadIsBounded(f *testing.F) { // S56
	f.Add("a: &a x\nb: [*a, *a]\n")
	f.Add("a:\u0085&a x\nb:\u2028*a\n")
	f.Add("{\"a\":&a 1,\"b\":*a}")
	f.Add("- &a [x, &b y]\n- *b\n- &b *a\n")
	f.Add("%YAML 1.1\n---\n&a !!binary eA==: *a\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 || strings.Count(text, "x") > 64 {
			return
		}
		// What the document says of long texts is said of short ones, too: each x is one of 4 KiB.
		long := strings.ReplaceAll(text, "x", strings.Repeat("x", 4<<10))
		out, err := boundedyaml.ToJSON([]byte(long))
		if err == nil && len(out) > 2<<20+32*len(long) { // JSON escapes, and writes numbers at length
			t.Errorf("%d bytes are %d", len(long), len(out))
		}
	})
}
