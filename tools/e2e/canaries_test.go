package e2e

import (
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/chart/charttest"
)

// canaryMark is in every value that is planted. It has neither a character that JSON escapes nor one that base64 makes + or / of.
const canaryMark = "Kq7Zr4Canary"

// canaries are values that only some may see. Each has a class, which says what it is and whose; one class may have many values.
type canaries struct {
	mu     sync.Mutex
	values map[string]string // the class of each planted value
	exact  map[string]string // the class of values that were not planted but found: hashes, tokens, keys
	marks  []string          // in which a planted value shows itself, encoded up to twice
}

func newCanaries() *canaries {
	c := &canaries{values: map[string]string{}, exact: map[string]string{}, marks: []string{canaryMark, hex.EncodeToString([]byte(canaryMark))}}
	for _, once := range inBase64(canaryMark) {
		c.marks = append(c.marks, once)
		c.marks = append(c.marks, inBase64(once)...)
	}
	return c
}

// inBase64 returns what of a text is in the base64 of everything that has it: one form for each of the three offsets.
func inBase64(s string) []string {
	var out []string
	for offset := range 3 {
		all := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + s))
		first, last := (offset*8+5)/6, (offset+len(s))*8/6 // the first and the last character may depend on what is next to it
		out = append(out, all[first:last])
	}
	return out
}

// plant returns a new value of a class. It may be a password.
func (c *canaries) plant(class string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	value := canaryMark + strings.ToLower(rand.Text()[:10])
	c.values[value] = class
	return value
}

// known adds a value that the platform has made. Short ones would be found where they are not.
func (c *canaries) known(class, value string) {
	if len(value) < 16 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exact[value] = class
}

// classes returns whose values are in a text.
func (c *canaries) classes(text string) []string {
	text += unpack(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	if slices.ContainsFunc(c.marks, func(mark string) bool { return strings.Contains(text, mark) }) {
		for value, class := range c.values {
			if !slices.Contains(out, class) && c.shows(text, value) {
				out = append(out, class)
			}
		}
		if out == nil {
			out = []string{"a part of a canary"}
		}
	}
	for value, class := range c.exact {
		if !slices.Contains(out, class) && strings.Contains(text, value) {
			out = append(out, class)
		}
	}
	for _, hash := range []string{"$2a$", "$2b$", "$2y$"} {
		if strings.Contains(text, hash) {
			out = append(out, "hidden.bcrypt")
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// shows tells whether a planted value is in a text, as it is or encoded.
func (*canaries) shows(text, value string) bool {
	if strings.Contains(text, value) || strings.Contains(text, hex.EncodeToString([]byte(value))) {
		return true
	}
	for _, once := range inBase64(value) {
		if strings.Contains(text, once) || slices.ContainsFunc(inBase64(once), func(twice string) bool { return strings.Contains(text, twice) }) {
			return true
		}
	}
	return false
}

// unpacked is the body of an answer, as it was before it was compressed.
func unpacked(t *testing.T, r reply) string {
	t.Helper()
	if r.header.Get("Content-Encoding") != "gzip" || r.body == "" {
		return r.body
	}
	z, err := gzip.NewReader(strings.NewReader(r.body))
	if err != nil {
		t.Errorf("an answer that says it is compressed: %v", err)
		return r.body
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Errorf("a compressed answer: %v", err)
	}
	return string(raw)
}

// A search that finds nothing says something only where it would find what is there.
func TestCanariesAreFoundInEveryForm(t *testing.T) {
	c := newCanaries()
	value := c.plant("planted")
	c.known("known", "eyJhbGciOiJSUzI1NiJ9.x.y")
	b64 := base64.StdEncoding.EncodeToString
	for name, text := range map[string]string{
		"Plain": `{"a":"` + value + `"}`, "Base64": b64([]byte(value)), "Base64WithOneBefore": b64([]byte("a" + value + "b")),
		"Base64WithTwoBefore": b64([]byte("ab" + value)),
		"Twice":               b64([]byte("token: " + b64([]byte("key: "+value+"\n")))), "URL": base64.RawURLEncoding.EncodeToString([]byte("x" + value + "yz")),
		"Hex":     hex.EncodeToString([]byte(value)),
		"Binary":  "\x00\x0c" + value + "\x1a",
		"Package": "\x00" + string(charttest.Pack(t, "x", map[string]string{"y": value})) + "\x1a", "PackageInBase64": b64(charttest.Pack(t, "x",
			map[string]string{"y": value})),
		"Record": `{"release":"` + b64([]byte(b64(charttest.Pack(t, "x", map[string]string{"y": value})))) + `"}`,
	} {
		if got := c.classes(text); !slices.Equal(got, []string{"planted"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := c.classes("Authorization: eyJhbGciOiJSUzI1NiJ9.x.y"); !slices.Equal(got, []string{"known"}) {
		t.Errorf("a known value: %v", got)
	}
	if got := c.classes(canaryMark); len(got) != 1 {
		t.Errorf("a part: %v", got)
	}
	if got := c.classes("nothing " + b64([]byte("at all"))); got != nil {
		t.Errorf("nothing: %v", got)
	}
}
