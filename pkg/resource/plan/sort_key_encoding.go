package plan

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"strings"

	"kapis.dev/ks-apiserver/pkg/query"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/store/index"
)

// createdValue is the sort value of the default order.
func createdValue(r *index.Ref) SortValue {
	return SortValue{class: classTime, number: float64(r.Created)}
}

// append appends the value as bytes that compare as values do. No value's bytes are the beginning of another's, so that the bytes of
// several values compare as the first that differ.
func (a SortValue) append(dst []byte) []byte {
	dst = append(dst, a.class)
	switch a.class {
	case classMissing:
		return dst
	case classText:
		for rest := a.text; ; {
			n := strings.IndexByte(rest, 0)
			if n < 0 {
				return append(append(dst, rest...), 0, 1)
			}
			dst = append(append(dst, rest[:n]...), 0, 0xff)
			rest = rest[n+1:]
		}
	}
	bits := math.Float64bits(a.number + 0) // -0 is 0
	if bits>>63 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(dst, bits)
}

// AppendKey appends the sort values of an object as bytes that compare, in each cluster, as the order does.
func (o *Order) AppendKey(dst []byte, r *index.Record) []byte {
	if len(o.keys) == 0 {
		return createdValue(r.Ref).append(dst)
	}
	for i := range o.keys {
		if k := &o.keys[i]; k.ofRef != nil {
			dst = k.ofRef(r.Ref).append(dst)
		} else {
			dst = k.value(r).append(dst)
		}
	}
	return dst
}

// Key returns the sort values of an object for lists that are merged. The error is a 400 for values that are too long.
func (o *Order) Key(r *index.Record) (string, error) {
	key := o.AppendKey(nil, r)
	if len(key) > query.MaxKey {
		return "", status.Errorf(http.StatusBadRequest, "%s", fmt.Sprintf("query parameter \"sortBy\": the values of %q are longer than the"+
			" %d bytes by which lists are merged", r.Name, query.MaxKey))
	}
	return string(key), nil
}
