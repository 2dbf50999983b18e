package redaction

import (
	"fmt"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// Shown is the JSON of an object, or of several, without hidden fields. It takes as much memory as a string.
type Shown struct{ text string }

// String returns the JSON.
func (s Shown) String() string { return s.text }

// Get returns the JSON at a path of member names, or "" if there is none.
func (s Shown) Get(path ...string) string { return rawjson.Get(s.text, path...) }

// GetText returns the string at a path of member names, or "" if there is none.
func (s Shown) GetText(path ...string) string { return rawjson.GetText(s.text, path...) }

// Len returns the length of the JSON in bytes.
func (s Shown) Len() int { return len(s.text) }

// MarshalJSON implements json.Marshaler.
func (s Shown) MarshalJSON() ([]byte, error) { return []byte(s.text), nil }

// Replace returns the JSON with the bytes from start to end replaced by text.
func (s Shown) Replace(start, end int, text string) Shown {
	return Shown{s.text[:start] + text + s.text[end:]}
}

// Without returns the JSON of an object without the fields that cut names.
func (s Shown) Without(cut rawjson.Cut) (Shown, error) {
	out, err := rawjson.AppendWithout(make([]byte, 0, len(s.text)), s.text, "", cut)
	if err != nil {
		return Shown{}, fmt.Errorf("cut an object: %w", err)
	}
	return Shown{string(out)}, nil
}
