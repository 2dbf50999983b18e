package expression

import (
	"errors"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// iterator walks values, or JSON that is converted to values one by one. It implements traits.Iterator.
type iterator struct {
	values []ref.Val
	raw    []string
	*reader
	at int
}

var errIterator = errors.New("an iterator is no value of the language")

// HasNext reports whether there is another one.
func (i *iterator) HasNext() ref.Val { return types.Bool(i.at < len(i.values)+len(i.raw)) }

// Next returns the next one.
func (i *iterator) Next() ref.Val {
	at := i.at
	if i.at++; i.raw != nil {
		return i.value(i.raw[at])
	}
	return i.values[at]
}

// Type returns the iterator type.
func (*iterator) Type() ref.Type { return types.IteratorType }

// Value returns nil: an iterator is no value that an expression can see.
func (*iterator) Value() any { return nil }

// ConvertToNative fails.
func (*iterator) ConvertToNative(reflect.Type) (any, error) { return nil, errIterator }

// ConvertToType fails.
func (*iterator) ConvertToType(ref.Type) ref.Val { return types.WrapErr(errIterator) }

// Equal fails.
func (*iterator) Equal(ref.Val) ref.Val { return types.WrapErr(errIterator) }
