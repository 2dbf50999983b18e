package table

import (
	"iter"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

// value is JSON as it is in an object, "" for what is not there.
type value string

// at returns the value at a path of member names.
func (v value) at(path ...string) value { return value(rawjson.Get(string(v), path...)) }

// text returns the text of the scalar at a path, "" where there is none.
func (v value) text(path ...string) string { return rawjson.GetText(string(v), path...) }

// number returns the integer at a path, 0 where there is none.
func (v value) number(path ...string) int64 {
	n, err := strconv.ParseInt(rawjson.Get(string(v), path...), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// is reports whether the value at a path is true.
func (v value) is(path ...string) bool { return rawjson.Get(string(v), path...) == "true" }

// has reports whether there is a value at a path that is not null.
func (v value) has(path ...string) bool {
	found := rawjson.Get(string(v), path...)
	return found != "" && found != "null"
}

// time returns the time at a path, the zero time where there is none.
func (v value) time(path ...string) time.Time {
	t, err := time.Parse(time.RFC3339, v.text(path...))
	if err != nil {
		return time.Time{}
	}
	return t
}

// each returns the elements of an array.
func (v value) each() iter.Seq2[int, value] {
	return func(yield func(int, value) bool) {
		i := 0
		for e := rawjson.Array(string(v)); e.Next(); i++ {
			if !yield(i, value(e.Value)) {
				return
			}
		}
	}
}

// members returns the members of an object, in the order of the text.
func (v value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		for m := rawjson.Object(string(v)); m.Next(); {
			if !yield(m.Key, value(m.Value)) {
				return
			}
		}
	}
}

// length returns how many elements an array has, or members an object.
func (v value) length() int {
	n := 0
	for range v.each() {
		n++
	}
	for range v.members() {
		n++
	}
	return n
}

// texts returns the scalars at a path in each element of an array, without empty ones.
func (v value) texts(path ...string) []string {
	var out []string
	for _, e := range v.each() {
		if t := e.text(path...); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// condition returns the condition of a type in an array of conditions.
func (v value) condition(typ string) value {
	for _, c := range v.each() {
		if c.text("type") == typ {
			return c
		}
	}
	return ""
}

// holds reports whether a condition of a type is True.
func (v value) holds(typ string) bool { return v.condition(typ).text("status") == "True" }
