package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrLongYAML says that a document is too long, or too deep, to be written as YAML.
var ErrLongYAML = errors.New("the YAML would be too long")

// maxIndent is the indentation, in blanks, of the deepest value that is written: as deep as encoding/json reads.
const maxIndent = 2 * 10_000

// YAML returns a JSON document as YAML (YAML 1.2.2), with members in their order and two blanks for each level. It fails with ErrLongYAML
// if there would be more than limit bytes of it: indentation makes the YAML of a deep document far longer than its JSON.
func YAML(document []byte, limit int) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	w := &yamlWriter{in: d, limit: limit, out: make([]byte, 0, min(limit, len(document)+len(document)/2))}
	if err := w.value(0, true); err != nil {
		return nil, fmt.Errorf("write JSON as YAML: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("write JSON as YAML: there is more than one document")
	}
	return w.out, nil
}

// yamlWriter writes the values that in has, one after the other.
type yamlWriter struct {
	in    *json.Decoder
	out   []byte
	limit int
}

// value writes the next value, which ends its line. inline is whether it begins where the line has nothing but indentation; after a key
// it does not.
func (w *yamlWriter) value(indent int, inline bool) error {
	if indent > maxIndent {
		return ErrLongYAML
	}
	t, err := w.in.Token()
	if err != nil {
		return err
	}
	open, nested := t.(json.Delim)
	if !nested {
		if !inline {
			w.out = append(w.out, ' ')
		}
		w.scalar(t)
		return w.check()
	}
	if !w.in.More() {
		if !inline {
			w.out = append(w.out, ' ')
		}
		w.out = append(append(w.out, byte(open), byte(open)+2), '\n') // {} or []
		if err := w.check(); err != nil {
			return err
		}
	} else {
		if !inline {
			w.out = append(w.out, '\n')
		}
		if err := w.members(indent, open == '{', inline); err != nil {
			return err
		}
	}
	_, err = w.in.Token() // the end
	return err
}

// check fails if there is more than the limit: each value is checked, since what one adds is bounded by its JSON and maxIndent.
func (w *yamlWriter) check() error {
	if len(w.out) > w.limit {
		return ErrLongYAML
	}
	return nil
}

// members writes the members of an object, or the elements of an array.
func (w *yamlWriter) members(indent int, object, inline bool) error {
	for first := true; w.in.More(); first = false {
		if !first || !inline {
			for range indent {
				w.out = append(w.out, ' ')
			}
		}
		if !object {
			w.out = append(w.out, "- "...)
			if err := w.value(indent+2, true); err != nil {
				return err
			}
			continue
		}
		key, err := w.in.Token()
		if err != nil {
			return err
		}
		w.text(fmt.Sprint(key))
		w.out = append(w.out, ':')
		if err := w.value(indent+2, false); err != nil {
			return err
		}
	}
	return nil
}

func (w *yamlWriter) scalar(t json.Token) {
	switch v := t.(type) {
	case string:
		w.text(v)
	case json.Number:
		w.out = append(w.out, v...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	default:
		w.out = append(w.out, "null"...)
	}
	w.out = append(w.out, '\n')
}

// text writes a string as it is where no reader of YAML takes that for anything else, and between quotation marks otherwise: the escapes of
// Go's syntax are all escapes of YAML, too (YAML 1.2.2, 5.7).
func (w *yamlWriter) text(s string) {
	if isPlain(s) {
		w.out = append(w.out, s...)
		return
	}
	w.out = strconv.AppendQuote(w.out, s)
}

// isPlain reports whether s is a word with a letter in front, and none that means something of its own in any version of YAML.
func isPlain(s string) bool {
	for i, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '-' || c > '9' && c != '_') { // - . / and digits are next to each other
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}
