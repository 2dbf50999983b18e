package row

import (
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

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
