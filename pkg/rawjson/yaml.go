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

// YAML returns a JSON document as YAML (YAML 1.2.2), with members in their order and two blanks for each level.
func YAML(document []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	w := &yamlWriter{in: d, out: make([]byte, 0, len(document)+len(document)/2)}
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
	in  *json.Decoder
	out []byte
}

// value writes the next value, which ends its line. inline is whether it begins where the line has nothing but indentation; after a key
// it does not.
func (w *yamlWriter) value(indent int, inline bool) error {
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
		return nil
	}
	if !w.in.More() {
		if !inline {
			w.out = append(w.out, ' ')
		}
		w.out = append(append(w.out, byte(open), byte(open)+2), '\n') // {} or []
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
