package dynamic

import (
	"encoding/json"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// with returns the JSON object s with the member at path set to value, which is JSON. Missing objects on the path are created.
func with(s, value string, path ...string) string {
	if len(path) == 0 {
		return value
	}
	b := make([]byte, 0, len(s)+len(value)+64)
	b = append(b, '{')
	found := false
	for m := rawjson.Object(s); m.Next(); {
		v := m.Value
		if m.Key == path[0] {
			v, found = with(v, value, path[1:]...), true
		}
		b = appendMember(b, m.Key, v)
	}
	if !found {
		b = appendMember(b, path[0], with("{}", value, path[1:]...))
	}
	return string(append(b, '}'))
}

func appendMember(b []byte, key, value string) []byte {
	if len(b) > 1 {
		b = append(b, ',')
	}
	b = append(b, quote(key)...)
	b = append(b, ':')
	return append(b, value...)
}

func quote(s string) string {
	out, _ := json.Marshal(s) // strings can always be marshalled
	return string(out)
}
