// Package version encodes the resource versions of several clusters as one.
package version

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/query"
)

// mostClusters bounds the clusters of one version.
const mostClusters = 512

// sumSize is how many bytes stand for a cluster in a version; a resource version has ten at most.
const sumSize = 6

// Versions are the resource versions of clusters that a client has seen.
type Versions map[[sumSize]byte]uint64

func sumOf(name, uid string) (out [sumSize]byte) {
	d := sha256.Sum256(AppendParts(nil, name, uid))
	copy(out[:], d[:])
	return out
}

// AppendParts appends texts with their number and lengths, so that no other texts, and no others before or after them, make the same.
func AppendParts(dst []byte, parts ...string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(parts)))
	for _, s := range parts {
		dst = append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	}
	return dst
}

// Of returns the version of a cluster, "" where there is none.
func (v Versions) Of(name, uid string) string {
	if n := v[sumOf(name, uid)]; n > 0 {
		return strconv.FormatUint(n, 10)
	}
	return ""
}

// Set records the version of a cluster.
func (v Versions) Set(name, uid, version string) {
	if n, err := strconv.ParseUint(version, 10, 64); err == nil && n > 0 {
		v[sumOf(name, uid)] = n
	}
}

// Forget forgets the version of a cluster.
func (v Versions) Forget(name, uid string) { delete(v, sumOf(name, uid)) }

// String returns one resource version for all clusters: opaque, of at most 16 bytes a cluster before it is encoded.
func (v Versions) String() string {
	sums := make([][sumSize]byte, 0, len(v))
	for s := range v {
		sums = append(sums, s)
	}
	slices.SortFunc(sums, func(a, b [sumSize]byte) int { return slices.Compare(a[:], b[:]) })
	text := make([]byte, 0, len(v)*(sumSize+4)+1)
	text = append(text, 1)
	for _, s := range sums {
		text = binary.AppendUvarint(append(text, s[:]...), v[s])
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// Parse reads what String returns; "" and 0 are none.
func Parse(s string) (Versions, error) {
	out := Versions{}
	if s == "" || s == "0" {
		return out, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	bad := err != nil || len(text) == 0 || text[0] != 1 || len(text) > 1+mostClusters*(sumSize+binary.MaxVarintLen64)
	for rest := text[min(1, len(text)):]; !bad && len(rest) > 0; {
		if len(rest) < sumSize {
			bad = true
			break
		}
		n, used := binary.Uvarint(rest[sumSize:])
		if bad = used <= 0; !bad {
			out[[sumSize]byte(rest)] = n
			rest = rest[sumSize+used:]
		}
	}
	if bad {
		return nil, query.Invalid("resourceVersion", s, "the resourceVersion of an answer over several clusters")
	}
	return out, nil
}
