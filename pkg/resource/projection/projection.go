// Package projection cuts objects down to the fields that a query asks for.
package projection

import (
	"slices"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
)

// Projection cuts objects down to the fields that a query asks for. Fields stay where they were: objects around them are
// rebuilt, and objects with none of them are left out. A step through an array that is no index goes into all of its
// elements; an index keeps that element alone. apiVersion and kind are always there.
type Projection struct {
	root *branch
	// Key is equal for projections with the same outcome.
	Key string
}

// branch is what is requested of one value.
type branch struct {
	step  string
	whole bool
	below []*branch
	// each is what is requested of every element, where the value is an array; nil for nothing.
	each *branch
}

// New returns nil for no paths: nothing is cut.
func New(paths []query.Path) *Projection {
	if len(paths) == 0 {
		return nil
	}
	p := &Projection{root: &branch{}}
	keys := make([]string, len(paths)) // each can be parsed back, so that two paths never have one text
	for i, path := range paths {
		keys[i] = path.String()
		p.root.add(path)
	}
	p.root.add(query.Path{"apiVersion"})
	p.root.add(query.Path{"kind"})
	p.root.complete()
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		p.Key += string(lru.AppendPart(nil, key))
	}
	return p
}

func (b *branch) add(path query.Path) {
	at := b
	for _, step := range path {
		i := slices.IndexFunc(at.below, func(c *branch) bool { return c.step == step })
		if i < 0 {
			i = len(at.below)
			at.below = append(at.below, &branch{step: step})
		}
		at = at.below[i]
	}
	at.whole = true
}

// complete computes what is requested of elements, here and below.
func (b *branch) complete() {
	each := &branch{}
	for _, c := range b.below {
		c.complete()
		if c.step == "" || strings.Trim(c.step, "0123456789") != "" {
			each.below = append(each.below, c)
		}
	}
	if len(each.below) > 0 {
		each.each = each // an array in an array
		b.each = each
	}
}

// Append appends what is requested of the object json, at least {}.
func (p *Projection) Append(dst []byte, json string) []byte {
	out, ok := appendPart(dst, json, []*branch{p.root})
	if !ok {
		return append(dst, "{}"...)
	}
	return out
}

// appendPart appends what branches request of a value, and reports whether there is anything.
func appendPart(dst []byte, value string, branches []*branch) ([]byte, bool) {
	if slices.ContainsFunc(branches, func(b *branch) bool { return b.whole }) {
		return append(dst, value...), true
	}
	if len(branches) == 0 || value == "" {
		return dst, false
	}
	start := len(dst)
	switch value[0] {
	case '{':
		dst = appendMembers(append(dst, '{'), value, branches)
		if len(dst) > start+1 {
			return append(dst, '}'), true
		}
	case '[':
		dst = appendElements(append(dst, '['), value, branches)
		if len(dst) > start+1 {
			return append(dst, ']'), true
		}
	}
	return dst[:start], false
}

func appendMembers(dst []byte, object string, branches []*branch) []byte {
	start := len(dst)
	var asked [4]*branch
	for m := rawjson.Object(object); m.Next(); {
		below := asked[:0]
		for _, b := range branches {
			for _, c := range b.below {
				if c.step == m.Key {
					below = append(below, c)
				}
			}
		}
		if len(below) == 0 {
			continue
		}
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		out, ok := appendPart(append(rawjson.AppendString(dst, m.Key), ':'), m.Value, below)
		if dst = out; !ok {
			dst = dst[:before]
		}
	}
	return dst
}

func appendElements(dst []byte, array string, branches []*branch) []byte {
	start, i := len(dst), 0
	var asked [4]*branch
	for e := rawjson.Array(array); e.Next(); i++ {
		index, below := strconv.Itoa(i), asked[:0]
		for _, b := range branches {
			if b.each != nil {
				below = append(below, b.each)
			}
			for _, c := range b.below {
				if c.step == index {
					below = append(below, c)
				}
			}
		}
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		out, ok := appendPart(dst, e.Value, below)
		if dst = out; !ok {
			dst = dst[:before]
		}
	}
	return dst
}
