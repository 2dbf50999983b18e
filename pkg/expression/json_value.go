package expression

import (
	"reflect"
	"strconv"
	"strings"

	"kapis.dev/ks-apiserver/pkg/rawjson"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	kjson "sigs.k8s.io/json"
)

// minReads is how many bytes may be read of the smallest object.
const minReads = 64 << 10

// reader converts JSON to values, and counts the bytes that it reads: CEL's own cost counts the lookup of a member as one step, however
// far it is.
type reader struct{ left int }

// charge ends the evaluation if too much was read. The interpreter itself ends one by a panic of this type; Program.Eval returns it as an
// error.
func (r *reader) charge(n int) {
	if r.left -= n; r.left < 0 {
		panic(interpreter.EvalCancelledError{Message: "too much of the object was read", Cause: interpreter.CostLimitExceeded})
	}
}

// value returns a JSON value as a CEL value. Whole numbers of 64 bits are int, others double.
func (r *reader) value(raw string) ref.Val {
	if raw == "" {
		return types.NullValue
	}
	switch raw[0] {
	case '{':
		return &mapping{text: raw, reader: r}
	case '[':
		return &sequence{text: raw, reader: r}
	case '"':
		r.charge(len(raw))
		return types.String(rawjson.Text(raw))
	case 't':
		return types.True
	case 'f':
		return types.False
	case 'n':
		return types.NullValue
	}
	return number(raw)
}

func number(raw string) ref.Val {
	if !strings.ContainsAny(raw, ".eE") {
		if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
			return types.Int(n)
		}
	}
	f, err := strconv.ParseFloat(raw, 64)
	if err != nil {
		return types.WrapErr(err)
	}
	return types.Double(f)
}

// decoded returns a Go value, for the few functions that need one.
func (r *reader) decoded(text string) any {
	r.charge(len(text))
	var v any
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &v); err != nil {
		return nil
	}
	return v
}

// native converts to the type that typeDesc describes, by way of CEL's own values.
func native(v any, typeDesc reflect.Type) (any, error) {
	return types.DefaultTypeAdapter.NativeToValue(v).ConvertToNative(typeDesc)
}

// member is one member of an object.
type member struct{ key, value string }

// mapping is a JSON object as a CEL map. It implements traits.Mapper.
type mapping struct {
	text string
	*reader

	// members are those that were read so far, for the object itself: its few members are read often, and the last comes after all the
	// others.
	members []member
	root    bool
	rest    rawjson.Members
}

// reset makes m the root of another object.
func (m *mapping) reset(text string) {
	m.text, m.root, m.members, m.rest = text, true, m.members[:0], rawjson.Object(text)
}

// get returns the JSON of a member.
func (m *mapping) get(key string) (string, bool) {
	if m.root {
		return m.known(key)
	}
	walk := rawjson.Object(m.text)
	for walk.Next() {
		m.charge(len(walk.Key) + len(walk.Value) + 1)
		if walk.Key == key {
			return walk.Value, true
		}
	}
	return "", false
}

// known is get for the root, which is read once.
func (m *mapping) known(key string) (string, bool) {
	for _, one := range m.members {
		m.charge(1)
		if one.key == key {
			return one.value, true
		}
	}
	for m.rest.Next() {
		m.charge(len(m.rest.Key) + len(m.rest.Value) + 1)
		m.members = append(m.members, member{m.rest.Key, m.rest.Value})
		if m.rest.Key == key {
			return m.rest.Value, true
		}
	}
	return "", false
}

// Find returns a member's value. It is how the fields of an object are read.
func (m *mapping) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	raw, ok := m.get(string(name))
	if !ok {
		return nil, false
	}
	return m.value(raw), true
}

