package redaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Raw is the JSON of an object, or of several, as kube-apiserver has it: with its hidden fields. Formatting or encoding it yields none of
// it.
type Raw struct{ text string }

// Received returns the JSON that kube-apiserver sent.
func Received(text string) Raw { return Raw{text} }

// Unredacted returns the JSON with its hidden fields, for this server's own use of an object: to compare, to decide, to use a credential
// for its purpose. No part of it goes into an answer, an error or a log.
func (r Raw) Unredacted() string { return r.text }

// Shown returns the object without the hidden fields of its kind. For a list, each item loses them.
func (r Raw) Shown(gr schema.GroupResource) (Shown, error) {
	x := Of(gr)
	if x == nil {
		return Shown(r), nil
	}
	out, err := x.appendAll(r.text)
	if err != nil {
		return Shown{}, fmt.Errorf("redact an object of %s: %w", gr, err)
	}
	return Shown{string(out)}, nil
}

// appendAll is Append for an object, or for each item of a list.
func (x *Redaction) appendAll(text string) ([]byte, error) {
	start, end, ok := rawjson.Span(text, "items")
	if !ok || text[start] != '[' {
		return x.Append(nil, text)
	}
	out := []byte(text[:start] + "[")
	for first, e := true, rawjson.Array(text[start:end]); e.Next(); first = false {
		if !first {
			out = append(out, ',')
		}
		var err error
		if out, err = x.Append(out, e.Value); err != nil {
			return nil, err
		}
	}
	return x.Append(nil, string(out)+"]"+text[end:]) // which has its own members
}

const notShown = "(an object that is not redacted)"

// String returns nothing of the object.
func (Raw) String() string { return notShown }

// GoString returns nothing of the object.
func (Raw) GoString() string { return notShown }

// Format writes nothing of the object, for any verb.
func (Raw) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, notShown) }

// MarshalJSON fails.
func (Raw) MarshalJSON() ([]byte, error) {
	return nil, errors.New("an object is not redacted: it can't be answered")
}

// Bytes is the JSON of an object with its hidden fields, as sinks of a kind get it. Formatting or encoding it yields none of it.
type Bytes []byte

// String returns nothing of the object.
func (Bytes) String() string { return notShown }

// GoString returns nothing of the object.
func (Bytes) GoString() string { return notShown }

// Format writes nothing of the object, whatever the verb is.
func (Bytes) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, notShown) }

// MarshalJSON fails.
func (Bytes) MarshalJSON() ([]byte, error) { return Raw{}.MarshalJSON() }

// quoted returns a text as a JSON string.
func quoted(s string) string {
	out, _ := json.Marshal(s) // a string always has a JSON text
	return string(out)
}
