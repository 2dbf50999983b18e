package row

import (
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// columnCluster is the first column of a Table over clusters.
const columnCluster = `{"name":"Cluster","type":"string","format":"","description":"The cluster that the object is of","priority":0}`

// AcceptTable asks a cluster for a Table.
const AcceptTable = "application/json;as=Table;g=meta.k8s.io;v=v1"

// Form is how items are sent.
type Form struct {
	// Table says that they are rows of Tables.
	Table bool
}

// Identify reads which object an item, or a row of a Table, is.
func (f Form) Identify(item string) (Identity, error) {
	if !f.Table {
		return identify(item)
	}
	object, err := Only(item, "object")
	if err != nil {
		return Identity{}, err
	}
	return identify(object)
}

// OfCluster returns an item, or a row of a Table, that says of which cluster it is.
func (f Form) OfCluster(item, cluster string) (string, error) {
	if !f.Table {
		return ofCluster(item, cluster)
	}
	object, err := Only(item, "object")
	if err != nil {
		return "", err
	}
	cells, err := Only(item, "cells")
	if err != nil || !strings.HasPrefix(cells, "[") {
		return "", ErrFaulty
	}
	if object, err = ofCluster(object, cluster); err != nil {
		return "", err
	}
	return `{"cells":` + first(string(rawjson.AppendString(nil, cluster)), cells) + `,"object":` + object + `}`, nil
}

// Mark is OfCluster of an item that is valid JSON, and whose Identity is known.
func (f Form) Mark(item string, id Identity, cluster string) (Item, error) {
	if f.Table || id.marked {
		text, err := f.OfCluster(item, cluster)
		return Item{text: text}, err
	}
	return annotated(item, cluster)
}

// Object returns the object of an item, or of a row of a Table.
func (f Form) Object(item string) string {
	if !f.Table {
		return item
	}
	return rawjson.Get(item, "object")
}

// first returns a list with another first element.
func first(element, list string) string {
	rest := strings.TrimSpace(list[1 : len(list)-1])
	if rest != "" {
		element += ","
	}
	return "[" + element + rest + "]"
}

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

// Event returns the object of an event, as it is sent: with its cluster. A Table has one row, and columns in the first event of a stream.
func (f Form) Event(object, cluster string) (text string, of Columns, err error) {
	if !f.Table {
		id, err := identify(object)
		if err != nil || id.Name == "" {
			return "", of, ErrFaulty
		}
		text, err = ofCluster(object, cluster)
		return text, of, err
	}
	rows, err := Only(object, "rows")
	if err != nil {
		return "", of, err
	}
	var row string
	n := 0
	for all := rawjson.Array(rows); all.Next(); n++ {
		row = all.Value
	}
	if id, err := f.Identify(row); err != nil || n != 1 || id.Name == "" {
		return "", of, ErrFaulty
	}
	if of, err = ColumnsOf(object); err != nil {
		return "", of, err
	}
	text, err = f.OfCluster(row, cluster)
	return text, of, err
}
