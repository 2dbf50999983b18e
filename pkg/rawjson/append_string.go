package rawjson

import "encoding/json"

// AppendString appends s as a JSON string.
func AppendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			text, err := json.Marshal(s)
			if err != nil { // no string has one
				text = []byte(`""`)
			}
			return append(dst, text...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// String returns s as a JSON string.
func String(s string) string { return string(AppendString(nil, s)) }