// Get returns a member's value, or an error.
func (m *mapping) Get(key ref.Val) ref.Val {
	if v, ok := m.Find(key); ok {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

// Contains reports whether there is a member of that name.
func (m *mapping) Contains(key ref.Val) ref.Val {
	_, ok := m.Find(key)
	return types.Bool(ok)
}

// Size returns how many members there are.
func (m *mapping) Size() ref.Val {
	m.charge(len(m.text))
	n := 0
	for walk := rawjson.Object(m.text); walk.Next(); {
		n++
	}
	return types.Int(n)
}

// IsZeroValue reports whether there are no members.
func (m *mapping) IsZeroValue() bool { return m.Size() == types.IntZero }

// Equal compares with another map, member by member.
func (m *mapping) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	if !ok || m.Size() != o.Size() {
		return types.False
	}
	walk := rawjson.Object(m.text)
	for walk.Next() {
		m.charge(len(walk.Key) + 1)
		theirs, ok := o.Find(types.String(walk.Key))
		if !ok {
			return types.False
		}
		if eq := types.Equal(m.value(walk.Value), theirs); eq != types.True {
			return eq
		}
	}
	return types.True
}

// Iterator returns the names of the members.
func (m *mapping) Iterator() traits.Iterator {
	m.charge(len(m.text))
	it := &iterator{}
	for walk := rawjson.Object(m.text); walk.Next(); {
		it.values = append(it.values, types.String(walk.Key))
	}
	return it
}

// Type returns the map type.
func (*mapping) Type() ref.Type { return types.MapType }

// Value returns the map as a Go value.
func (m *mapping) Value() any { return m.decoded(m.text) }

// ConvertToNative converts to a map of Go.
func (m *mapping) ConvertToNative(typeDesc reflect.Type) (any, error) {
	return native(m.Value(), typeDesc)
}

// ConvertToType converts to map and to type.
func (m *mapping) ConvertToType(t ref.Type) ref.Val { return convert(m, types.MapType, t) }

// sequence is a JSON array as a CEL list. It implements traits.Lister.
type sequence struct {
	text string
	*reader
	elements []string
	read     bool
}

// all returns the JSON of the elements, which is found once.
func (s *sequence) all() []string {
	if !s.read {
		s.charge(len(s.text))
		for walk := rawjson.Array(s.text); walk.Next(); {
			s.elements = append(s.elements, walk.Value)
		}
		s.read = true
	}
	return s.elements
}

// Get returns an element, or an error.
func (s *sequence) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.WrapErr(err)
	}
	all := s.all()
	if i < 0 || i >= len(all) {
		return types.NewErr("index '%d' out of range in list of size '%d'", i, len(all))
	}
	return s.value(all[i])
}

// Contains reports whether an element is equal to v.
func (s *sequence) Contains(v ref.Val) ref.Val {
	for _, raw := range s.all() {
		s.charge(1)
		if types.Equal(v, s.value(raw)) == types.True {
			return types.True
		}
	}
	return types.False
}

// Size returns how many elements there are.
func (s *sequence) Size() ref.Val { return types.Int(len(s.all())) }

// IsZeroValue reports whether there are no elements.
func (s *sequence) IsZeroValue() bool { return len(s.all()) == 0 }

// Add returns this list followed by another.
func (s *sequence) Add(other ref.Val) ref.Val {
	all := s.all()
	values := make([]ref.Val, len(all))
	for i, raw := range all {
		values[i] = s.value(raw)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, values).(traits.Adder).Add(other)
}

// Equal compares with another list, element by element.
func (s *sequence) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok || s.Size() != o.Size() {
		return types.False
	}
	for i, raw := range s.all() {
		s.charge(1)
		if eq := types.Equal(s.value(raw), o.Get(types.Int(i))); eq != types.True {
			return eq
		}
	}
	return types.True
}

// Iterator returns the elements.
func (s *sequence) Iterator() traits.Iterator { return &iterator{raw: s.all(), reader: s.reader} }

// Type returns the list type.
func (*sequence) Type() ref.Type { return types.ListType }

// Value returns the list as a Go value.
func (s *sequence) Value() any { return s.decoded(s.text) }

// ConvertToNative converts to a slice of Go.
func (s *sequence) ConvertToNative(typeDesc reflect.Type) (any, error) {
	return native(s.Value(), typeDesc)
}

// ConvertToType converts to list and to type.
func (s *sequence) ConvertToType(t ref.Type) ref.Val { return convert(s, types.ListType, t) }

func convert(v ref.Val, own *types.Type, to ref.Type) ref.Val {
	switch to {
	case own:
		return v
	case types.TypeType:
		return own
	}
	return types.NewErr("type conversion error from '%s' to '%s'", own, to)
}
