package query

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
)

// MaxKey is how long the sort values of an object may be together, in the form of a Cursor, for lists that are merged with others.
const MaxKey = 4 << 10

// maxCursor bounds the text of a cursor.
const maxCursor = 8 << 10

// Cursor is a position in an order of objects: that of an object with these sort values, of this namespace and name, whether there is one
// or not.
type Cursor struct {
	// After reports whether a page begins after an object at the position itself, and not with it.
	After bool
	// Key are the sort values, as bytes that compare as the values do. Namespace and Name end each order.
	Key, Namespace, Name string
}

var errCursor = errors.New("not a cursor")

// Compare orders positions upwards.
func (c *Cursor) Compare(key, namespace, name string) int {
	return cmp.Or(strings.Compare(c.Key, key), strings.Compare(c.Namespace, namespace), strings.Compare(c.Name, name))
}

// String returns the cursor as the value of the parameter.
func (c *Cursor) String() string {
	text := []byte{0}
	if c.After {
		text[0] = 1
	}
	for _, s := range [...]string{c.Key, c.Namespace, c.Name} {
		text = append(binary.AppendUvarint(text, uint64(len(s))), s...)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseCursor reads what String returns.
func ParseCursor(s string) (*Cursor, error) {
	if len(s) > maxCursor {
		return nil, errCursor
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(text) == 0 || text[0] > 1 {
		return nil, errCursor
	}
	c := &Cursor{After: text[0] == 1}
	rest := text[1:]
	for _, to := range [...]*string{&c.Key, &c.Namespace, &c.Name} {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) {
			return nil, errCursor
		}
		end := used + int(n) //nolint:gosec // at most the length
		*to, rest = string(rest[used:end]), rest[end:]
	}
	if len(rest) > 0 {
		return nil, errCursor
	}
	return c, nil
}
