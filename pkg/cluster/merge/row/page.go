package row

import (
	"encoding/json"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// Page is a page of keys, as a cluster wrote it.
type Page struct {
	// Total is how many objects match, and Start how many of them are before the page.
	Total, Start int
	// Version is the resource version of the list, as the cluster sent it: it is not validated.
	Version string
	Facets  map[string]map[string]int
	Others  map[string]int
	// Rows are the keys, a JSON array, "" for none.
	Rows string
	// Items are objects of some of them.
	Items []Object
}

// Object is an object as its cluster sent it.
type Object struct {
	Text string
	Identity
}

// MaxDepth bounds how deeply what a cluster sends is nested.
const MaxDepth = 100

// ParsePage reads a page in place, each byte of its objects once, and refuses what is no valid JSON. No number in it is above most, and it
// has no more objects than that.
func ParsePage(text string, most, objects int) (out Page, err error) {
	out.Total = -1
	m := rawjson.ObjectWithin(text, MaxDepth)
	for err == nil && m.NextName() {
		if m.Key == "items" && m.IsArray() {
			err = out.readItems(&m, objects)
			continue
		}
		m.Read()
		switch m.Key {
		case "totalItems":
			out.Total, err = strconv.Atoi(m.Value)
		case "start":
			out.Start, err = strconv.Atoi(m.Value)
		case "metadata":
			out.Version = rawjson.GetText(m.Value, "resourceVersion")
		case "facets":
			err = json.Unmarshal([]byte(m.Value), &out.Facets)
		case "facetsOthers":
			err = json.Unmarshal([]byte(m.Value), &out.Others)
		case "rows":
			if out.Rows = m.Value; m.Value == "null" {
				out.Rows = ""
			}
		}
	}
	switch {
	case err != nil:
		return Page{}, err
	case !m.Whole():
		return Page{}, ErrFaulty
	case out.Rows == "":
		return out, nil
	case out.Rows[0] != '[', out.Total < 0, out.Total > most, out.Start < 0, out.Start > out.Total, !areCounts(out.Others, most):
		return Page{}, ErrFaulty
	}
	for _, f := range out.Facets {
		if !areCounts(f, most) {
			return Page{}, ErrFaulty
		}
	}
	return out, nil
}

// readItems reads the objects that a walk over the page has come to.
func (p *Page) readItems(page *rawjson.Members, most int) (err error) {
	if p.Items != nil {
		return ErrFaulty
	}
	p.Items = []Object{}
	page.Objects(func(o *rawjson.Members) {
		if err != nil {
			return
		}
		var id Identity
		if id, err = identifyBy(o); err == nil && len(p.Items) >= most {
			err = ErrFaulty
		}
		if err == nil {
			p.Items = append(p.Items, Object{o.Text(), id})
		}
	})
	return err
}

func areCounts(of map[string]int, most int) bool {
	for _, n := range of {
		if n < 0 || n > most {
			return false
		}
	}
	return true
}

// ParseKey reads a row of a page of keys: sort values, namespace, name, UID and resource version.
func ParseKey(text string) (out [5]string, ok bool) {
	n := 0
	for all := rawjson.Array(text); all.Next(); n++ {
		if n == len(out) || all.Value[0] != '"' {
			return out, false
		}
		out[n] = rawjson.Text(all.Value)
	}
	return out, n == len(out)
}
