package idp

import (
	"encoding/json"
	"reflect"
)

// Secret is a secret value of the settings: it can't be printed, logged or encoded, however deeply nested.
type Secret struct {
	reveal func() string // a function, because fmt prints unexported text, and no functions
}

// NewSecret returns a Secret with the text.
func NewSecret(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{reveal: func() string { return s }}
}

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// IsZero reports whether there is no text.
func (s Secret) IsZero() bool { return s.reveal == nil }

// String hides the text.
func (s Secret) String() string { return "[hidden]" }

// MarshalJSON hides the text.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"[hidden]"`), nil }

// UnmarshalJSON reads the text.
func (s *Secret) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(data, &text) != nil {
		return &json.UnmarshalTypeError{Value: kind(data), Type: reflect.TypeFor[string]()}
	}
	*s = NewSecret(text)
	return nil
}

// kind returns the type of a JSON value.
func kind(data []byte) string {
	switch data[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool"
	}
	return "number"
}
