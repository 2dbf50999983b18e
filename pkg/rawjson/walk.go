// Package rawjson reads JSON in place: it finds the values in a text and cuts members out of it, and decodes only what is asked for. The
// texts are strings, so that its results are substrings of its input and can't change under a reader.
package rawjson

import (
	"encoding/json"
	"errors"
	"strings"
)

// maxDepth bounds the nesting that is followed, and with it the stack: a megabyte of it. It is what kube-apiserver accepts in an object
// (sigs.k8s.io/json stops at 10000), and a little more for the values around an object in an answer: a user who may write an object must
// not be able to write one that can't be read here.
const maxDepth = 10_000 + 16

// ErrSyntax means that a text is not one valid JSON value (RFC 8259), or is nested too deeply.
var ErrSyntax = errors.New("not valid JSON")

// Valid reports whether s is exactly one JSON value, white space around it allowed, in which no value has more than depth others around
// it.
func Valid(s string, depth int) bool {
	end := skip(s, space(s, 0), max(0, maxDepth-depth))
	return end >= 0 && space(s, end) == len(s)
}

// Members walks the members of a JSON object, in the order of the text:
//
//	for m := rawjson.Object(s); m.Next(); {
//		use(m.Key, m.Value)
//	}
//
// A value that is no object has no members; Err distinguishes it from an empty object.
type Members struct {
	// Key is the member's name, without quotes and escapes.
	Key string
	// Value is the member's value, as written in the text.
	Value string

	s     string
	at    int // the next byte to read
	value int // where the value is that NextName has not read
	depth int // how many values count as those around the object
	begun bool
	err   error
}

// Object returns the members of the object s.
func Object(s string) Members { return Members{s: s} }

// ObjectWithin returns the members of the object s, in which no value may have more than depth others around it, as for Valid.
func ObjectWithin(s string, depth int) Members { return Members{s: s, depth: max(0, maxDepth-depth)} }

// Next moves to the next member, and reports whether there is one.
func (m *Members) Next() bool { return m.NextName() && m.Read() }

// NextName moves to the next member without reading its value, which Read or Objects has to do, and reports whether there is one.
func (m *Members) NextName() bool {
	if m.err != nil {
		return false
	}
	i, more := next(m.s, m.at, m.begun, '{', '}')
	m.begun = true
	if !more {
		return m.stop(i)
	}
	if m.value = member(m.s, i); m.value < 0 {
		return m.stop(-1)
	}
	m.Key, m.Value = name(m.s, i), ""
	return true
}

// Read reads the value of the member that NextName has moved to, and reports whether there is one.
func (m *Members) Read() bool {
	end := skip(m.s, m.value, m.depth+1)
	if end < 0 {
		return m.stop(-1)
	}
	m.at, m.Value = end, m.s[m.value:end]
	return true
}

// IsArray reports whether the value of the member that NextName has moved to is an array, if it is valid.
func (m *Members) IsArray() bool { return m.value < len(m.s) && m.s[m.value] == '[' }

// Objects reads the value of the member that NextName has moved to, an array of objects, each byte once: f walks one of them, and gets its
// text by Text when the walk has ended. It reports whether that is what the value is.
func (m *Members) Objects(f func(object *Members)) bool {
	s, at := m.s[m.value:], 0
	for begun := false; ; begun = true {
		i, more := next(s, at, begun, '[', ']')
		if !more {
			if i < 0 {
				return m.stop(-1)
			}
			m.at, m.Value = m.value+i, s[:i]
			return true
		}
		o := Members{s: s[i:], depth: m.depth + 2}
		f(&o)
		for o.Next() { //nolint:revive // Next does it
		}
		if o.Err() != nil {
			return m.stop(-1)
		}
		at = i + o.at
	}
}

// Text returns the object, as written, once a walk over it has ended, and "" before.
func (m *Members) Text() string {
	if !errors.Is(m.err, errEnd) {
		return ""
	}
	return m.s[:m.at]
}

