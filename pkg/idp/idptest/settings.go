package idptest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/idp"
)

const canary = "canary-7f3c9a" // a value that no error may repeat

func (s Suite) settings(t *testing.T) {
	w := s.world(t)
	t.Run("AnUnknownKeyIsNamed", func(t *testing.T) { // U32, U33
		for _, path := range append([]string{""}, objects(w.Settings, "")...) {
			settings := clone(t, w.Settings)
			into(settings, path)["scopez"] = canary
			s.refuses(t, encode(t, settings), "scopez")
		}
	})
	t.Run("AKeyInTheWrongPlaceOrCaseIsNamed", func(t *testing.T) {
		for _, path := range objects(w.Settings, "") {
			settings := clone(t, w.Settings)
			for k := range w.Settings {
				inner := into(settings, path)
				if _, has := inner[k]; !has && k != path {
					inner[k] = w.Settings[k]
					s.refuses(t, encode(t, settings), k)
					delete(inner, k)
				}
			}
		}
		for k, v := range w.Settings {
			settings := clone(t, w.Settings)
			settings[strings.ToUpper(k)] = v
			s.refuses(t, encode(t, settings), strings.ToUpper(k))
		}
	})
	t.Run("AValueOfAnotherTypeIsNamedAndNotRepeated", func(t *testing.T) {
		for k, v := range w.Settings {
			settings := clone(t, w.Settings)
			settings[k] = map[string]any{canary: []any{canary}}
			if _, object := v.(map[string]any); object {
				settings[k] = canary
			}
			s.refuses(t, encode(t, settings), k)
			settings[k] = []any{map[string]any{"x": canary}}
			s.refuses(t, encode(t, settings), k)
		}
	})
	t.Run("WhatIsRequiredIsNamed", func(t *testing.T) {
		for _, k := range w.Required {
			for _, empty := range []any{"absent", nil, ""} {
				settings := clone(t, w.Settings)
				outer, last := parent(settings, k)
				if outer[last] = empty; empty == "absent" {
					delete(outer, last)
				}
				s.refuses(t, encode(t, settings), last)
			}
		}
		if len(w.Required) == 0 {
			return
		}
		for _, text := range []string{"", "{}", "null", "# nothing\n"} {
			s.refuses(t, []byte(text), w.Required[0])
		}
	})
	t.Run("WhatIsNotYAMLIsRefusedAndNotRepeated", func(t *testing.T) {
		for _, text := range []string{"[]", canary, "a: *" + canary, "a: \"\\q" + canary + "\"", "a: [" + canary, "a: b: " + canary, "\t" +
			canary + ": 1", "a: &x [*x, " + canary + "]",
			"a: !!int " + canary, "{\"a\":1}{\"b\": \"" + canary + "\"}", strings.Repeat("a", 1<<20)} {
			s.refuses(t, []byte(text), "")
		}
		for k := range w.Settings {
			s.refuses(t, []byte(k+": "+canary+"\n"+k+": "+canary+"\n"), k)
		}
	})
	t.Run("AnAddressHasToBeAWebAddressOverTLS", func(t *testing.T) {
		for _, k := range w.Addresses {
			for _, bad := range []string{"http://idp.example/x", "ftp://idp.example", "//idp.example", "/x", "idp.example", "https://",
				"https://user:" + canary + "@idp.example",
				"https://idp.example/#x", "javascript:alert(1)", "https://idp.example:port", "https://idp.example/\r\nx: y", " https://idp.example",
				"https:\\\\idp.example"} {
				settings := clone(t, w.Settings)
				outer, last := parent(settings, k)
				outer[last] = bad
				s.refuses(t, encode(t, settings), last)
			}
		}
	})
	t.Run("YAMLAndJSONAreTheSame", func(t *testing.T) {
		w.open(w.Settings)
		if _, err := s.Type.Open([]byte(flow(encode(t, w.Settings))), idp.OpenOptions{Name: "suite", AllowLoopback: true}); err != nil {
			t.Errorf("with comments around: %v", err)
		}
	})
}

// flow returns JSON as YAML that is not JSON.
func flow(raw []byte) string { return "# the provider\n" + string(raw) + "\n# end\n" }

// refuses checks that settings are refused with an error that names a key, and contains no value.
func (s Suite) refuses(t *testing.T, settings []byte, key string) {
	t.Helper()
	p, err := s.Type.Open(settings, idp.OpenOptions{Name: "suite", AllowLoopback: true})
	switch {
	case err == nil:
		t.Errorf("%.200q is taken, want an error about %q", settings, key)
	case p != nil:
		t.Errorf("a provider came along with the error %v", err)
	case !strings.Contains(err.Error(), key):
		t.Errorf("the error does not name %q: %v", key, err)
	case strings.Contains(err.Error(), canary):
		t.Errorf("the error repeats a value: %v", err)
	}
}

// objects returns the paths of the objects within settings.
func objects(settings map[string]any, prefix string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		if inner, ok := settings[k].(map[string]any); ok {
			out = append(append(out, prefix+k), objects(inner, prefix+k+".")...)
		}
	}
	return out
}

// into returns the object at a path; "" for the settings themselves.
func into(settings map[string]any, path string) map[string]any {
	for k := range strings.SplitSeq(path, ".") {
		if k != "" {
			settings = settings[k].(map[string]any)
		}
	}
	return settings
}

// parent returns the object that a key is in, and the last part of the key.
func parent(settings map[string]any, key string) (map[string]any, string) {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return into(settings, key[:i]), key[i+1:]
	}
	return settings, key
}
