package idp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxSettings bounds the settings of one provider, in bytes. Certificates are the largest of them.
const maxSettings = 256 << 10

var (
	line = regexp.MustCompile(`line \d+`)
	key  = regexp.MustCompile(`key "([A-Za-z0-9_.-]{1,64})" already`)
)

// Decode reads the settings of a provider, YAML or JSON, into a pointer to a struct. Keys are case-sensitive; unknown and duplicate
// keys are errors. Errors name the key and contain no value, since any value may be a secret that was written to the wrong key.
func Decode(settings []byte, into any) error {
	if len(settings) > maxSettings {
		return fmt.Errorf("read the provider's settings: they are longer than %d bytes", maxSettings)
	}
	raw, err := yaml.YAMLToJSONStrict(settings)
	if err != nil {
		return fmt.Errorf("read the provider's settings: %w", withoutValues(err))
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		raw = []byte("{}")
	}
	if raw[0] != '{' {
		return errors.New("read the provider's settings: they have to be keys with values")
	}
	strict, err := kjson.UnmarshalStrict(raw, into)
	if err != nil {
		return fmt.Errorf("read the provider's settings: %w", wrongType(err))
	}
	var unknown []string
	for _, e := range strict {
		if f, ok := e.(kjson.FieldError); ok { //nolint:errorlint // they come as they are, never wrapped
			unknown = append(unknown, fmt.Sprintf("%q", f.FieldPath()))
		}
	}
	if len(strict) > 0 {
		slices.Sort(unknown)
		return fmt.Errorf("read the provider's settings: no such key: %s; look at the spelling, upper and lower case, and the indentation",
			strings.Join(unknown, ", "))
	}
	return nil
}

// withoutValues returns where YAML is wrong. The parser's own text may quote values.
func withoutValues(err error) error {
	where := line.FindString(err.Error())
	if m := key.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("the key %q is there twice", m[1])
	}
	if where == "" {
		return errors.New("they are not valid YAML")
	}
	return fmt.Errorf("they are not valid YAML at %s", where)
}

// wrongType returns which key has a value of a wrong type. The parser's own text may quote the value.
func wrongType(err error) error {
	var t *json.UnmarshalTypeError
	if !errors.As(err, &t) {
		return errors.New("they can't be read")
	}
	want := "another type"
	switch t.Type.Kind() { //nolint:exhaustive // those that settings have
	case reflect.String:
		want = "text; quote it if it looks like a number"
	case reflect.Bool:
		want = "true or false"
	case reflect.Slice:
		want = "a list"
	case reflect.Struct, reflect.Map:
		want = "keys with values"
	case reflect.Int, reflect.Int32, reflect.Int64:
		want = "a whole number"
	}
	got, _, _ := strings.Cut(t.Value, " ")
	return fmt.Errorf("the key %q holds what reads as %s, where it has to be %s", t.Field, got, want)
}
