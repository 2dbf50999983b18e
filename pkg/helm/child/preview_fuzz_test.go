package child

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// A preview names the fields that differ, a bounded number of them, and none where there is no difference; no value is in a name.
func FuzzChangedFields(f *testing.F) {
	f.Add(`{"data":{"password":"Canary-1"}}`, `{"data":{"password":"Canary-2"}}`)
	f.Add(`{"a":[1,{"b":"Canary-1"}]}`, `{"a":[1,{"b":2},3]}`)
	f.Add(`{"metadata":{"annotations":{"x/y.z":"Canary-1"}},"status":1}`, `{"status":2}`)
	f.Add(`{"":{"":[]}}`, `{"":{"":{}}}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		var a, b map[string]any
		if json.Unmarshal([]byte(before), &a) != nil || json.Unmarshal([]byte(after), &b) != nil {
			return
		}
		paths := changedFields(a, b)
		if len(paths) > maxFields+1 || reflect.DeepEqual(a, b) && len(paths) > 0 {
			t.Errorf("%s and %s differ in %q", before, after, paths)
		}
		for _, key := range append(keysIn(a), keysIn(b)...) {
			if strings.Contains(key, "Canary") {
				return // it is a name
			}
		}
		if strings.Contains(strings.Join(paths, " "), "Canary") {
			t.Errorf("%s and %s differ in %q", before, after, paths)
		}
	})
}

// keysIn are the names of all fields of a value.
func keysIn(v any) (keys []string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			keys = append(append(keys, k), keysIn(x)...)
		}
	case []any:
		for _, x := range v {
			keys = append(keys, keysIn(x)...)
		}
	}
	return keys
}
