package redaction

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

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

// Intake turns objects of one kind into the form that caches store: without hidden fields, managedFields and the last-applied
// configuration. One goroutine uses it at a time.
type Intake struct {
	cut, plain rawjson.Cut
	more       bool // cut names more than plain
	buf        []byte
}

// NewIntake returns the intake of a kind, which cuts what also names too.
func NewIntake(gr schema.GroupResource, also rawjson.Cut) *Intake {
	i := &Intake{plain: rawjson.Cuts(pathOfManagedFields(), pathOfLastApplied())}
	hidden := rawjson.Cuts(Hidden(gr)...)
	i.cut, i.more = merged(merged(i.plain, hidden), also), len(hidden)+len(also) > 0
	return i
}

// merged returns a cut that names everything that either of two names.
func merged(a, b rawjson.Cut) rawjson.Cut {
	out := maps.Clone(a)
	for name, below := range b {
		if have, ok := out[name]; ok && (have == nil || below == nil) {
			out[name] = nil
		} else if ok {
			out[name] = merged(have, below)
		} else {
			out[name] = below
		}
	}
	return out
}

// Cuts reports whether the kind loses more fields than every kind does.
func (i *Intake) Cuts() bool { return i.more }

// Shown returns an object, compact, after the members in front (JSON text, empty for none). It retains nothing of text.
func (i *Intake) Shown(text, front string) (Shown, error) {
	out, err := i.without(text, front, i.cut)
	return Shown{out}, err
}

// Raw returns an object with its hidden fields and the other fields that the kind's caches do not store.
func (i *Intake) Raw(text, front string) (Raw, error) {
	out, err := i.without(text, front, i.plain)
	return Raw{out}, err
}

// maxScratch is the largest buffer that is reused for the next object.
const maxScratch = 1 << 20

func (i *Intake) without(text, front string, cut rawjson.Cut) (string, error) {
	buf, err := rawjson.AppendWithout(i.buf[:0], text, front, cut)
	if cap(buf) <= maxScratch {
		i.buf = buf
	}
	if err != nil {
		return "", fmt.Errorf("read an object: %w", err)
	}
	return string(buf), nil
}

// quoted returns a text as a JSON string.
func quoted(s string) string {
	out, _ := json.Marshal(s) // a string always has a JSON text
	return string(out)
}
