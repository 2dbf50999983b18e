package main

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// livePage is a page that a server keeps up to date (docs/watch.md).
type livePage struct {
	columns []column
	total   int
	order   []string
	rows    map[string]changed
}

// changed is an object of a page, as a row or as it is.
type changed struct {
	typ string
	row tableRow
	raw json.RawMessage
}

// apply reads the next message, and returns what it changes.
func (p *livePage) apply(message json.RawMessage, whole bool) ([]changed, error) {
	var m struct {
		TotalItems int
		Columns    []column `json:"columnDefinitions"`
		Items      []json.RawMessage
		Order      []string
		Changes    []struct {
			Type   string
			Object json.RawMessage
		}
	}
	if err := decodeNumbers(message, &m); err != nil {
		return nil, err
	}
	p.total = m.TotalItems
	if m.Changes == nil { // the whole page
		if !whole && m.Columns == nil {
			return nil, errNoTable
		}
		p.columns = m.Columns
		return p.replace(m.Items, whole)
	}
	var out []changed
	for _, change := range m.Changes {
		key, c, err := readChange(change.Type, change.Object, whole || change.Type == "DELETED")
		if err != nil {
			return nil, err
		}
		if change.Type == "DELETED" {
			c = p.rows[key] // the message has the name alone
			c.typ = change.Type
			delete(p.rows, key)
		} else {
			p.rows[key] = c
		}
		out = append(out, c)
	}
	if m.Order != nil {
		p.order = m.Order
	}
	return out, nil
}

// replace sets the page, and returns how it differs from what was there.
func (p *livePage) replace(items []json.RawMessage, whole bool) ([]changed, error) {
	before, earlier := p.rows, p.order
	p.order, p.rows = nil, map[string]changed{}
	var out []changed
	for _, i := range items {
		key, c, err := readChange("ADDED", i, whole)
		if err != nil {
			return nil, err
		}
		p.order, p.rows[key] = append(p.order, key), c
		old, was := before[key]
		if was {
			c.typ = "MODIFIED"
		}
		if !was || old.row.Object.Metadata.ResourceVersion != c.row.Object.Metadata.ResourceVersion {
			out = append(out, c)
		}
	}
	for _, key := range earlier {
		if _, stays := p.rows[key]; !stays {
			gone := before[key]
			gone.typ = "DELETED"
			out = append(out, gone)
		}
	}
	return out, nil
}

// readChange returns an object of a message and its key, by which the order names it.
func readChange(typ string, text json.RawMessage, whole bool) (string, changed, error) {
	c := changed{typ: typ, raw: text}
	object := &c.row.Object
	var err error
	if whole {
		err = decodeNumbers(text, object)
	} else {
		err = decodeNumbers(text, &c.row)
	}
	key := object.Metadata.UID
	if cluster, ok := object.Metadata.Annotations[annotationCluster]; ok && key != "" {
		key = cluster + "/" + key
	}
	if key == "" {
		key = object.Metadata.Namespace + "/" + object.Metadata.Name
	}
	return key, c, err
}

func decodeNumbers(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("read a message: %w", err)
	}
	return nil
}

// table returns the page.
func (p *livePage) table() *table {
	t := &table{Columns: p.columns}
	t.TotalItems = p.total
	for _, key := range p.order {
		if c, ok := p.rows[key]; ok {
			t.Rows = append(t.Rows, c.row)
		}
	}
	return t
}
