package merge

import (
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// columnCluster is the first column of a Table over clusters.
const columnCluster = `{"name":"Cluster","type":"string","format":"","description":"The cluster that the object is of","priority":0}`

// acceptTable asks a cluster for a Table.
const acceptTable = "application/json;as=Table;g=meta.k8s.io;v=v1"

// AsTable has the answer be a Table of Kubernetes, whose first column is the cluster.
func (o *Options) AsTable() {
	o.table = true
	if o.values.Get("includeObject") == "None" { // rows are told apart by their objects
		o.values.Del("includeObject")
	}
}

// identify reads which object an item, or a row of a Table, is.
func (o *Options) identify(item string) (identity, error) {
	if !o.table {
		return identify(item)
	}
	object, err := only(item, "object")
	if err != nil {
		return identity{}, err
	}
	return identify(object)
}

// ofCluster returns an item, or a row of a Table, that says of which cluster it is.
func (o *Options) ofCluster(item, cluster string) (string, error) {
	if !o.table {
		return ofCluster(item, cluster)
	}
	object, err := only(item, "object")
	if err != nil {
		return "", err
	}
	cells, err := only(item, "cells")
	if err != nil || !strings.HasPrefix(cells, "[") {
		return "", faulty()
	}
	if object, err = ofCluster(object, cluster); err != nil {
		return "", err
	}
	return `{"cells":` + first(string(rawjson.AppendString(nil, cluster)), cells) + `,"object":` + object + `}`, nil
}

// objectOf returns the object of an item, or of a row of a Table.
func (o *Options) objectOf(item string) string {
	if !o.table {
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

// columns are those of one cluster's Table.
type columns struct {
	text  string // as the cluster sent them
	names []string
}

// maxColumns bounds the columns of a Table.
const maxColumns = 200

// columnsOf returns the columns of a cluster's Table, without names where it has none.
func columnsOf(table string) (columns, error) {
	text, err := only(table, "columnDefinitions")
	switch {
	case err != nil:
		return columns{}, err
	case text == "" || text == "null":
		return columns{}, nil
	}
	out := columns{text: text}
	for all := rawjson.Array(text); all.Next(); {
		name := rawjson.GetText(all.Value, "name")
		if name == "" || len(name) > maxName || len(out.names) >= maxColumns {
			return columns{}, faulty()
		}
		out.names = append(out.names, name)
	}
	return out, nil
}

// shown returns the columns of an answer: the cluster comes first.
func (c columns) shown() string {
	if c.text == "" {
		return "[" + columnCluster + "]"
	}
	return first(columnCluster, c.text)
}

// as returns a row of a Table with columns c as one of a Table with others: by the names of columns, and null where it has none.
func (c columns) as(other columns, row string) string {
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

// common returns the columns that a Table over clusters has: those of this cluster, or else those of most others. No cluster that has others
// is left out for it.
func common(all []columns, own int) (out columns) {
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

// eventOf returns the object of an event, as it is sent: with its cluster. A Table has one row, and columns in the first event of a stream.
func (o *Options) eventOf(object, cluster string) (text string, of columns, err error) {
	if !o.table {
		id, err := identify(object)
		if err != nil || id.name == "" {
			return "", of, faulty()
		}
		text, err = ofCluster(object, cluster)
		return text, of, err
	}
	rows, err := only(object, "rows")
	if err != nil {
		return "", of, err
	}
	var row string
	n := 0
	for all := rawjson.Array(rows); all.Next(); n++ {
		row = all.Value
	}
	if id, err := o.identify(row); err != nil || n != 1 || id.name == "" {
		return "", of, faulty()
	}
	if of, err = columnsOf(object); err != nil {
		return "", of, err
	}
	text, err = o.ofCluster(row, cluster)
	return text, of, err
}
