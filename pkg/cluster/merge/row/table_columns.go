package row

import (
	"slices"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// columnCluster is the first column of a Table over clusters.
const columnCluster = `{"name":"Cluster","type":"string","format":"","description":"The cluster that the object is of","priority":0}`

// AcceptTable asks a cluster for a Table.
const AcceptTable = "application/json;as=Table;g=meta.k8s.io;v=v1"

// Columns are those of one cluster's Table.
type Columns struct {
	text  string // as the cluster sent them
	names []string
}

// maxColumns bounds the columns of a Table.
const maxColumns = 200

// ColumnsOf returns the columns of a cluster's Table, without names where it has none.
func ColumnsOf(table string) (Columns, error) {
	text, err := Only(table, "columnDefinitions")
	switch {
	case err != nil:
		return Columns{}, err
	case text == "" || text == "null":
		return Columns{}, nil
	case text[0] != '[':
		return Columns{}, ErrFaulty
	}
	out := Columns{text: text}
	for all := rawjson.Array(text); all.Next(); {
		name := rawjson.GetText(all.Value, "name")
		if name == "" || len(name) > maxName || len(out.names) >= maxColumns {
			return Columns{}, ErrFaulty
		}
		out.names = append(out.names, name)
	}
	return out, nil
}

// None reports whether there are none.
func (c Columns) None() bool { return c.text == "" }

// Shown returns the columns of an answer: the cluster comes first.
func (c Columns) Shown() string {
	if c.text == "" {
		return "[" + columnCluster + "]"
	}
	return first(columnCluster, c.text)
}

// As returns a row of a Table with columns c as one of a Table with others: by the names of columns, and null where it has none.
func (c Columns) As(other Columns, row string) string {
	if c.text == other.text {
		return row
	}
	var cells []string
	for all := rawjson.Array(rawjson.Get(row, "cells")); all.Next() && len(cells) <= maxColumns; {
		cells = append(cells, all.Value)
	}
	if len(cells) == 0 {
		return row
	}
	out := append([]byte(`{"cells":[`), cells[0]...) // the cluster
	for _, name := range other.names {
		cell := "null"
		if i := slices.Index(c.names, name); i >= 0 && i+1 < len(cells) {
			cell = cells[i+1]
		}
		out = append(append(out, ','), cell...)
	}
	return string(append(append(append(out, `],"object":`...), rawjson.Get(row, "object")...), '}'))
}

// Common returns the columns that a Table over clusters has: those of this cluster, or else those of most others. No cluster that has
// others is left out for it.
func Common(all []Columns, own int) (out Columns) {
	if own >= 0 && all[own].text != "" {
		return all[own]
	}
	count, most := map[string]int{}, 0
	for _, c := range all {
		if c.text == "" {
			continue
		}
		if count[c.text]++; count[c.text] > most {
			out, most = c, count[c.text]
		}
	}
	return out
}