// member returns where the value of the member starts whose name is at i, or -1 if there is none.
func member(s string, i int) int {
	if i = text(s, i); i < 0 {
		return -1
	}
	if i = space(s, i); i >= len(s) || s[i] != ':' {
		return -1
	}
	return space(s, i+1)
}

// name returns the name of the member at i, which is a valid string, without quotes and escapes.
func name(s string, i int) string {
	for end := i + 1; ; end++ {
		switch s[end] {
		case '"':
			return s[i+1 : end]
		case '\\':
			return Text(s[i:text(s, i)])
		}
	}
}

func (m *Members) stop(end int) bool {
	if end < 0 {
		m.err = ErrSyntax
	} else {
		m.at, m.err = end, errEnd
	}
	m.Key, m.Value = "", ""
	return false
}

// errEnd marks a walk that reached its end.
var errEnd = errors.New("end")

// Err returns why the walk ended before the object did, or nil if it did not.
func (m *Members) Err() error {
	if errors.Is(m.err, errEnd) {
		return nil
	}
	return m.err
}

// Whole reports whether the walk has ended, and nothing follows the object but white space: what Valid reports, without reading it again.
func (m *Members) Whole() bool { return errors.Is(m.err, errEnd) && space(m.s, m.at) == len(m.s) }

// Elements walks the elements of a JSON array as Members walks an object.
type Elements struct {
	// Value is the element, as written in the text.
	Value string

	s     string
	at    int
	begun bool
	done  bool
}

// Array returns the elements of the array s; a value that is no array has none.
func Array(s string) Elements { return Elements{s: s} }

// Next moves to the next element, and reports whether there is one.
func (e *Elements) Next() bool {
	if e.done {
		return false
	}
	i, more := next(e.s, e.at, e.begun, '[', ']')
	e.begun = true
	end := -1
	if more {
		end = skip(e.s, i, 1)
	}
	if end < 0 {
		e.done, e.Value = true, ""
		return false
	}
	e.at, e.Value = end, e.s[i:end]
	return true
}

// next finds where the next member or element starts; more is false at the closing bracket, with the position after it, or -1 if the text
// is broken.
func next(s string, at int, begun bool, open, shut byte) (start int, more bool) {
	i := space(s, at)
	if i >= len(s) {
		return -1, false
	}
	switch {
	case !begun && s[i] == open, begun && s[i] == ',':
		i = space(s, i+1)
	case begun && s[i] == shut:
		return i + 1, false
	default:
		return -1, false
	}
	if i >= len(s) {
		return -1, false
	}
	if !begun && s[i] == shut {
		return i + 1, false
	}
	return i, true
}

// Get returns the value at path, as written in the text, or "" if there is none. A step is a member's name, or the index of an array's
// element in decimal.
func Get(s string, path ...string) string {
	for _, step := range path {
		if s = get(s, step); s == "" {
			return ""
		}
	}
	return s
}

func get(s, step string) string {
	if strings.HasPrefix(s, "[") {
		n := index(step)
		for e := Array(s); n >= 0 && e.Next(); n-- {
			if n == 0 {
				return e.Value
			}
		}
		return ""
	}
	for m := Object(s); m.Next(); {
		if m.Key == step {
			return m.Value
		}
	}
	return ""
}

// index parses a short decimal number, and returns -1 for anything else.
func index(s string) int {
	if s == "" || len(s) > 6 {
		return -1
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// Text returns the text of a scalar: a string without its quotes and escapes, a number or a boolean as written, "" for null. An object or
// an array is returned as written.
func Text(s string) string {
	if s == "null" {
		return ""
	}
	if len(s) < 2 || s[0] != '"' {
		return s
	}
	if strings.IndexByte(s, '\\') < 0 {
		return s[1 : len(s)-1]
	}
	var out string
	if err := json.Unmarshal([]byte(s), &out); err != nil {
		return ""
	}
	return out
}

// GetText is Text of the value at path.
func GetText(s string, path ...string) string { return Text(Get(s, path...)) }
