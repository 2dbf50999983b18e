package openapi

import (
	"bytes"
	"errors"
	"iter"
	"slices"
)

// members are the members of a JSON object, without its braces; never empty.
type members struct {
	of   string // the name of the object, at the top of the document
	text []byte
}

// membersOf returns the members of an object, whose text is one with at least one member.
func membersOf(of string, object []byte) members {
	return members{of: of, text: object[1 : len(object)-1]}
}

var errNotObject = errors.New("not a JSON object")

// splice returns doc with members inserted into their objects, except those that an object has already; a missing object is added. doc must
// be valid JSON; otherwise the result is an error or nonsense.
func splice(doc []byte, add []members) ([]byte, error) {
	top, objects, err := scan(doc)
	if err != nil {
		return nil, err
	}
	size := len(doc)
	for _, m := range add {
		size += len(m.text) + len(m.of) + len(`"":{},`)
	}
	out := append(make([]byte, 0, size), doc[:top]...)
	for _, m := range add {
		if !slices.ContainsFunc(objects, func(o object) bool { return o.name == m.of }) {
			out = append(append(append(out, '"'), m.of...), `":{`...)
			out = append(append(out, m.text...), "},"...)
		}
	}
	if next := skipSpace(doc, top); doc[next] == '}' {
		out = bytes.TrimSuffix(out, []byte{','})
	}
	from := top
	for _, o := range objects {
		n := slices.IndexFunc(add, func(m members) bool { return m.of == o.name })
		if n < 0 {
			continue
		}
		text := missing(add[n].text, doc[o.at:])
		out = append(append(out, doc[from:o.at]...), text...)
		if len(text) > 0 && doc[skipSpace(doc, o.at)] != '}' {
			out = append(out, ',')
		}
		from = o.at
	}
	return append(out, doc[from:]...), nil
}

// missing returns those of the members text that the object has no members of the same name for. Both begin after the brace.
func missing(text, object []byte) []byte {
	there := map[string]bool{}
	for name := range each(object) {
		there[string(name)] = true
	}
	var left [][]byte
	for name, member := range each(text) {
		if !there[string(name)] {
			left = append(left, member)
		}
	}
	return bytes.Join(left, []byte{','})
}

// each iterates over the members of an object that begins after its brace: their names, with quotes and as they are written, and their
// whole text.
func each(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, member []byte) bool) {
		for i := 0; ; {
			if i = skipSpace(object, i); i < len(object) && object[i] == ',' {
				i = skipSpace(object, i+1)
			}
			if i >= len(object) || object[i] != '"' {
				return
			}
			nameEnd := skipString(object, i)
			colon := skipSpace(object, nameEnd)
			if colon >= len(object) || object[colon] != ':' {
				return
			}
			end := skipValue(object, skipSpace(object, colon+1))
			if !yield(object[i:nameEnd], object[i:end]) {
				return
			}
			i = end
		}
	}
}

// object is a member of a JSON document whose value is an object; at is the position after its brace.
type object struct {
	name string
	at   int
}

// scan finds the objects at the top of doc, in order. top is the position after the brace of doc itself.
func scan(doc []byte) (top int, objects []object, err error) {
	i := skipSpace(doc, 0)
	if i >= len(doc) || doc[i] != '{' {
		return 0, nil, errNotObject
	}
	i++
	top = i
	for {
		i = skipSpace(doc, i)
		if i < len(doc) && doc[i] == ',' {
			i = skipSpace(doc, i+1)
		}
		if i < len(doc) && doc[i] == '}' {
			return top, objects, nil
		}
		end := skipValue(doc, i)
		name := bytes.Trim(doc[i:end], `"`)
		i = skipSpace(doc, end)
		if i >= len(doc) || doc[i] != ':' {
			return 0, nil, errNotObject
		}
		i = skipSpace(doc, i+1)
		if end = skipValue(doc, i); end <= i {
			return 0, nil, errNotObject
		}
		if doc[i] == '{' && skipSpace(doc, i+1) < len(doc) {
			objects = append(objects, object{string(name), i + 1})
		}
		i = end
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns where the value that begins at i ends.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // of the enclosing object
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\t', '\r', ':':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// skipString returns the position after the string whose quote is at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n
		escapes := 0
		for k := i - 1; b[k] == '\\'; k-- {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}
