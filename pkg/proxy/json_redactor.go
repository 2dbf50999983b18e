package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/proxy/relay"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
)

// document rewrites one JSON object: a list, a Table, an object or a Status. Objects within a list are rewritten one by one, so that no
// more than one is in memory; the members of any other are collected.
type document struct {
	in        *rawjson.Reader
	redaction *redaction.Redaction

	state state
	// own collects the members that are not lists of objects.
	own   []byte
	some  bool // a member was written
	items bool // it has a list of objects
	key   string
	comma bool // between the elements of the list
}

type state uint8

const (
	begins state = iota
	members
	elements
	over
)

// The members of lists and of Tables that hold objects.
const (
	listItems = "items"
	tableRows = "rows"
)

var errDocument = errors.New("kube-apiserver's answer is not one JSON object")

// batch appends as many pieces as are worth a write.
func (d *document) batch(dst []byte) ([]byte, error) {
	for len(dst) < relay.BufferSize/2 {
		var err error
		if dst, err = d.next(dst); err != nil {
			if errors.Is(err, io.EOF) && len(dst) > 0 {
				err = nil // it comes again
			}
			return dst, err
		}
	}
	return dst, nil
}

// next appends the next piece, which may be empty. Its error is io.EOF after the end.
func (d *document) next(dst []byte) ([]byte, error) {
	switch d.state {
	case begins:
		if c, err := d.in.Token(); err != nil || c != '{' {
			return dst, notObject(err)
		}
		d.state = members
		return dst, nil
	case members:
		return d.member(dst)
	case elements:
		return d.element(dst)
	}
	switch _, err := d.in.Peek(); {
	case errors.Is(err, io.EOF):
		return dst, io.EOF
	case err != nil:
		return dst, err
	}
	return dst, errDocument
}

func notObject(err error) error {
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read kube-apiserver's answer: %w", err)
	}
	return errDocument
}

// member reads a member, or the end. Those before a list are written with it, those of an object at the end, when it is known to be one.
func (d *document) member(dst []byte) ([]byte, error) {
	c, err := d.in.Peek()
	if err != nil {
		return dst, notObject(err)
	}
	switch c {
	case '}':
		_, err := d.in.Token()
		d.state = over
		if err != nil {
			return dst, err
		}
		return d.flush(dst, true)
	case ',':
		_, err = d.in.Token()
		return dst, err
	}
	raw, err := d.in.Value()
	if err != nil || c != '"' {
		return dst, notObject(err)
	}
	d.key = strings.Clone(rawjson.Text(raw)) // the reader's buffer moves on
	if c, err := d.in.Token(); err != nil || c != ':' {
		return dst, notObject(err)
	}
	if c, err = d.in.Peek(); err != nil {
		return dst, notObject(err)
	}
	if c == '[' && (d.key == listItems || d.key == tableRows) {
		return d.list(dst)
	}
	value, err := d.in.Value()
	if err != nil {
		return dst, notObject(err)
	}
	d.own = append(appendName(d.own, len(d.own) > 0, d.key), value...)
	if len(d.own) > 2*maxValue {
		return dst, rawjson.ErrTooLong
	}
	return dst, nil
}

// list begins the list of objects.
func (d *document) list(dst []byte) ([]byte, error) {
	dst, err := d.flush(dst, false)
	if err != nil {
		return dst, err
	}
	if _, err := d.in.Token(); err != nil {
		return dst, err
	}
	dst = append(appendName(dst, d.some, d.key), '[')
	d.some, d.items, d.comma, d.state = true, true, false, elements
	return dst, nil
}

// flush appends the members that were collected, without the redacted fields.
func (d *document) flush(dst []byte, end bool) ([]byte, error) {
	clean, err := d.redaction.Append(nil, "{"+string(d.own)+"}")
	if err != nil {
		return dst, err
	}
	d.own = nil
	if !d.some && !d.items {
		dst = append(dst, '{')
	}
	if inner := clean[1 : len(clean)-1]; len(inner) > 0 {
		if d.some {
			dst = append(dst, ',')
		}
		dst = append(dst, inner...)
		d.some = true
	}
	if end {
		dst = append(dst, '}')
	}
	return dst, nil
}

// element reads an object of the list, or its end.
func (d *document) element(dst []byte) ([]byte, error) {
	c, err := d.in.Peek()
	if err != nil {
		return dst, notObject(err)
	}
	if c == ']' || c == ',' {
		if c == ']' {
			d.state = members
		}
		_, err = d.in.Token()
		if c == ']' {
			dst = append(dst, ']')
		}
		return dst, err
	}
	value, err := d.in.Value()
	if err != nil {
		return dst, notObject(err)
	}
	if d.comma {
		dst = append(dst, ',')
	}
	d.comma = true
	if d.key == tableRows {
		return d.row(dst, value)
	}
	return d.redaction.Append(dst, value)
}

// row appends a row of a Table. Its cells are the columns that may be shown of the kind, and its object is as complete as was asked for.
func (d *document) row(dst []byte, row string) ([]byte, error) {
	dst = append(dst, '{')
	m := rawjson.Object(row)
	for first := true; m.Next(); first = false {
		dst = appendName(dst, !first, m.Key)
		if m.Key != "object" || m.Value == "null" {
			dst = append(dst, m.Value...)
			continue
		}
		var err error
		if dst, err = d.redaction.Append(dst, m.Value); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), m.Err()
}

func appendName(dst []byte, comma bool, key string) []byte {
	if comma {
		dst = append(dst, ',')
	}
	name, _ := json.Marshal(key) // a string always has a JSON text
	return append(append(dst, name...), ':')
}

// refusalOf returns the error that an answer stands for.
func refusalOf(res *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	var s metav1.Status
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Kind != "Status" || res.StatusCode < http.StatusBadRequest ||
		res.StatusCode == http.StatusUnauthorized {
		return relay.BadGateway(fmt.Sprintf("kube-apiserver answered a watch with %d", res.StatusCode))
	}
	return &apierrors.StatusError{ErrStatus: s}
}
