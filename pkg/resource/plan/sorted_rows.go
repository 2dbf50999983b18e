package plan

import (
	"slices"
	"strings"

	"kapis.dev/ks-apiserver/pkg/store/index"

	"github.com/tidwall/btree"
)

// row is an object and its sort values.
type row struct {
	ref *index.Ref
	// values are those of the order's keys, nil where the order is that of the refs alone.
	values *[]SortValue
}

// texts returns how many bytes the texts of the row have.
func (r row) texts() (n int64) {
	if r.values != nil {
		for i := range *r.values {
			n += int64(len((*r.values)[i].text))
		}
	}
	return n
}

// Rows are the matches of a query in its order: a counted, copy-on-write B-tree. Copies of it are read
// while it changes.
type Rows struct {
	*btree.BTreeG[row]
	texts int64 // bytes of the texts of all rows, a shared one counted for each
}

// Copy returns rows that stay as they are.
func (t *Rows) Copy() *Rows { return &Rows{BTreeG: t.BTreeG.Copy(), texts: t.texts} }

// rowBytes is the measured cost of a row in the tree; valueBytes what a key of it costs besides its text.
const (
	rowBytes   = 36
	valueBytes = 40
)

// byValues reports whether the order needs more of an object than its ref.
func (o *Order) byValues() bool { return o.base == byTime || o.base == byKeys }

// compare orders two rows. It is total: no two objects are equal.
func (o *Order) compare(a, b row) int {
	switch o.base {
	case byCreated:
		return index.CompareCreated(a.ref, b.ref)
	case byName:
		return index.CompareName(a.ref, b.ref)
	case byNamespace:
		return index.CompareKey(a.ref, b.ref)
	}
	for i := range o.keys {
		var c int
		if key := &o.keys[i]; key.refs != nil {
			c = key.refs(a.ref, b.ref)
		} else {
			c = (*a.values)[i].Compare((*b.values)[i])
		}
		if c != 0 {
			return c
		}
	}
	return index.CompareKey(a.ref, b.ref)
}

// row returns the row of a record. Its texts are substrings of the record's JSON, so it must not be stored.
func (o *Order) row(r *index.Record) row {
	if !o.byValues() {
		return row{ref: r.Ref}
	}
	values := make([]SortValue, len(o.keys))
	o.read(r, values)
	return row{ref: r.Ref, values: &values}
}

func (o *Order) read(r *index.Record, values []SortValue) {
	for i := range o.keys {
		if value := o.keys[i].value; value != nil {
			values[i] = value(r)
		}
	}
}

// texts copies the texts of rows, so that a row does not keep the JSON of an old version alive. Equal texts are shared.
type texts map[string]string

// maxTexts bounds how many are shared.
const maxTexts = 1024

func (t texts) own(values []SortValue) {
	for i := range values {
		v := &values[i].text
		if *v == "" {
			continue
		}
		shared, ok := t[*v]
		if !ok {
			shared = strings.Clone(*v)
			if t != nil && len(t) < maxTexts {
				t[shared] = shared
			}
		}
		*v = shared
	}
}

// NewRows puts refs in order. ordered says that they are in order already.
func (o *Order) NewRows(snap *index.Snapshot, refs []*index.Ref, ordered bool) *Rows {
	list := make([]row, len(refs))
	for i, ref := range refs {
		list[i].ref = ref
	}
	if o.byValues() {
		n, shared := len(o.keys), texts{}
		values, lists := make([]SortValue, n*len(refs)), make([][]SortValue, len(refs))
		for i, ref := range refs {
			lists[i] = values[i*n : (i+1)*n : (i+1)*n]
			o.read(snap.Record(ref), lists[i])
			shared.own(lists[i])
			list[i].values = &lists[i]
		}
	}
	if !ordered {
		slices.SortFunc(list, o.compare)
	}
	own := Order{base: o.base, keys: o.keys} // outlives the query
	out := &Rows{BTreeG: btree.NewBTreeGOptions(func(a, b row) bool { return own.compare(a, b) < 0 }, btree.Options{NoLocks: true})}
	for _, r := range list {
		out.Load(r)
		out.texts += r.texts()
	}
	return out
}

// Apply applies one change: was is what matched before, is what matches now, nil for nothing.
func (o *Order) Apply(t *Rows, was, is *index.Record) {
	switch {
	case was != nil && is != nil:
		from, to := o.row(was), o.row(is)
		if was.Ref == is.Ref && (from.values == nil || o.compare(from, to) == 0) {
			return
		}
		t.remove(from)
		t.insert(to)
	case was != nil:
		t.remove(o.row(was))
	case is != nil:
		t.insert(o.row(is))
	}
}

func (t *Rows) remove(r row) {
	if gone, ok := t.Delete(r); ok {
		t.texts -= gone.texts()
	}
}

func (t *Rows) insert(r row) {
	if r.values != nil {
		texts(nil).own(*r.values)
	}
	if before, ok := t.Set(r); ok {
		t.texts -= before.texts()
	}
	t.texts += r.texts()
}

// Bytes returns roughly what rows of the order cost.
func (o *Order) Bytes(t *Rows) int64 {
	one := rowBytes
	if o.byValues() {
		one += 24 + len(o.keys)*(valueBytes+16)
	}
	return int64(t.Len())*int64(one) + t.texts
}
