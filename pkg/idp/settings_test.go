package idp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

const (
	maxSettings = 256 << 10 // bytes that a provider's settings may have
	maxGroup    = 253       // bytes that the name of a group may have
)

type sample struct {
	Name   string     `json:"name"`
	Key    idp.Secret `json:"key"`
	On     bool       `json:"enabled"`
	Number int        `json:"number"`
	Scopes []string   `json:"scopes"`
	Inner  struct {
		URL    string     `json:"url"`
		Secret idp.Secret `json:"secret"`
	} `json:"inner"`
}

func TestSettingsAreReadStrictly(t *testing.T) { // U32, U33
	for text, names := range map[string]string{
		"nam: x":                           `"nam"`,
		"Name: x":                          `"Name"`,
		"inner: {url: a, scopes: [a]}":     `"inner.scopes"`,
		"a: 1\nb: 2":                       `"a", "b"`,
		"name: a\nname: b":                 `"name" is there twice`,
		`{"name":"a","name":"b"}`:          `"name"`,
		"scopes: canary":                   `"scopes" holds what reads as string, where it has to be a list`,
		"scopes: {canary: canary}":         `"scopes"`,
		"name: 123456":                     `"name" holds what reads as number, where it has to be text; quote it`,
		"number: canary":                   `"number"`,
		"number: 1.5":                      `"number"`,
		"enabled: canary":                  `"enabled"`,
		"inner: canary":                    `"inner"`,
		"key: 123456":                      `"key" holds what reads as number`,
		"key: [canary]":                    `"key" holds what reads as array`,
		"inner: {secret: {canary: 1}}":     `"inner.secret" holds what reads as object`,
		"key: true":                        `"key" holds what reads as bool`,
		"- canary":                         "keys with values",
		"canary":                           "keys with values",
		"key: *canary":                     "not valid YAML",
		"a: 1\n\tcanary: 2":                "line 2",
		strings.Repeat("x", maxSettings+1): "longer than",
	} {
		var s sample
		err := idp.Decode([]byte(text), &s)
		if err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%.60q: want an error with %s, got: %v", text, names, err)
			continue
		}
		if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "123456") {
			t.Errorf("%.60q: the error repeats a value: %v", text, err)
		}
	}
	var s sample
	if err := idp.Decode([]byte("name: abc\nkey: k\nscopes: [a]\nnumber: 3\ninner: {secret: x}"), &s); err != nil || s.Name != "abc" || s.Key.Reveal() != "k" ||
		s.Inner.Secret.Reveal() != "x" || s.Number != 3 {
		t.Errorf("%v", err)
	}
	for _, nothing := range []string{"", "{}", "null", "# only words", "key: null"} {
		var s sample
		if err := idp.Decode([]byte(nothing), &s); err != nil || !s.Key.IsZero() {
			t.Errorf("%q: %v", nothing, err)
		}
	}
}

func TestASecretIsNotShown(t *testing.T) {
	s := sample{Key: idp.NewSecret("canary")}
	type hidden struct{ inner sample }
	for _, v := range []any{s, &s, hidden{s}, []any{s.Key}, map[string]idp.Secret{"x": s.Key}, &s.Key, struct{ s *idp.Secret }{&s.Key}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, "canary") || strings.Contains(text, fmt.Sprintf("%x", "canary")) {
				t.Errorf("%s shows %s", verb, text)
			}
		}
	}
	if raw, err := json.Marshal(s); err != nil || strings.Contains(string(raw), "canary") {
		t.Errorf("JSON shows %s, %v", raw, err)
	}
	if idp.NewSecret("").Reveal() != "" || !idp.NewSecret("").IsZero() || idp.NewSecret("a").IsZero() {
		t.Error("an empty secret is none")
	}
}

func TestGroupsThatMeanSomethingHereAreLeftOut(t *testing.T) {
	for name, test := range map[string]struct {
		in     []string
		prefix string
		want   []string
	}{
		"SortedAndEachOnce":      {[]string{"b", "a", "b", ""}, "", []string{"a", "b"}},
		"Kubernetes":             {[]string{"system:masters", "system:", "a"}, "", []string{"a"}},
		"Ours":                   {[]string{"kapis:global:platform-admin", "kapis:", "a"}, "", []string{"a"}},
		"BehindAPrefix":          {[]string{"system:masters"}, "up:", []string{"up:system:masters"}},
		"ByThePrefix":            {[]string{"tem:masters", "x"}, "sys", []string{"sysx"}},
		"OfOneLine":              {[]string{"a\nb", "a\x00", " a", "a ", "a\u200b", "a\xff", "a b"}, "", []string{"a b"}},
		"Long":                   {[]string{strings.Repeat("x", maxGroup), strings.Repeat("x", maxGroup+1)}, "", []string{strings.Repeat("x", maxGroup)}},
		"Chinese":                {[]string{"开发"}, "", []string{"开发"}},
		"None":                   {nil, "x", nil},
		"NoneThatCount":          {[]string{"system:masters"}, "", nil},
		"ThePrefixAloneIsNoName": {[]string{""}, "x", nil},
	} {
		if got := idp.Groups(test.in, test.prefix); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	many := make([]string, 3*idp.MaxGroups)
	for i := range many {
		many[i] = fmt.Sprintf("%05d", i)
	}
	if got := idp.Groups(many, ""); len(got) != idp.MaxGroups || got[0] != "00000" {
		t.Errorf("%d groups", len(got))
	}
}

func FuzzNoGroupOfOursComesFromAProvider(f *testing.F) {
	for _, seed := range [][2]string{{"system:masters", ""}, {"tem:masters", "sys"}, {":x", "kapis"}, {"a\nb", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, name, prefix string) {
		for _, g := range idp.Groups([]string{name}, prefix) {
			if strings.HasPrefix(g, "system:") || strings.HasPrefix(g, "kapis:") || len(g) > maxGroup || strings.ContainsAny(g, "\n\r\x00") {
				t.Errorf("%q and %q make %q", prefix, name, g)
			}
		}
	})
}

func FuzzNoErrorRepeatsAValue(f *testing.F) {
	for _, seed := range []string{"key: ", "key: *", "key: [", "scopes: ", "inner: {secret: ", "\"", "a: b: ", "? ", "&a "} {
		f.Add(seed, "")
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		const value = "9c41f-secret"
		if strings.Contains(before+after, value) || strings.HasSuffix(strings.TrimRight(after, " "), ":") {
			return
		}
		var s sample
		err := idp.Decode([]byte(before+value+after), &s)
		if err != nil && strings.Contains(err.Error(), value) && !strings.Contains(err.Error(), "no such key") && !strings.Contains(err.Error(), "twice") {
			t.Errorf("%q: %v", before+value+after, err)
		}
	})
}
